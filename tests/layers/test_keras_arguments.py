"""The arguments of the Keras layers that the package's layers replace."""

import inspect
from typing import Any

import keras
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import layers

PAIRS = (("Dropout", "MCDropout"), ("GaussianDropout", "MCGaussianDropout"))
KINDS = (
    "Dense",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Conv1DTranspose",
    "Conv2DTranspose",
    "Conv3DTranspose",
    "Embedding",
    "LSTM",
    "GRU",
)
REQUIRED = {"units": 3, "filters": 3, "kernel_size": 2, "input_dim": 5, "output_dim": 3}
REFUSED = {
    "lora_rank": 2,
    "lora_alpha": 2,
    "quantization_config": "int8",
    "use_cudnn": True,
}


def arguments(kind: Any) -> Any:
    """The arguments of the Keras layer, by name."""
    parameters = inspect.signature(getattr(keras.layers, kind)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}


def in_order(layer: Any) -> Any:
    """The names of the arguments that `layer` takes by position."""
    parameters = inspect.signature(layer.__init__).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]


def make(kind: Any, **kwargs: Any) -> Any:
    required = {name: REQUIRED[name] for name in arguments(kind) if name in REQUIRED}
    return getattr(layers, f"Bayes{kind}")(**{**required, **kwargs}, num_data=10)


class KerasArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*KINDS)
    def test_all_are_taken_with_their_defaults(self, kind: Any) -> None:
        given = {name: v for name, v in arguments(kind).items() if name not in REQUIRED}
        layer = make(kind, **given)
        self.assertEqual(layer.get_config().keys(), make(kind).get_config().keys())

    @parameterized.parameters(*KINDS)
    def test_those_of_fixed_weights_are_refused(self, kind: Any) -> None:
        values = {name: "l2" for name in arguments(kind) if name.endswith("_regularizer")}
        values |= {name: "non_neg" for name in arguments(kind) if name.endswith("_constraint")}
        values |= {name: v for name, v in REFUSED.items() if name in arguments(kind)}
        self.assertIsNotNone(make(kind, activity_regularizer="l2").activity_regularizer)
        values.pop("activity_regularizer", None)
        self.assertNotEmpty(values)
        for name, value in values.items():
            with self.assertRaisesRegex(ValueError, f"^{name}={value!r} does not go with random"):
                make(kind, **{name: value})

    @parameterized.parameters(*((kind, f"Bayes{kind}") for kind in KINDS), *PAIRS)
    def test_order_is_that_of_keras(self, kind: Any, ours: Any) -> None:
        """As far as arguments can be given by position; the rest of Keras' need their names."""
        names = in_order(getattr(layers, ours))
        self.assertNotEmpty(names)
        self.assertEqual(names, in_order(getattr(keras.layers, kind))[: len(names)])

    @parameterized.parameters(*KINDS)
    def test_unknown_ones_are_refused(self, kind: Any) -> None:
        with self.assertRaisesRegex(ValueError, "nonsense"):
            make(kind, nonsense=1)


if __name__ == "__main__":
    tf.test.main()
