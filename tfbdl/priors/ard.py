"""Automatic relevance determination: a scale for each input, learned from the data."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.arguments import positive
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.groups import Groups
from tfbdl.priors.hierarchical import Hierarchical
from tfbdl.priors.hyperpriors import InverseGamma


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class ARD(Hierarchical):
    """w ~ N(0, s^2) with a precision s^-2 ~ Gamma(shape, rate) for the weights of each input.

    Inputs that say nothing about y end with small scales, and are switched off (MacKay 1994,
    "Bayesian non-linear modelling for the prediction competition"; Neal 1996, section 4.3). As
    Gamma(shape, rate) has the mean shape / rate, scales are near sqrt(rate / shape) before there
    are data. It is `InverseGammaScale(df=2 shape, scale=sqrt(rate / shape))`.

    Args:
        shape: the shape of the Gamma distribution, > 0. The default is vague: with s integrated
            out, a weight on its own is Cauchy distributed.
        rate: the rate of the Gamma distribution (not its scale), > 0. An input whose n weights the
            data hold at zero ends near s = sqrt(2 rate / (n + 2 shape)). At the default the median
            of s is 0.15 before there are data. shape = rate -> 0 is flat in log s, and nothing can
            be drawn from it.
        groups: the weights that share an s, as in `InverseGammaScale`.
        trainable: whether q(s) is learned.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        shape: float = 0.5,
        rate: float = 0.005,
        groups: str | int = "input",
        *,
        trainable: bool = True,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        self.shape = positive("shape", shape)
        self.rate = positive("rate", rate)
        self.groups = groups
        hyperprior = InverseGamma(self.shape, self.rate)
        super().__init__({"scale": (Groups(groups), hyperprior)}, trainable=trainable, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = {"shape": self.shape, "rate": self.rate, "groups": self.groups}
        return {**super().get_config(), **config}
