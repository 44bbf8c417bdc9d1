"""Methods that work on any log density, that of a network with its prior and data included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.arguments import function, option, shown
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.inference.density import Density
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.method import Method
from tfbdl.inference.weight_priors import PriorLike, is_joint, prior_of_each
from tfbdl.likelihoods import LikelihoodLike, required_likelihood
from tfbdl.models.ensemble import WeightEnsemble
from tfbdl.models.reweighted import floats
from tfbdl.sources import NO_INPUTS

Target: TypeAlias = keras.Model | LogPosterior | Density
Prior: TypeAlias = PriorLike | Mapping[str, PriorLike] | Density | None


class TargetMethod(Method):
    """A method whose target is a network's posterior, or any log density.

    Args:
        model: a built network, or a log density.
        prior: the prior of the network's weights; None beside a density, which has it in it.
        likelihood: the likelihood of the network; None for that of its loss, and beside a density.
        dtype: "float32" or "float64", in which the network is computed.

    Raises:
        ValueError: if these do not go together.
    """

    def __init__(
        self,
        model: Target,
        prior: Prior,
        likelihood: LikelihoodLike | None,
        *,
        dtype: str,
        name: str | None,
    ) -> None:
        super().__init__(name=name, dtype=option("dtype", dtype, ("float32", "float64")))
        if isinstance(model, keras.Model):
            if prior is None:
                raise ValueError("prior=None: a network's weights need one; give a scale like 1.0")
        else:
            wanted = "a keras.Model, or a function of theta to its log density"
            function("model", model, wanted, takes=1)
            for what, value in (("prior", prior), ("likelihood", likelihood)):
                if value is not None:
                    raise ValueError(
                        f"{what}={shown(value)} is for a keras.Model; the log density has it in it"
                    )
        self._flat: FlatModel | None = None
        if isinstance(model, keras.Model):
            FlatModel(model).check_no_scales()
            self._flat = FlatModel(in_precision(model, dtype))
            required_likelihood(model, likelihood)
            if not is_joint(prior):
                prior_of_each(prior, self._flat)
        self._state: tuple[tf.Tensor, ...] = ()
        self.model = model
        self.prior = prior
        self.likelihood = None if likelihood is None else likelihoods.get(likelihood)

    def _density(self, x: Any, y: Any, **data: Any) -> LogPosterior | Density:
        """The log density to work on, of data as `LogPosterior` takes them.

        Raises:
            ValueError: if data are missing, or given beside a density.
        """
        if not isinstance(self.model, keras.Model):
            for name, value in {"x": x, "y": y, **data}.items():
                if value is not None:
                    raise ValueError(
                        f"{name} is for a keras.Model; a log density has its data in it"
                    )
            return self.model
        if x is None:
            raise ValueError(NO_INPUTS)
        assert self.prior is not None
        likelihood = required_likelihood(self.model, self.likelihood)
        return LogPosterior(
            self.model,
            self.prior,
            x,
            y,
            likelihood=likelihood,
            dtype=self.dtype,
            **data,
        )

    def _hold(self, target: LogPosterior | Density) -> None:
        """Keeps to the network of the target as it is now, whatever becomes of it."""
        if isinstance(target, LogPosterior):
            self._flat = target.flat
            self._state = tuple(tf.constant(v.numpy()) for v in target.flat.state)

    def _network(self) -> FlatModel:
        """The network in its precision.

        Raises:
            ValueError: if the target is a log density.
        """
        if self._flat is None:
            raise ValueError("model is a log density, which has no network; give a keras.Model")
        return self._flat

    def _ensemble_of(self, thetas: np.ndarray) -> WeightEnsemble:
        """The network with each of these weights, shape (K, D).

        Raises:
            ValueError: if the target is a log density.
        """
        states = floats(self._state).numpy()[np.newaxis]
        ensemble = WeightEnsemble(self._network().model, thetas, states)
        if isinstance(self.model, LogPosterior):
            ensemble.compile(loss=self.model.likelihood)
        else:
            ensemble.compile(loss=required_likelihood(self.model, self.likelihood))
        return ensemble

    def _state_arrays(self) -> dict[str, np.ndarray]:
        return {f"state/{i}": v.numpy() for i, v in enumerate(self._state)}

    def _restore_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        number = sum(name.startswith("state/") for name in arrays)
        self._state = tuple(tf.constant(arrays[f"state/{i}"]) for i in range(number))
