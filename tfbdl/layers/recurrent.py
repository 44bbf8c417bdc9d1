"""The base of all recurrent layers, whose cells are given random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors, random
from tfbdl.arguments import boolean, number, positive_integer
from tfbdl.draws import handed_down
from tfbdl.identifiers import initializer, of_keras
from tfbdl.keras_private import serialize_shared
from tfbdl.layers.recurrent_cells import GivenGRUCell, GivenLSTMCell
from tfbdl.layers.shared_sample import SharedSample

_BACKWARDS = -2
"""A sub-stream of the layer's key that nothing else takes."""
_FLAGS = {
    *("go_backwards", "return_sequences", "return_state", "stateful", "unroll"),
    "zero_output_for_mask",
}
_FLAGS_OF_CELL = {"reset_after", "unit_forget_bias", "use_bias"}


class BayesRecurrent(SharedSample, keras.layers.RNN):
    """A recurrent layer of Keras, whose cell is given one sample of the weights for all steps.

    A subclass says which cell, with what arguments. They are described where users meet them, in
    `BayesLSTM`.
    """

    size_arguments = ("units",)
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
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        recurrent_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        recurrent_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        **kwargs: Any,
    ) -> None:
        of_cell = {name: kwargs.pop(name) for name in self.cell_arguments if name in kwargs}
        of_cell |= {"units": units, "activation": activation}
        kwargs |= {name: boolean(name, kwargs[name]) for name in _FLAGS & kwargs.keys()}
        of_cell = {name: _checked(name, value) for name, value in of_cell.items()}
        cell = self.make_cell(**of_cell, dtype=kwargs.get("dtype"), name="cell")
        super().__init__(cell, num_data=num_data, prior=prior, posterior=posterior, **kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self._given_recurrent = (
            None if recurrent_prior is None else priors.get(recurrent_prior, "recurrent_prior"),
            None
            if recurrent_posterior is None
            else posteriors.get(recurrent_posterior, "recurrent_posterior"),
        )
        if not cell.use_bias and self._given_bias != (None, None):
            raise ValueError("bias_prior and bias_posterior must be None: use_bias=False")
        self.recurrent_prior = self._given_recurrent[0] or _like(self.prior)
        self.recurrent_posterior = self._given_recurrent[1] or self.posterior
        self.recurrent_posterior.check_prior(self.recurrent_prior)
        self.recurrent_posterior.check_kl(self.kl)
        if self.go_backwards:  # else the two directions of a Bidirectional with a seed were alike
            key, count = tf.unstack(self.seed.state.value)
            self.seed.state.assign(tf.stack([random.fold_in(key, _BACKWARDS), count]))

    @property
    def units(self) -> int:
        """The output dimension."""
        return self.cell.units

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
        """The start of the bias' means."""
        return self.cell.bias_initializer(shape, dtype)

    def call(
        self,
        sequences: tf.Tensor,
        initial_state: Any = None,
        mask: tf.Tensor | None = None,
        training: bool = False,
        draw: tf.Tensor | None = None,
    ) -> Any:
        draw = handed_down(draw)
        weights = self.weights_now(training, draw)
        drops = (
            bool(training) and draw is None and (self.cell.dropout or self.cell.recurrent_dropout)
        )
        key = self.seed.next() if drops else None
        with self.cell.given(weights, sequences[:, 0], key):
            return super().call(sequences, initial_state, mask, training=key is not None)

    def get_config(self) -> dict[str, Any]:
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
    def from_config(cls, config: dict[str, Any]) -> BayesRecurrent:
        return cls(**config)


def _checked(name: str, value: Any) -> Any:
    """An argument of a cell, as Keras' cells want it.

    Raises:
        ValueError: if it is out of its range.
    """
    if name == "units":
        return positive_integer(name, value)
    if name in _FLAGS_OF_CELL:
        return boolean(name, value)
    if name.endswith("dropout"):
        return number(name, value, lambda rate: 0 <= rate < 1, "in [0, 1)")
    if name.endswith("initializer"):
        return initializer(name, value)
    return of_keras(name, value, keras.activations.get)


def _like(prior: priors.Prior) -> priors.Prior:
    """A prior of the same family, with the same initial hyperparameters."""
    return type(prior).from_config({**prior.get_config(), "name": None})
