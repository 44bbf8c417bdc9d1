"""Student's t as a hierarchy: normal weights whose variance is inverse-gamma distributed."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.arguments import positive
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.groups import Groups
from tfbdl.priors.hierarchical import Hierarchical
from tfbdl.priors.hyperpriors import InverseGamma


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class InverseGammaScale(Hierarchical):
    """w ~ N(0, s^2) with s^2 ~ InverseGamma(df / 2, df scale^2 / 2) for each group of weights.

    With s integrated out, weights of one group have a multivariate t distribution, and one on its
    own has `StudentT(df, scale)`.

    Args:
        df: degrees of freedom, > 0; few leave s free, many hold it at `scale`.
        scale: the mode of log s, > 0.
        groups: the weights that share an s: `"weight"`, `"input"`, `"output"`, `"layer"`, or the
            number of equal parts of the last axis (the gates of an LSTM: 4, of a GRU: 3).
        trainable: whether q(s) is learned.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        df: float = 3.0,
        scale: float = 1.0,
        groups: str | int = "weight",
        *,
        trainable: bool = True,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        self.df = positive("df", df, "positive: degrees of freedom")
        self.mode = positive("scale", scale)
        self.groups = groups
        hyperprior = InverseGamma(0.5 * self.df, 0.5 * self.df * self.mode**2)
        super().__init__({"scale": (Groups(groups), hyperprior)}, trainable=trainable, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = {"df": self.df, "scale": self.mode, "groups": self.groups}
        return {**super().get_config(), **config}
