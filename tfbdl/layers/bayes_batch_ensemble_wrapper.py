"""Rank-1 Bayesian networks: an ensemble whose factors are random (Dusenberry et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers.batch_ensemble_wrapper import BatchEnsembleWrapper
from tfbdl.layers.shared_sample import SharedSample


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesBatchEnsembleWrapper(SharedSample, BatchEnsembleWrapper):
    """A `BatchEnsembleWrapper` whose factors are random, r = 1 + w with w ~ q, and s alike.

    The kernel and the biases are estimated, the factors have a posterior: a mixture of K
    components, one a member (Dusenberry et al. 2020, "Efficient and scalable Bayesian neural nets
    with rank-1 factors"). What enters the losses is the mean of the members' KL(q_k || p), divided
    by N; the KL of the mixture is at most that.

    `training=True` samples, `training=False` uses the means, and a draw (`tfbdl.draws`) is one
    sample of one member.

    Args:
        layer: as in `BatchEnsembleWrapper`.
        num_members: K.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        prior: p(w), of the differences of r and s from 1, as in `BayesDense`; the paper's is
            normal with a scale of 0.1.
        posterior: the family of q(w), as in `BayesDense`.
        kl: as in `BayesDense`.
        input_initializer: the start of the means of r, as in `BatchEnsembleWrapper`; by default a
            draw of the paper's prior.
        output_initializer: the start of the means of s, in the same way.
        seed: as in `BayesDense`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: as `BatchEnsembleWrapper`, and if an argument is out of its range.
    """

    without_bias = "biases are estimated"

    def __init__(
        self,
        layer: keras.layers.Layer,
        num_members: int,
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 0.1,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        kl: str = "auto",
        input_initializer: str | keras.initializers.Initializer = "near_one",
        output_initializer: str | keras.initializers.Initializer = "near_one",
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(
            layer,
            num_members,
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            kl=kl,
            input_initializer=input_initializer,
            output_initializer=output_initializer,
            seed=seed,
            **kwargs,
        )

    def _add_factors(self) -> None:
        for name, factor, initializer in self._starts():
            start = _minus_one(initializer)
            shape = self._shape(factor)
            self.add_random_weight(name, shape, start, self.prior, self.posterior)

    def _values(self, training: bool, draw: tf.Tensor | None) -> list[tf.Tensor]:
        return [1.0 + w for w in self.weights_now(training, draw)]

    def add_kl(self, kl: tf.Tensor, training: bool) -> None:
        super().add_kl(kl / self.num_members, training)


def _minus_one(initializer: Any) -> Callable[..., tf.Tensor]:
    return lambda shape, dtype=None: initializer(shape, dtype) - 1.0
