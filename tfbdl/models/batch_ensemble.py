"""A network whose layers hold K members, as a model that gives each example to all of them."""

from __future__ import annotations

import sys
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive_integer, shown
from tfbdl.draws import accept_draws
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import takes_call_argument, walk
from tfbdl.layers import BatchEnsembleWrapper
from tfbdl.model_arguments import keras_model
from tfbdl.models.of_network import OfNetwork


@keras.saving.register_keras_serializable(package="tfbdl")
class BatchEnsemble(OfNetwork):
    """K members in one network, which share its kernels (Wen et al. 2020); see `to_batch_ensemble`.

    In training each example goes to all members side by side, so that a batch is K times as large,
    and the loss is the mean of the members' own losses, not that of their mean. Metrics are means
    over the members, too. Without a draw in inference, as in `predict` and `evaluate` of Keras, the
    output is the mean of the members' outputs. Draw number s is member s modulo K, so that
    `tfbdl.predict` takes the mean of their predictions.

    Args:
        network: a built model with layers that are a `BatchEnsembleWrapper` or a
            `BayesBatchEnsembleWrapper`, each of K members.
        num_members: K.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.Model`.

    Raises:
        ValueError: if the network is none of these.
    """

    def __init__(
        self, network: keras.Model, num_members: int, **kwargs: Unpack[LayerArguments]
    ) -> None:
        super().__init__(**{"name": keras_model("network", network).name, **kwargs})
        self.num_members = positive_integer("num_members", num_members)
        numbers = [
            layer.num_members for layer in walk(network) if isinstance(layer, BatchEnsembleWrapper)
        ]
        if not network.built or not numbers or set(numbers) != {num_members}:
            raise ValueError(
                f"network={network.name!r} holds layers of {shown(sorted(set(numbers)))} members; "
                f"give a built one with layers of num_members={num_members}"
            )
        self.network = network
        self.autocast = False  # the network casts what it is given itself
        accept_draws(self)
        self.built = True

    @property
    def num_functions(self) -> int:
        """K where nothing else is random, so that further draws repeat the members."""
        kinds = {type(x) for x in walk(self.network) if takes_call_argument(x, "draw")}
        return self.num_members if kinds == {BatchEnsembleWrapper} else sys.maxsize

    def call(self, x: Any, training: bool = False, draw: tf.Tensor | None = None) -> Any:
        if draw is not None:
            return self.network(x)
        outputs = self.network(_repeated(x, self.num_members))
        return outputs if training else tf.nest.map_structure(self._mean, outputs)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        y, sample_weight = _as_many_as(y_pred, y, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        y, sample_weight = _as_many_as(y_pred, y, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _mean(self, outputs: tf.Tensor) -> tf.Tensor:
        shape = tf.concat([[-1, self.num_members], tf.shape(outputs)[1:]], axis=0)
        mean = tf.reduce_mean(tf.reshape(outputs, shape), axis=1)
        return tf.ensure_shape(mean, [None, *outputs.shape[1:]])

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "network": keras.saving.serialize_keras_object(self.network),
            "num_members": self.num_members,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BatchEnsemble:
        network = keras.saving.deserialize_keras_object(config["network"])
        return cls(network, config["num_members"], name=config["name"])


def _repeated(arrays: Any, number: int | tf.Tensor) -> Any:
    """Each example so many times, one after the other."""
    return tf.nest.map_structure(
        lambda a: None if a is None else tf.repeat(tf.convert_to_tensor(a), number, axis=0), arrays
    )


def _as_many_as(outputs: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Targets and weights, each as often as there are outputs for it."""
    if y is None:
        return y, sample_weight
    first = tf.nest.flatten(outputs)[0], tf.nest.flatten(y)[0]
    number = tf.shape(first[0])[0] // tf.shape(first[1])[0]
    return _repeated(y, number), _repeated(sample_weight, number)
