"""What a variational posterior over one weight tensor answers."""

from __future__ import annotations

from typing import Any, TypeVar

import keras
import tensorflow as tf

from tfbdl.priors import Prior

Self = TypeVar("Self", bound="Posterior")


class Posterior(keras.layers.Layer):
    """q(w) over one weight tensor, with the prior that governs it.

    A posterior given to a layer is a template: the layer makes one for each of its weights with
    `create`. All variables keep their own precision under mixed-precision policies.
    """

    prior: Prior

    def check_prior(self, prior: Prior) -> None:
        """Raises ValueError where the family cannot be held against this prior."""

    def create(
        self: Self,
        owner: keras.layers.Layer,
        name: str,
        shape: tuple[int, ...],
        initializer: keras.initializers.Initializer,
        prior: Prior,
    ) -> Self:
        """A posterior like this one over a weight of `owner` with variables of its own."""
        config: dict[str, Any] = {**self.get_config(), "name": name, "dtype": owner.dtype_policy}
        posterior = type(self).from_config(config)
        posterior.prior = prior
        posterior.initializer = initializer
        posterior.build(shape)
        return posterior

    def add_parameter(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: keras.initializers.Initializer,
        constraint: keras.constraints.Constraint | None = None,
    ) -> keras.Variable:
        """A trainable variable that mixed precision leaves alone."""
        return self.add_weight(
            shape=shape,
            initializer=initializer,
            constraint=constraint,
            name=name,
            autocast=False,
        )

    @property
    def mean(self) -> tf.Tensor:
        """E[w]."""
        raise NotImplementedError

    @property
    def stddev(self) -> tf.Tensor:
        """Standard deviation of each element."""
        raise NotImplementedError

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        """One w, differentiable in the parameters, from the noise of `key`."""
        raise NotImplementedError

    def kl(self, key: tf.Tensor) -> tf.Tensor:
        """KL(q || prior), in nats; `key` is used where it can only be estimated."""
        raise NotImplementedError

    def sample_and_kl(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`sample(key)` and the KL, which families may compute together."""
        return self.sample(key), self.kl(key)
