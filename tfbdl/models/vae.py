"""The variational autoencoder of the tutorial (Kingma and Welling 2014).

z ~ N(0, I),  x ~ p(x | decoder(z));   q(z | x) = N(mu(x), sigma(x)^2)
elbo(x) = E_q[log p(x | z)] - KL(q(z | x) || N(0, I))        (nats per example)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, random
from tfbdl.arguments import boolean, option, optional, positive_integer, shown
from tfbdl.calls import OfCall
from tfbdl.draws import accept_draws, make_draw
from tfbdl.identifiers import of_keras
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.kl_term import KLTerm, per_example
from tfbdl.likelihoods import LikelihoodLike
from tfbdl.memory import require
from tfbdl.models import vae_bounds, vae_data
from tfbdl.models.latent import Latent, kl_to_standard_normal
from tfbdl.models.networks import build_network, build_stack, hidden_layers, own_network
from tfbdl.models.vae_bounds import ELBOTerms
from tfbdl.models.without_targets import WithoutTargets
from tfbdl.programs import Programs


@keras.saving.register_keras_serializable(package="tfbdl")
class VAE(WithoutTargets):
    """`vae.compile("adam"); vae.fit(x)`, for x of shape (N, ...): pixels, or any other numbers.

    `training=True` samples z, `training=False` has z = mu, a draw (`tfbdl.draws`) shares one
    noise vector between all x. The output is the mean of p(x | z), of the shape of x. `fit` and
    `evaluate` report elbo, log_likelihood and kl in nats per example; the loss is -elbo. The KL is
    in the model's losses as the mean over the batch: it is per example and needs no N. Its weight
    is that of `tfbdl.set_kl_weight` (beta of Higgins et al. 2017), times `tfbdl.KLAnnealing`'s.
    Random layers in networks of one's own add their KL / N to the reported kl.

    Args:
        latent_dim: dimension of z.
        hidden_units: widths of the encoder's hidden layers; the decoder has them in reverse. They
            and `activation` count for networks that are made here, not for your own.
        likelihood: the likelihood of each element of x: `"bernoulli"` (the slides') or
            `"continuous_bernoulli"`, the density that belongs to grey pixels, both for x in [0, 1];
            or any of `tfbdl.likelihoods` that is not one of classes, such as `Normal("predicted")`.
        binarize: `"dynamic"` draws x ~ Bernoulli(x) anew at each training step (and by fixed noise
            outside training), so that the Bernoulli likelihood is a proper one; None leaves x
            alone. For static binarisation give `tfbdl.data.binarize(x, seed)`.
        encoder: a Keras layer or model of your own, from x, (B, ...), to (B, 2 latent_dim): mu,
            then rho, where sigma = softplus(rho). None makes dense layers.
        decoder: a Keras layer or model of your own, from z, (B, latent_dim), to what the likelihood
            takes, logits or means, of the shape of x or flat; where it takes scales too, these
            are the second half of a last axis twice as long. None makes dense layers.
        activation: the activation of the hidden layers.
        seed: as in Keras.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.Model`.

    Raises:
        ValueError: if an argument is unknown or out of its range; once the shape of x is known,
            also if `encoder` or `decoder` gives another one.
    """

    bound, _losses, weighs_inputs = OfCall(lambda: None), OfCall(list), True

    def __init__(
        self,
        latent_dim: int = 20,
        hidden_units: Sequence[int] = (500, 500),
        likelihood: LikelihoodLike = "bernoulli",
        *,
        binarize: str | None = None,
        encoder: keras.layers.Layer | None = None,
        decoder: keras.layers.Layer | None = None,
        activation: str = "relu",
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        if binarize is not None:
            option("binarize", binarize, ("dynamic",))
        if not isinstance(hidden_units, Sequence) or isinstance(hidden_units, (str, bytes)):
            raise ValueError(
                f"hidden_units={shown(hidden_units)} must list the widths of the layers"
            )
        self.latent_dim = positive_integer("latent_dim", latent_dim)
        self.hidden_units = tuple(positive_integer("hidden_units", n) for n in hidden_units)
        self.likelihood = vae_data.likelihood_of(likelihood, own_decoder=decoder is not None)
        self.binarize = binarize
        self.encoder = optional(own_network, "encoder", encoder)
        self.decoder = optional(own_network, "decoder", decoder)
        self.activation = activation
        of_keras("activation", activation, keras.activations.get)
        self.seed = random.Seed(seed)
        self.kl_term = KLTerm(num_data=1, names=())
        if encoder is None:
            self.encoder_hidden = hidden_layers("encoder", self.hidden_units, activation)
            self.mu = keras.layers.Dense(self.latent_dim, name="mu")
            self.sigma = keras.layers.Dense(self.latent_dim, "softplus", name="sigma")
        if decoder is None:
            self.decoder_hidden = hidden_layers("decoder", self.hidden_units[::-1], activation)
        self.elbo_tracker = keras.metrics.Mean(name="elbo")
        self.log_likelihood_tracker = keras.metrics.Mean(name="log_likelihood")
        self.kl_tracker = keras.metrics.Mean(name="kl")
        self._programs = Programs(self)
        accept_draws(self)

    def build(self, input_shape: tuple[int, ...]) -> None:
        self.data_shape = tuple(input_shape[1:])
        size = math.prod(self.data_shape)
        self._outputs_shape = vae_data.outputs_shape(self.likelihood, self.data_shape)
        num_outputs = math.prod(self._outputs_shape)
        widths = (size, *self.hidden_units, self.latent_dim)
        if self.encoder is None or self.decoder is None:
            require(
                8 * sum(a * b for a, b in itertools.pairwise(widths)),
                f"a model of latent_dim={self.latent_dim} and hidden_units={self.hidden_units}",
                "make it smaller",
            )
        if self.encoder is None:
            build_stack([*self.encoder_hidden, self.mu], widths[:-1])
            self.sigma.build((None, widths[-2]))
        else:
            build_network("encoder", self.encoder, self.data_shape, 2 * self.latent_dim)
        if self.decoder is None:
            self.outputs_layer = keras.layers.Dense(num_outputs, name="outputs")
            build_stack([*self.decoder_hidden, self.outputs_layer], widths[:0:-1])
        else:
            build_network("decoder", self.decoder, (self.latent_dim,), num_outputs)
        self.built = True

    def encode(self, x: tf.Tensor, training: bool = False) -> Latent:
        """q(z | x) for x of shape (B, ...)."""
        if self.encoder is not None:
            x = tf.reshape(x, [-1, *self.data_shape])
            outputs = self.encoder(x, training=training)
            return Latent.of(tf.reshape(outputs, [-1, 2 * self.latent_dim]))
        h = tf.reshape(x, [-1, math.prod(self.data_shape)])
        for layer in self.encoder_hidden:
            h = layer(h)
        return Latent(tf.cast(self.mu(h), tf.float32), tf.cast(self.sigma(h), tf.float32))

    def decode(self, z: tf.Tensor) -> tf.Tensor:
        """The mean of p(x | z), shape (B, ...), for z of shape (B, latent_dim)."""
        return self.likelihood.mean(self._decode(z))

    def call(
        self, x: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        key = self.seed.key(training, draw)
        x = self.target(x, random.fold_in(self.seed.at(make_draw(0, 0)) if key is None else key, 1))
        q = self.encode(x, training)
        z = q.mu
        if key is not None:
            rows = tf.shape(z)[0] if draw is None else 1
            z += q.sigma * random.normal(key, [rows, self.latent_dim], z.dtype)
        outputs = self._decode(z, training)
        self.bound = ELBOTerms(self.likelihood.log_prob(x, outputs), kl_to_standard_normal(q))
        self.kl_term.add(tf.reduce_mean(self.bound.kl), training, observed=False)
        return self.likelihood.mean(outputs)

    def compute_loss(
        self,
        x: tf.Tensor | None = None,
        y: tf.Tensor | None = None,
        y_pred: tf.Tensor | None = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        """-elbo of the last call, as the mean over the batch, each example w_n times."""
        weights = 1.0 if sample_weight is None else tf.cast(sample_weight, tf.float32)
        log_likelihood, kl = (weights * part for part in self.bound)
        self.kl_term.add(tf.reduce_mean(kl), training)
        self.add_loss(-tf.reduce_mean(log_likelihood))
        kl += sum(per_example(self, without=self.kl_term))
        self.elbo_tracker.update_state(log_likelihood - kl)
        self.log_likelihood_tracker.update_state(log_likelihood)
        self.kl_tracker.update_state(kl)
        return super().compute_loss(x, None, None, None, training)

    def check_data(self, x: Any) -> np.ndarray:
        """X as an array.

        Raises:
            ValueError: unless it is (N, ...) of the model's shape with values that the likelihood
                has.
        """
        return vae_data.check(x, self.likelihood, self._known_shape)

    def elbo(self, x: np.ndarray, num_samples: int = 1, *, seed: int = 0) -> np.ndarray:
        """The ELBO of each example with `num_samples` draws of z, shape (N,), in nats.

        It leaves out the KL of random layers, which belongs to no single example.

        Raises:
            ValueError: if x is not what the model takes, or `num_samples` < 1.
        """
        return self._estimate(x, num_samples, seed)[0]

    def log_likelihood(
        self, x: np.ndarray, num_samples: int = 5000, *, seed: int = 0
    ) -> np.ndarray:
        """The importance-weighted bound on log p(x), shape (N,), in nats; tight as samples grow.

        log 1/S sum_s p(x | z_s) p(z_s) / q(z_s | x)  with z_s ~ q  (Burda et al. 2016, equation 8).

        Raises:
            ValueError: if x is not what the model takes, or `num_samples` < 1.
        """
        return self._estimate(x, num_samples, seed)[1]

    def sample(self, n: int, *, mean: bool = False, seed: int = 0) -> np.ndarray:
        """N examples of the model, shape (n, ...): x ~ p(x | z), or E[x | z], with z ~ N(0, I).

        Raises:
            ValueError: if the model has no weights yet, or an argument is out of its range.
        """
        require(8 * positive_integer("n", n) * self.latent_dim, f"n={n}", "draw fewer")
        boolean("mean", mean)
        if not self.built:
            raise ValueError(f"model={self.name} is not built; fit it, or call it on data, first")
        key = self.seed.at(make_draw(arguments.seed("seed", seed), 0))
        outputs = self._decode(random.normal(key, [n, self.latent_dim]))
        law = self.likelihood
        x = law.mean(outputs) if mean else law.sample(random.fold_in(key, 1), outputs)
        return x.numpy()

    def _estimate(self, x: np.ndarray, num_samples: int, seed: int) -> tuple[np.ndarray, ...]:
        x, num_samples = self.check_data(x), positive_integer("num_samples", num_samples)
        key = self.seed.at(make_draw(arguments.seed("seed", seed), 0))
        if not self.built:
            self.build(x.shape)
        of_batch = partial(vae_bounds.of_batch, self)
        bounds = self._programs.of("bounds", lambda: tf.function(of_batch, jit_compile=True))
        return vae_bounds.in_batches(bounds, x, key, num_samples)

    def target(self, x: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """The target of the decoder: x, or its binarisation."""
        x = tf.cast(tf.reshape(x, [-1, *self.data_shape]), tf.float32)
        drawn = random.uniform(key, tf.shape(x)) < x
        return x if self.binarize is None else tf.cast(drawn, tf.float32)

    def log_prob(self, x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """Log p(x | z), shape (B,), in nats, for x of shape (B, ...) and z (B, latent_dim)."""
        if tf.executing_eagerly():
            x, z = vae_data.check_with_codes(x, z, self)
        return self.likelihood.log_prob(x, self._decode(z))

    def _decode(self, z: tf.Tensor, training: bool = False) -> tf.Tensor:
        """What the likelihood takes for x."""
        if self.decoder is not None:
            z = self.decoder(z, training=training)
        else:
            for layer in (*self.decoder_hidden, self.outputs_layer):
                z = layer(z)
        return tf.reshape(tf.cast(z, tf.float32), [-1, *self._outputs_shape])

    @property
    def _known_shape(self) -> tuple[int, ...] | None:
        return self.data_shape if self.built else None

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "latent_dim": self.latent_dim,
            "hidden_units": self.hidden_units,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
            "binarize": self.binarize,
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "decoder": keras.saving.serialize_keras_object(self.decoder),
            "activation": self.activation,
            "seed": self.seed.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> VAE:
        networks = {
            name: keras.saving.deserialize_keras_object(config.get(name), custom_objects)
            for name in ("encoder", "decoder")
        }
        return cls(**{**config, **networks})
