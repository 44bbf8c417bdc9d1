"""Recurrent layers with a distribution over their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers.recurrent import BayesRecurrent
from tfbdl.layers.recurrent_cells import GivenGRUCell, GivenLSTMCell


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesLSTM(BayesRecurrent):
    """A long short-term memory with all weights ~ q, and KL(q || p) / num_data in the losses.

    One sample of the weights holds for all steps of all sequences of a batch (Fortunato, Blundell,
    Vinyals 2017, section 3): `training=True` samples them, `training=False` uses their means, and a
    draw (`tfbdl.draws`) names one sample. At the means it is `keras.layers.LSTM`, with its
    masks, states and outputs; `keras.layers.Bidirectional` takes it too, which makes a backward
    layer with weights and noise of its own.

    Args:
        units: output dimension.
        activation: as in `keras.layers.LSTM`.
        num_data: N, the number of training examples (sequences, not steps); required, since the KL
            enters as KL / N.
        prior: p(w) of the kernel, as in `BayesDense`.
        posterior: the family of q(w), as in `BayesDense`.
        recurrent_prior: p(w) of the recurrent kernel, by default one like `prior`, with
            hyper-parameters of its own.
        recurrent_posterior: the family of q(w) of the recurrent kernel, by default `posterior`.
        recurrent_activation: as in `keras.layers.LSTM`.
        use_bias: whether there is a bias.
        bias_prior: p(b), as in `BayesDense`.
        bias_posterior: q(b), as in `BayesDense`.
        kl: as in `BayesDense`.
        kernel_initializer: the start of the kernel's means.
        recurrent_initializer: the start of the recurrent kernel's means.
        bias_initializer: the start of the bias' means.
        unit_forget_bias: as in `keras.layers.LSTM`.
        dropout: as in `keras.layers.LSTM`; off in draws.
        recurrent_dropout: as in `keras.layers.LSTM`; off in draws.
        activity_regularizer: as in `keras.layers.Layer`.
        seed: as in `BayesDense`.
        return_sequences: as in `keras.layers.LSTM`.
        return_state: as in `keras.layers.LSTM`.
        go_backwards: as in `keras.layers.LSTM`.
        stateful: as in `keras.layers.LSTM`.
        unroll: as in `keras.layers.LSTM`.
        zero_output_for_mask: as in `keras.layers.LSTM`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.
            `use_cudnn` is refused, since XLA cannot compile cuDNN's kernel, and so are regularizers
            and constraints, in whose place stands the prior.

    Raises:
        ValueError: if an argument is out of its range; also for each `estimator` but
            `"reparameterization"`, since others do not hold for a weight that is used many times.
    """

    make_cell = GivenLSTMCell
    num_gates = 4
    cell_arguments = (*BayesRecurrent.cell_arguments, "unit_forget_bias")

    def __init__(
        self,
        units: int,
        activation: str | Callable[[Any], Any] | None = "tanh",
        recurrent_activation: str | Callable[[Any], Any] | None = "sigmoid",
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        recurrent_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        recurrent_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        use_bias: bool = True,
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        kl: str = "auto",
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        recurrent_initializer: str | keras.initializers.Initializer = "orthogonal",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        unit_forget_bias: bool = True,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        activity_regularizer: Any = None,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(
            units,
            activation,
            recurrent_activation=recurrent_activation,
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            recurrent_prior=recurrent_prior,
            recurrent_posterior=recurrent_posterior,
            use_bias=use_bias,
            bias_prior=bias_prior,
            bias_posterior=bias_posterior,
            kl=kl,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            activity_regularizer=activity_regularizer,
            seed=seed,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            zero_output_for_mask=zero_output_for_mask,
            **kwargs,
        )

    def start_bias(self, shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        start = self.cell.bias_initializer
        if not self.cell.unit_forget_bias:
            return start(shape, dtype)
        units = self.cell.units
        parts = [start((units,), dtype), tf.ones([units], dtype), start((2 * units,), dtype)]
        return tf.concat(parts, axis=0)


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesGRU(BayesRecurrent):
    """A gated recurrent unit with all weights ~ q, and KL(q || p) / num_data in the losses.

    Arguments and behaviour are those of `BayesLSTM`; at the means it is `keras.layers.GRU`.
    """

    make_cell = GivenGRUCell
    num_gates = 3
    cell_arguments = (*BayesRecurrent.cell_arguments, "reset_after")

    def __init__(
        self,
        units: int,
        activation: str | Callable[[Any], Any] | None = "tanh",
        recurrent_activation: str | Callable[[Any], Any] | None = "sigmoid",
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        recurrent_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        recurrent_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        use_bias: bool = True,
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        kl: str = "auto",
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        recurrent_initializer: str | keras.initializers.Initializer = "orthogonal",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        reset_after: bool = True,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        activity_regularizer: Any = None,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(
            units,
            activation,
            recurrent_activation=recurrent_activation,
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            recurrent_prior=recurrent_prior,
            recurrent_posterior=recurrent_posterior,
            use_bias=use_bias,
            bias_prior=bias_prior,
            bias_posterior=bias_posterior,
            kl=kl,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            reset_after=reset_after,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            activity_regularizer=activity_regularizer,
            seed=seed,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            zero_output_for_mask=zero_output_for_mask,
            **kwargs,
        )

    def bias_shape(self, gates: int) -> tuple[int, ...]:
        return (2, gates) if self.cell.reset_after else (gates,)
