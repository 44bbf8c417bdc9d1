"""The multivariate normal prior, with a covariance of all weights of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras

from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.covariance import Covariance
from tfbdl.priors.kronecker_normal import KroneckerNormal


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class MultivariateNormal(KroneckerNormal):
    """vec(w) ~ N(0, scale^2 covariance), over the D weights of a tensor in row-major order.

    Args:
        covariance: shape (D, D), symmetric and positive definite.
        scale: multiplies all standard deviations, > 0.
        trainable: whether `scale` is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `covariance` is not a covariance matrix, `scale` not a positive number, or
            when it is given to a tensor that has not D weights.
    """

    def __init__(
        self,
        covariance: Any,
        scale: float = 1.0,
        *,
        trainable: bool = False,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(scale, trainable=trainable, **kwargs)
        self._covariance = Covariance("covariance", covariance)

    def factors(self, shape: Sequence[int]) -> list[Covariance]:
        size = math.prod(shape)
        if size != self._covariance.size:
            raise ValueError(
                f"covariance of shape {self._covariance.matrix.shape} does not fit a weight of "
                f"shape {tuple(shape)}, which needs {(size, size)}"
            )
        return [self._covariance]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "covariance": self._covariance.matrix.tolist()}
