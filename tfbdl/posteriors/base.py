"""The base of variational posteriors over one weight tensor."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.kl import sampled_kl
from tfbdl.memory import require
from tfbdl.priors import Prior

Self = TypeVar("Self", bound="Posterior")


class Posterior(keras.layers.Layer, abc.ABC):
    """q(w) over one weight tensor, with the prior that governs it.

    A posterior given to a layer is a template: the layer makes one for each of its weights with
    `create`. All variables keep their own precision under mixed-precision policies.

    Args:
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Attributes:
        independent_normal: whether elements are independent and normal, so that sums of them are
            normal with variances that add up (what local reparameterisation needs).
        symmetric: whether elements are independent and symmetric about their mean, so that signs
            can be flipped one by one (what flipout needs).
        sampled_kl: whether log q(w) - log p(w) at a sample has the gradient of the KL.
        of_hyperposterior: whether q(w) is held against the prior under the posterior of its
            hyper-parameters, whose own KL is then part of the cost.
        prior: p(w).
        exact: whether a closed form of the KL is used where one is known.
    """

    independent_normal = False
    symmetric = False
    sampled_kl = True
    of_hyperposterior = True
    prior: Prior
    exact = True

    def __init__(self, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.__dict__["quantize"] = MethodType(type(self).quantize, self)  # Keras' needs it built

    def check_prior(self, prior: Prior) -> None:
        """Raises ValueError where the family cannot be held against this prior."""
        if prior.discrete:
            raise ValueError(
                f"prior={type(prior).__name__} is over two values and posterior="
                f"{type(self).__name__} over all reals; use posterior='relaxed_bernoulli'"
            )

    def check_kl(self, kl: str) -> None:
        """Raises ValueError where the KL is to be sampled, and that holds no gradient."""
        if kl == "sample" and not self.sampled_kl:
            raise ValueError(
                f"kl='sample' has no gradient under posterior={type(self).__name__}; use 'auto'"
            )

    def create(
        self: Self,
        owner: keras.layers.Layer,
        name: str,
        shape: tuple[int, ...],
        initializer: keras.initializers.Initializer,
        prior: Prior,
        *,
        exact: bool = True,
    ) -> Self:
        """A posterior like this one over a weight of `owner` with variables of its own."""
        config: dict[str, Any] = {**self.get_config(), "name": name, "dtype": owner.dtype_policy}
        posterior = type(self).from_config(config)
        prior.attach(shape)
        posterior.prior = prior
        posterior.exact = exact
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
        """A trainable variable that mixed precision leaves alone.

        Raises:
            ValueError: if it does not fit into memory.
        """
        require(4 * math.prod(shape), f"a weight of shape {tuple(shape)}", "make the layer smaller")
        return self.add_weight(
            shape=shape,
            initializer=initializer,
            constraint=constraint,
            name=name,
            autocast=False,
        )

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Does nothing: a network is quantized around its distributions, which stay as they are."""

    @property
    @abc.abstractmethod
    def mean(self) -> tf.Tensor:
        """E[w]."""

    @property
    @abc.abstractmethod
    def stddev(self) -> tf.Tensor:
        """Standard deviation of each element."""

    def remove(self, where: np.ndarray) -> None:
        """Sets the weights at `where`, a mask of the weight's shape, to 0 and takes their noise.

        Raises:
            ValueError: if the family has no weights that stand alone.
        """
        raise ValueError(
            f"posterior={type(self).__name__} ties weights together, so that none can be removed; "
            "pruning needs one such as 'mean_field'"
        )

    @abc.abstractmethod
    def sample(self, key: tf.Tensor) -> tf.Tensor:
        """One w, differentiable in the parameters, from the noise of `key`."""

    def product_variance(self, x: tf.Tensor) -> tf.Tensor:
        """Var[x W], shape (B, units), for x of shape (B, d) and a weight W of (d, units).

        Raises:
            ValueError: if x W is not normal.
        """
        if not self.independent_normal:
            raise ValueError(
                f"posterior={type(self).__name__} has products with x that are not normal; take "
                "one of the normal families, such as 'per_output' or 'mean_field'"
            )
        return tf.matmul(tf.square(x), tf.square(self.stddev))

    @abc.abstractmethod
    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """Log density in nats: of each element where these are independent, else of all."""

    def exact_kl(self) -> tf.Tensor | None:
        """KL(q || prior) in nats; None where no closed form is known."""
        return None

    def kl(self, key: tf.Tensor) -> tf.Tensor:
        """KL(q || prior), in nats; `key` is used where it can only be estimated."""
        return self.kl_at(self.exact_kl, lambda: self.sample_and_log_prob(key))

    def sample_and_kl(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`sample(key)`, a w, and the KL, estimated at this w where it has no closed form."""
        w, log_q = self.sample_and_log_prob(key)
        return w, self.kl_at(self.exact_kl, lambda: (w, log_q))

    def kl_at(
        self,
        exact_kl: Callable[[], tf.Tensor | None],
        drawn: Callable[[], tuple[tf.Tensor, tf.Tensor]],
    ) -> tf.Tensor:
        """The KL in nats: the closed form where it is wanted and known, else at a drawn (w, log q).

        Args:
            exact_kl: gives the closed form, or None.
            drawn: gives w and log q(w), where the KL is estimated.
        """
        exact = exact_kl() if self.exact else None
        return sampled_kl(*drawn(), self.prior) if exact is None else exact

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`sample(key)`, and `log_prob` there, which a family may know however narrow it is."""
        w = self.sample(key)
        return w, self.log_prob(w)

    def fused_sample_and_kl(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`sample_and_kl(key)`, as fast as can be; has no gradient inside `tf.vectorized_map`."""
        return self.sample_and_kl(key)
