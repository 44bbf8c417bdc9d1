"""The base of priors over one weight tensor."""

from __future__ import annotations

import abc
import math

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.elementary import log
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.kl_term import KLTerm, LossTerm

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Prior(keras.layers.Layer, abc.ABC):
    """p(w) over a weight tensor.

    A prior is a Keras layer so that its hyper-parameters are variables of the model: saved, and
    learned where they are trainable. One object given to several layers is one prior with shared
    hyper-parameters. A new family defines `log_prob` and `sample`; it may define
    `expected_log_prob`, which gives every normal posterior its KL in closed form, and `kl`, which
    each model then counts once.

    Args:
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Attributes:
        discrete: whether w takes two values only, so that no density over the reals fits it.
        mean: E[w], the same for each weight.
    """

    discrete = False
    mean = 0.0

    def __init__(self, **kwargs: Unpack[LayerArguments]) -> None:
        if "trainable" in kwargs:
            kwargs["trainable"] = boolean("trainable", kwargs["trainable"])
        super().__init__(**kwargs)
        self.cost = None if type(self).kl is Prior.kl else LossTerm()
        self._num_data: int | None = None

    def attach(self, shape: tuple[int, ...]) -> None:
        """Makes the hyper-parameters for a weight of `shape`; every weight does so once."""
        if not self.built:
            self.build(shape)

    def for_bias(self) -> Prior:
        """The prior of a layer's bias where the user names none."""
        return self

    @abc.abstractmethod
    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """Log density in nats: of each element where these are independent, else of all."""

    @abc.abstractmethod
    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        """One weight tensor of `shape`, from the noise of `key` (see `tfbdl.random`)."""

    def expected_log_prob(self, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor | None:
        """E[log p(w)] of each element under N(mu, sigma^2), in nats; None where none is known.

        For independent elements it holds for every q with these marginals, correlated or not.
        """
        return None

    def kl_from_normal(
        self, mu: tf.Tensor, sigma: tf.Tensor, log_sigma: tf.Tensor | None = None
    ) -> tf.Tensor | None:
        """KL(N(mu, sigma^2) || p) summed over the tensor, in nats; None where none is known.

        A `log_sigma` that is given is right where sigma underflows.
        """
        expected = self.expected_log_prob(mu, sigma)
        if expected is None:
            return None
        log_sigma = log(sigma) if log_sigma is None else log_sigma
        return -tf.reduce_sum(log_sigma + (0.5 + HALF_LOG_2PI) + expected)

    def kl(self) -> tf.Tensor | float:
        """KL of the hyper-parameters' own posterior from their prior, in nats; 0 without one."""
        return 0.0

    def share_kl(self, num_data: int) -> None:
        """Notes N of a layer that adds `kl()`.

        Raises:
            ValueError: if it is not that of the other layers with this prior.
        """
        if self.cost is not None and self._num_data not in {None, num_data}:
            raise ValueError(
                f"num_data={num_data} differs from the num_data={self._num_data} of another layer "
                f"with this prior={type(self).__name__}; give both the same, or two priors"
            )
        self._num_data = num_data

    def add_kl(self, layer: KLTerm, training: bool) -> None:
        """Adds `kl()` to the losses, with the weight and N of a layer's cost."""
        if self.cost is not None:
            kl = self.kl()
            self.cost.enter_loss(
                kl, {"kl": kl}, num_data=layer.num_data, weight=layer.weight, training=training
            )
