"""A prior under which the filters of a convolution are smooth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import keras
import numpy as np

from tfbdl.arguments import positive
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.covariance import Covariance
from tfbdl.priors.kronecker_normal import KroneckerNormal


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class SpatialNormal(KroneckerNormal):
    """Weights of one filter at a distance d have the correlation exp(-d^2 / (2 lengthscale^2)).

    It is the kernel of a Gaussian process over the positions of a filter, a product over their
    axes. Input and output channels are independent. Filters of trained networks are correlated in
    space (Fortuin et al. 2022, "Bayesian neural network priors revisited").

    Args:
        lengthscale: the distance, in positions, over which weights are alike, > 0.
        scale: the standard deviation of each weight, > 0.
        trainable: whether `scale` is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `lengthscale` or `scale` is not a positive number, or when it is given to a
            weight without positions, or with more of them in a row than float32 can tell apart: at
            a lengthscale of 2 that is 11, at 4 it is 5, at 20 it is 3.
    """

    def __init__(
        self,
        lengthscale: float = 1.0,
        scale: float = 1.0,
        *,
        trainable: bool = False,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(scale, trainable=trainable, **kwargs)
        self.lengthscale = positive("lengthscale", lengthscale, "a positive number of positions")

    def factors(self, shape: Sequence[int]) -> list[Covariance]:
        if len(shape) < 3:
            raise ValueError(
                "prior=SpatialNormal needs a kernel with positions, input and output channels, "
                f"not a weight of shape {tuple(shape)}; use 'normal'"
            )
        return [_gaussian_kernel(n, self.lengthscale) for n in shape[:-2]]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "lengthscale": self.lengthscale}


@lru_cache
def _gaussian_kernel(n: int, lengthscale: float) -> Covariance:
    distance = np.subtract.outer(np.arange(n), np.arange(n)) / lengthscale
    try:
        return Covariance("kernel", np.exp(-0.5 * np.square(distance)))
    except ValueError:
        raise ValueError(
            f"lengthscale={lengthscale:g} is too long for {n} positions in a row, which float32 "
            "cannot tell apart at it; use a shorter one"
        ) from None
