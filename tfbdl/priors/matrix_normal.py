"""The matrix normal prior: a covariance of rows and one of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras

from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.covariance import Covariance
from tfbdl.priors.kronecker_normal import KroneckerNormal


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class MatrixNormal(KroneckerNormal):
    """Cov(W_ij, W_kl) = scale^2 row_covariance_ik column_covariance_jl.

    The weight is seen as a matrix with a row for each input and a column for each output unit: the
    rows of a convolution's kernel are its positions and input channels, and a bias is one row.

    Args:
        row_covariance: shape (R, R), symmetric and positive definite.
        column_covariance: shape (C, C), symmetric and positive definite.
        scale: multiplies all standard deviations, > 0.
        trainable: whether `scale` is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if a covariance is none, `scale` not a positive number, or when it is given to a
            weight that has not R rows and C columns.
    """

    def __init__(
        self,
        row_covariance: Any,
        column_covariance: Any,
        scale: float = 1.0,
        *,
        trainable: bool = False,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(scale, trainable=trainable, **kwargs)
        self._rows = Covariance("row_covariance", row_covariance)
        self._columns = Covariance("column_covariance", column_covariance)

    def factors(self, shape: Sequence[int]) -> list[Covariance]:
        needed = {"row_covariance": math.prod(shape[:-1]), "column_covariance": shape[-1]}
        for (name, size), c in zip(needed.items(), (self._rows, self._columns), strict=True):
            if c.size != size:
                raise ValueError(
                    f"{name} of shape {c.matrix.shape} does not fit a weight of shape "
                    f"{tuple(shape)}, which needs {(size, size)}"
                )
        return [self._rows, self._columns]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "row_covariance": self._rows.matrix.tolist(),
            "column_covariance": self._columns.matrix.tolist(),
        }
