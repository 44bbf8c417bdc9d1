"""Methods that work on any log density, that of a network with its prior and data included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras

from tfbdl import priors
from tfbdl.arguments import function, option, shown
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.inference.log_posterior import Density, LogPosterior, PriorLike
from tfbdl.inference.method import Method
from tfbdl.likelihoods import Likelihood, required_likelihood

Target: TypeAlias = keras.Model | LogPosterior | Density
Prior: TypeAlias = PriorLike | Mapping[str, PriorLike] | Density | None


class TargetMethod(Method):
    """A method whose target is a network's posterior, or any log density.

    Args:
        model: a built network, or a log density.
        prior: of the network's weights; None beside a density, which has it in it.
        likelihood: of the network; None for that of its loss, and beside a density.
        dtype: "float32" or "float64", in which the network is computed.

    Raises:
        ValueError: if these do not go together.
    """

    def __init__(
        self,
        model: Target,
        prior: Prior,
        likelihood: Likelihood | None,
        *,
        dtype: str,
        name: str | None,
    ) -> None:
        super().__init__(name=name, dtype=option("dtype", dtype, ("float32", "float64")))
        if isinstance(model, keras.Model):
            if prior is None:
                raise ValueError("prior=None: a network's weights need one; give a scale like 1.0")
            if not callable(prior) and not isinstance(prior, Mapping):
                priors.density(prior)
        else:
            function("model", model, "a keras.Model, or a function of theta to its log density")
            for what, value in (("prior", prior), ("likelihood", likelihood)):
                if value is not None:
                    raise ValueError(
                        f"{what}={shown(value)} is for a keras.Model; the log density has it in it"
                    )
        self.model = model
        self.prior = prior
        self.likelihood = likelihood

    def _density(self, x: Any, y: Any, batch_size: int | None) -> LogPosterior | Density:
        """The log density to work on.

        Raises:
            ValueError: if data are missing, or given beside a density.
        """
        if not isinstance(self.model, keras.Model):
            if x is not None or y is not None or batch_size is not None:
                raise ValueError("x and y are for a keras.Model; a log density has its data in it")
            return self.model
        if x is None:
            raise ValueError("x=None: give inputs and targets, or a data set of batches (x, y)")
        assert self.prior is not None
        likelihood = required_likelihood(self.model, self.likelihood)
        return LogPosterior(
            self.model,
            self.prior,
            x,
            y,
            likelihood=likelihood,
            batch_size=batch_size,
            dtype=self.dtype,
        )

    @property
    def _has_network(self) -> bool:
        return isinstance(self.model, (keras.Model, LogPosterior))

    def _network(self) -> tuple[FlatModel, Likelihood]:
        """The network in its precision, and its likelihood.

        Raises:
            ValueError: if the target is a log density.
        """
        if isinstance(self.model, LogPosterior):
            return self.model.flat, self.model.likelihood
        if isinstance(self.model, keras.Model):
            flat = FlatModel(in_precision(self.model, self.dtype))
            return flat, required_likelihood(self.model, self.likelihood)
        raise ValueError("model is a log density, which has no network; give a keras.Model")
