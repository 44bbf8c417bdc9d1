"""The variational autoencoder of the tutorial (Kingma and Welling 2014).

z ~ N(0, I),  x ~ p(x | decoder(z));   q(z | x) = N(mu(x), sigma(x)^2)
elbo(x) = E_q[log p(x | z)] - KL(q(z | x) || N(0, I))        (nats per example)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, random
from tfbdl.arguments import boolean, option, positive_integer, shown
from tfbdl.calls import OfCall
from tfbdl.draws import accept_draws, make_draw
from tfbdl.identifiers import of_keras
from tfbdl.memory import require
from tfbdl.models import pixels
from tfbdl.models.latent import Latent, kl_to_standard_normal
from tfbdl.programs import Programs

BATCH = 1000  # examples at a time in `elbo` and `log_likelihood`


class ELBOTerms(NamedTuple):
    """The two parts of the ELBO at one z per example, each of shape (B,), in nats."""

    log_likelihood: tf.Tensor
    kl: tf.Tensor


@keras.saving.register_keras_serializable(package="tfbdl")
class VAE(keras.Model):
    """`vae.compile("adam"); vae.fit(x)`, for x of shape (N, ...) with values in [0, 1].

    `training=True` samples z, `training=False` has z = mu, a draw (`tfbdl.draws`) shares one
    noise vector between all x. The output is the mean of p(x | z), of the shape of x. `fit` and
    `evaluate` report elbo, log_likelihood and kl in nats per example; the loss is -elbo. The KL is
    in the model's losses as the mean over the batch: it is per example and needs no N.

    Args:
        latent_dim: dimension of z.
        hidden_units: widths of the encoder's hidden layers; the decoder has them in reverse.
        likelihood: `"bernoulli"` (the slides') or `"continuous_bernoulli"`, the density that
            belongs to grey pixels.
        binarize: `"dynamic"` draws x ~ Bernoulli(x) anew at each training step (and by fixed noise
            outside training), so that the Bernoulli likelihood is a proper one; None leaves x
            alone. For static binarisation give `tfbdl.data.binarize(x, seed)`.
        activation: the activation of the hidden layers.
        seed: as in Keras.

    Raises:
        ValueError: if an argument is unknown or out of its range.
    """

    bound = OfCall(lambda: None)
    _losses = OfCall(list)

    def __init__(
        self,
        latent_dim: int = 20,
        hidden_units: Sequence[int] = (500, 500),
        likelihood: str = "bernoulli",
        *,
        binarize: str | None = None,
        activation: str = "relu",
        seed: int | None = None,
        **kwargs: Any,
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
        self.likelihood = likelihood
        self.binarize = binarize
        self.activation = activation
        of_keras("activation", activation, keras.activations.get)
        self._pixels = pixels.likelihood_of(likelihood)
        self.seed = random.Seed(seed)
        self.encoder_hidden = [
            keras.layers.Dense(n, activation, name=f"encoder_{i}")
            for i, n in enumerate(self.hidden_units)
        ]
        self.mu = keras.layers.Dense(self.latent_dim, name="mu")
        self.sigma = keras.layers.Dense(self.latent_dim, "softplus", name="sigma")
        self.decoder_hidden = [
            keras.layers.Dense(n, activation, name=f"decoder_{i}")
            for i, n in enumerate(reversed(self.hidden_units))
        ]
        self.elbo_tracker = keras.metrics.Mean(name="elbo")
        self.log_likelihood_tracker = keras.metrics.Mean(name="log_likelihood")
        self.kl_tracker = keras.metrics.Mean(name="kl")
        self._programs = Programs(self)
        accept_draws(self)

    def build(self, input_shape: tuple[int, ...]) -> None:
        self.data_shape = tuple(input_shape[1:])
        size = math.prod(self.data_shape)
        widths = (size, *self.hidden_units, self.latent_dim)
        require(
            8 * sum(a * b for a, b in itertools.pairwise(widths)),
            f"a model of latent_dim={self.latent_dim} and hidden_units={self.hidden_units}",
            "make it smaller",
        )
        self.logits = keras.layers.Dense(size, name="logits")
        stack = [*self.encoder_hidden, self.mu]
        for layer, d_in in zip(stack, (size, *self.hidden_units), strict=True):
            layer.build((None, d_in))
        self.sigma.build((None, (size, *self.hidden_units)[-1]))
        stack = [*self.decoder_hidden, self.logits]
        for layer, d_in in zip(stack, (self.latent_dim, *self.hidden_units[::-1]), strict=True):
            layer.build((None, d_in))
        self.built = True

    def encode(self, x: tf.Tensor) -> Latent:
        """q(z | x) for x of shape (B, ...)."""
        h = tf.reshape(x, [-1, math.prod(self.data_shape)])
        for layer in self.encoder_hidden:
            h = layer(h)
        return Latent(tf.cast(self.mu(h), tf.float32), tf.cast(self.sigma(h), tf.float32))

    def decode(self, z: tf.Tensor) -> tf.Tensor:
        """The mean of p(x | z), shape (B, ...), for z of shape (B, latent_dim)."""
        return self._shaped(self._pixels.mean(self._decode(z)))

    def call(
        self, x: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        key = self.seed.key(training, draw)
        x = self._target(
            x, random.fold_in(self.seed.at(make_draw(0, 0)) if key is None else key, 1)
        )
        q = self.encode(x)
        z = q.mu
        if key is not None:
            rows = tf.shape(z)[0] if draw is None else 1
            z += q.sigma * random.normal(key, [rows, self.latent_dim], z.dtype)
        logits = self._decode(z)
        self.bound = ELBOTerms(self._pixels.log_prob(x, logits), kl_to_standard_normal(q))
        self.add_loss(tf.reduce_mean(self.bound.kl))
        return self._shaped(self._pixels.mean(logits))

    def compute_loss(
        self,
        x: tf.Tensor | None = None,
        y: tf.Tensor | None = None,
        y_pred: tf.Tensor | None = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        """-elbo of the last call, as the mean over the batch."""
        log_likelihood, kl = self.bound
        self.add_loss(-tf.reduce_mean(log_likelihood))
        self.elbo_tracker.update_state(log_likelihood - kl)
        self.log_likelihood_tracker.update_state(log_likelihood)
        self.kl_tracker.update_state(kl)
        return super().compute_loss(x, None, None, None, training)

    def fit(
        self, x: Any = None, *args: Any, validation_data: Any = None, **kwargs: Any
    ) -> keras.callbacks.History:
        """Trains as `keras.Model.fit`, without targets; arrays are checked first."""
        held_out = validation_data[0] if isinstance(validation_data, tuple) else validation_data
        self._check_array(x)
        if held_out is not None:
            self._check_array(held_out)
        return super().fit(x, *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluates as `keras.Model.evaluate`, without targets; arrays are checked first."""
        self._check_array(x)
        return super().evaluate(x, *args, **kwargs)

    def _check_array(self, data: Any) -> None:
        if not pixels.are_in_batches(data):
            self.check_data(data)

    def check_data(self, x: Any) -> np.ndarray:
        """X as an array.

        Raises:
            ValueError: unless it is (N, ...) of the model's shape with values in [0, 1].
        """
        return pixels.check(x, self.likelihood, self.data_shape if self.built else None)

    def elbo(self, x: np.ndarray, num_samples: int = 1, *, seed: int = 0) -> np.ndarray:
        """The ELBO of each example with `num_samples` draws of z, shape (N,), in nats.

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
        logits = self._decode(random.normal(key, [n, self.latent_dim]))
        key = random.fold_in(key, 1)
        x = self._pixels.mean(logits) if mean else self._pixels.sample(key, logits)
        return self._shaped(x).numpy()

    def _estimate(self, x: np.ndarray, num_samples: int, seed: int) -> tuple[np.ndarray, ...]:
        x = self.check_data(x)
        key = self.seed.at(make_draw(arguments.seed("seed", seed), 0))
        num_samples = positive_integer("num_samples", num_samples)
        if not self.built:
            self.build(x.shape)
        bounds = self._programs.of("bounds", lambda: tf.function(self._bounds, jit_compile=True))
        number = tf.constant(num_samples)
        batches = [
            bounds(tf.constant(x[i : i + BATCH], tf.float32), random.fold_in(key, i), number)
            for i in range(0, len(x), BATCH)
        ]
        return tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))

    def _bounds(
        self, x: tf.Tensor, key: tf.Tensor, num_samples: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """ELBO and importance-weighted bound of each example of a batch, each of shape (B,).

        Sums over many samples are held in float64.
        """
        x = self._target(x, random.fold_in(key, 0))
        q = self.encode(x)
        sum_ll = tf.zeros(tf.shape(x)[:1], tf.float64)
        log_sum = sum_ll - np.inf
        s = tf.constant(0)
        while s < num_samples:  # a tf.range would be compiled anew for each num_samples
            eps = random.normal(random.fold_in(key, s + 1), tf.shape(q.mu))
            z = q.mu + q.sigma * eps
            ll = self._pixels.log_prob(x, self._decode(z))
            log_ratio = tf.reduce_sum(
                tf.math.log(q.sigma) + 0.5 * (tf.square(eps) - tf.square(z)), axis=-1
            )
            sum_ll += tf.cast(ll, tf.float64)
            log_sum = keras.ops.logaddexp(log_sum, tf.cast(ll + log_ratio, tf.float64))
            s += 1
        count = tf.cast(num_samples, tf.float64)
        elbo = sum_ll / count - tf.cast(kl_to_standard_normal(q), tf.float64)
        bound = log_sum - tf.math.log(count)
        return tf.cast(elbo, tf.float32), tf.cast(bound, tf.float32)

    def _target(self, x: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """The target of the decoder: x, flat, or its binarisation."""
        x = tf.cast(tf.reshape(x, [-1, math.prod(self.data_shape)]), tf.float32)
        binary = tf.cast(random.uniform(key, tf.shape(x)) < x, tf.float32)
        return x if self.binarize is None else binary

    def _decode(self, z: tf.Tensor) -> tf.Tensor:
        h = z
        for layer in (*self.decoder_hidden, self.logits):
            h = layer(h)
        return tf.cast(h, tf.float32)

    def _shaped(self, flat: tf.Tensor) -> tf.Tensor:
        return tf.reshape(flat, [-1, *self.data_shape])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "latent_dim": self.latent_dim,
            "hidden_units": self.hidden_units,
            "likelihood": self.likelihood,
            "binarize": self.binarize,
            "activation": self.activation,
            "seed": self.seed.seed,
        }
