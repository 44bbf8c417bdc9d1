"""The base of all layers with random weights: posteriors over them, and KL / N in the losses."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors, random
from tfbdl.arguments import option
from tfbdl.calls import costs_are_read
from tfbdl.draws import accept_draws, make_draw
from tfbdl.keras_private import serialize_shared
from tfbdl.kl_term import KLTerm
from tfbdl.layers.keras_arguments import without_replaced
from tfbdl.memory import require
from tfbdl.posteriors import Posterior


class BayesLayer(keras.layers.Layer):
    """Owns weights w ~ q and their priors; a subclass says what it computes with them.

    It may stand before a Keras layer among the bases of a class, and passes on that layer's
    arguments. Its own arguments are described where users meet them, in `BayesDense`.
    """

    size_arguments: tuple[str, ...] = ()
    """Attributes with the sizes of the weights."""
    without_bias = ""
    """Why no bias has a prior and a posterior of its own, in layers where none has."""

    def __init__(
        self,
        *args: Any,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | Posterior = "mean_field",
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | Posterior | None = None,
        kl: str = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **without_replaced(kwargs))
        self.prior = priors.get(prior)
        self.posterior = posteriors.get(posterior)
        self._given_bias = (
            None if bias_prior is None else priors.get(bias_prior, "bias_prior"),
            None if bias_posterior is None else posteriors.get(bias_posterior, "bias_posterior"),
        )
        if self.without_bias and self._given_bias != (None, None):
            raise ValueError(f"bias_prior and bias_posterior must be None: {self.without_bias}")
        self.bias_prior = self._given_bias[0] or self.prior.for_bias()
        self.bias_posterior = self._given_bias[1] or self.posterior
        self.posterior.check_prior(self.prior)
        self.bias_posterior.check_prior(self.bias_prior)
        self.kl = option("kl", kl, ("auto", "sample"))
        self.posterior.check_kl(self.kl)
        self.bias_posterior.check_kl(self.kl)
        self.kl_term = KLTerm(num_data)
        self.seed = random.Seed(seed)
        self._random_weights: list[str] = []
        accept_draws(self)

    @property
    def num_data(self) -> int:
        """N, the number of training examples."""
        return self.kl_term.num_data

    def add_random_weight(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: keras.initializers.Initializer,
        prior: priors.Prior,
        posterior: Posterior,
    ) -> None:
        """Makes the posterior `self.<name>` over a weight of `shape`.

        Raises:
            ValueError: if the prior or the posterior does not fit the weight, or that does not fit
                into memory.
        """
        asked = ", ".join(f"{size}={getattr(self, size)}" for size in self.size_arguments)
        what = f"{name} of layer {self.name!r} ({asked}), of shape {shape},"
        require(8 * math.prod(shape), what, "make it smaller")
        try:
            made = posterior.create(self, name, shape, initializer, prior, exact=self.kl == "auto")
            if posterior.of_hyperposterior:
                prior.share_kl(self.num_data)
        except ValueError as error:
            raise ValueError(f"{name} of layer {self.name!r}: {error}") from None
        setattr(self, name, made)
        self._random_weights.append(name)

    @property
    def random_weights(self) -> list[Posterior]:
        """The posteriors over the layer's weights, in the order made."""
        return [getattr(self, name) for name in self._random_weights]

    def weights_at(self, draw: tf.Tensor | None) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The weights of a drawn function, or their means, in the order made, and the KL."""
        key = self.seed.at(make_draw(0, 0) if draw is None else draw)
        weights, kl = [], 0.0
        for stream, q in enumerate(self.random_weights):
            stream_key = random.fold_in(key, stream)
            w = q.mean if draw is None else q.sample(stream_key)
            weights.append(tf.cast(w, self.compute_dtype))
            if costs_are_read():
                kl += q.kl(stream_key)
        return weights, kl

    def sampled_weights(self) -> tuple[list[tf.Tensor], tf.Tensor]:
        """A sample of the weights for this training step, in the order made; and the KL."""
        key = self.seed.of_pass()
        weights, kl = [], 0.0
        for stream, q in enumerate(self.random_weights):
            w, weight_kl = q.fused_sample_and_kl(random.fold_in(key, stream))
            weights.append(tf.cast(w, self.compute_dtype))
            kl += weight_kl
        return weights, kl

    def add_kl(self, kl: tf.Tensor, training: bool) -> None:
        """Adds the weights' `kl` to the losses, and that of their priors' hyper-parameters."""
        if not costs_are_read():
            return
        self.kl_term.add(kl, training, kl=kl)
        for q in self.random_weights:
            if q.of_hyperposterior:
                q.prior.add_kl(self.kl_term, training)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        bias_prior, bias_posterior = self._given_bias
        return {
            **super().get_config(),
            "num_data": self.num_data,
            "prior": serialize_shared(self.prior),
            "posterior": serialize(self.posterior),
            "bias_prior": None if bias_prior is None else serialize_shared(bias_prior),
            "bias_posterior": None if bias_posterior is None else serialize(bias_posterior),
            "kl": self.kl,
            "seed": self.seed.seed,
        }
