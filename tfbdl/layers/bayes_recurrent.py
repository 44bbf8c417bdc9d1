"""Recurrent layers with a distribution over their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors, random
from tfbdl.arguments import number, positive_integer
from tfbdl.keras_private import serialize_shared
from tfbdl.layers.one_sample import OneSample
from tfbdl.layers.recurrent_cells import GivenGRUCell, GivenLSTMCell

_BACKWARDS = -2
"""A sub-stream of the layer's key that nothing else takes."""


class BayesRecurrent(OneSample, keras.layers.RNN):
    """A recurrent layer of Keras, whose cell is given one sample of the weights for all steps.

    A subclass says which cell, with what arguments. They are described where users meet them, in
    `BayesLSTM`.
    """

    make_cell: Callable[..., GivenLSTMCell | GivenGRUCell]
    num_gates: int
    cell_arguments: tuple[str, ...] = (
        "recurrent_activation",
        "use_bias",
        "kernel_initializer",
        "recurrent_initializer",
        "bias_initializer",
        "dropout",
        "recurrent_dropout",
    )

    def __init__(
        self,
        units: int,
        activation: str | Callable[[Any], Any] | None = "tanh",
        *,
        num_data: int,
        prior: float | str | dict | priors.Prior = 1.0,
        posterior: str | dict | posteriors.Posterior = "mean_field",
        recurrent_prior: float | str | dict | priors.Prior | None = None,
        recurrent_posterior: str | dict | posteriors.Posterior | None = None,
        **kwargs: Any,
    ) -> None:
        of_cell = {name: kwargs.pop(name) for name in self.cell_arguments if name in kwargs}
        for name in {"dropout", "recurrent_dropout"} & of_cell.keys():
            number(name, of_cell[name], lambda rate: 0 <= rate < 1, "in [0, 1)")
        positive_integer("units", units)
        cell = self.make_cell(units, activation, dtype=kwargs.get("dtype"), name="cell", **of_cell)
        super().__init__(cell, num_data=num_data, prior=prior, posterior=posterior, **kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self._given_recurrent = (
            None if recurrent_prior is None else priors.get(recurrent_prior, "recurrent_prior"),
            None
            if recurrent_posterior is None
            else posteriors.get(recurrent_posterior, "recurrent_posterior"),
        )
        self.recurrent_prior = self._given_recurrent[0] or _like(self.prior)
        self.recurrent_posterior = self._given_recurrent[1] or self.posterior
        self.recurrent_posterior.check_prior(self.recurrent_prior)
        self.recurrent_posterior.check_kl(self.kl)
        if self.go_backwards:  # else the two directions of a Bidirectional with a seed were alike
            key, count = tf.unstack(self.seed.state.value)
            self.seed.state.assign(tf.stack([random.fold_in(key, _BACKWARDS), count]))

    def build(
        self,
        sequences_shape: tuple[int | None, ...],
        initial_state_shape: tuple[int | None, ...] | None = None,
    ) -> None:
        d_in, cell = sequences_shape[-1], self.cell
        if d_in is None:
            raise ValueError(f"input_shape={sequences_shape} must have a known last dimension")
        gates = self.num_gates * cell.units
        self.add_random_weight(
            "kernel", (d_in, gates), cell.kernel_initializer, self.prior, self.posterior
        )
        self.add_random_weight(
            "recurrent_kernel",
            (cell.units, gates),
            cell.recurrent_initializer,
            self.recurrent_prior,
            self.recurrent_posterior,
        )
        self.bias = None
        if cell.use_bias:
            self.add_random_weight(
                "bias",
                self.bias_shape(gates),
                self.start_bias,
                self.bias_prior,
                self.bias_posterior,
            )
        super().build(sequences_shape, initial_state_shape)

    def bias_shape(self, gates: int) -> tuple[int, ...]:
        """The shape of the cell's bias."""
        return (gates,)

    def start_bias(self, shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        """Where the bias' means start."""
        return self.cell.bias_initializer(shape, dtype)

    def call(
        self,
        sequences: tf.Tensor,
        initial_state: Any = None,
        mask: tf.Tensor | None = None,
        training: bool = False,
        draw: tf.Tensor | None = None,
    ) -> Any:
        weights = self.weights_now(training, draw)
        drops = (
            bool(training) and draw is None and (self.cell.dropout or self.cell.recurrent_dropout)
        )
        key = self.seed.next() if drops else None
        with self.cell.given(weights, sequences[:, 0], key):
            return super().call(sequences, initial_state, mask, training=key is not None)

    def get_config(self) -> dict:
        config, of_cell = super().get_config(), self.cell.get_config()
        del config["cell"]
        prior, posterior = self._given_recurrent
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            **{name: of_cell[name] for name in ("units", "activation", *self.cell_arguments)},
            "recurrent_prior": None if prior is None else serialize_shared(prior),
            "recurrent_posterior": None if posterior is None else serialize(posterior),
        }

    @classmethod
    def from_config(cls, config: dict) -> BayesRecurrent:
        return cls(**config)


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesLSTM(BayesRecurrent):
    """A long short-term memory with all weights ~ q, and KL(q || p) / num_data in the losses.

    One sample of the weights holds for all steps of all sequences of a batch (Fortunato, Blundell,
    Vinyals 2017, section 3): `training=True` samples them, `training=False` uses their means, and a
    draw (`tfbdl.sampling`) names one sample. At the means it is `keras.layers.LSTM`, with its
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
        **kwargs: `bias_prior`, `bias_posterior`, `kl` and `seed` as in `BayesDense`; all others as
            in `keras.layers.LSTM`, but for regularizers and constraints, of which the prior takes
            the place, and `use_cudnn`: XLA cannot compile cuDNN's kernel. Dropout is off in draws.

    Raises:
        ValueError: if an argument is out of its range; also for each `estimator` but
            `"reparameterization"`, since others do not hold for a weight that is used many times.
    """

    make_cell = GivenLSTMCell
    num_gates = 4
    cell_arguments = (*BayesRecurrent.cell_arguments, "unit_forget_bias")

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

    All as in `BayesLSTM`, at the means as in `keras.layers.GRU`.
    """

    make_cell = GivenGRUCell
    num_gates = 3
    cell_arguments = (*BayesRecurrent.cell_arguments, "reset_after")

    def bias_shape(self, gates: int) -> tuple[int, ...]:
        return (2, gates) if self.cell.reset_after else (gates,)


def _like(prior: priors.Prior) -> priors.Prior:
    """Another prior of the same family, with the same initial hyper-parameters."""
    return type(prior).from_config({**prior.get_config(), "name": None})
