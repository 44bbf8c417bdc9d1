"""What is not converted stays as it is: every layer of Keras beside what is."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import stock_layers
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.copying import copy_layer
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.flat_model import in_precision
from tfbdl.keras_private import walk
from tfbdl.models import WeightEnsemble

RNG = np.random.default_rng(0)
NO_FLOAT64 = {
    *("AdaptiveAveragePooling3D", "AdaptiveMaxPooling3D", "AveragePooling3D", "MaxPooling3D"),
    "MelSpectrogram",
}
"""Layers whose operations TensorFlow has in float32 only, on CPUs."""

CONVERSIONS = {
    "to_bayesian": lambda model: tfbdl.to_bayesian(model, num_data=9, layers="head"),
    "to_mc_dropout": lambda model: tfbdl.to_mc_dropout(model, layers="drop"),
}


def nothing(layer: Any) -> None:
    """The layer as it is."""


def add_lora(layer: Any) -> Any:
    """LoRA in all layers inside that take it, factors and scale not where they start."""
    actual = False
    for inner in walk(layer):
        if hasattr(inner, "enable_lora") and not getattr(inner, "kernel_constraint", None):
            inner.enable_lora(2, lora_alpha=3)
            actual = True
    for v in layer.trainable_variables if actual else ():
        if "lora" in v.path:
            v.assign(RNG.normal(size=v.shape))
    return actual


def quantize(mode: Any) -> Any:
    def change(layer: Any) -> Any:
        actual = False
        for inner in walk(layer):
            if type(inner).__name__ in ("Dense", "EinsumDense", "Embedding", "ReversibleEmbedding"):
                if mode == "float8" and "Embedding" in type(inner).__name__:
                    continue  # has no such mode
                inner.quantize(mode)
                actual = True
        return actual

    return change


def quantize_then_add_lora(layer: Any) -> Any:
    return quantize("int8")(layer) and add_lora(layer)


def freeze_a_weight(layer: Any) -> bool:
    for v in layer.trainable_variables[:1]:
        v.trainable = False
    return bool(layer.weights)


def regularize_a_weight(layer: Any) -> bool:
    """As an attribute of the variable, where no config holds it."""
    for v in layer.trainable_variables[:1]:
        v.regularizer = keras.regularizers.L2(0.1)
    return bool(layer.trainable_variables)


def change_policy(layer: Any) -> bool:
    """Changes the policy of a layer whose weights are made."""
    layer.dtype_policy = "bfloat16"
    return bool(layer.weights)


ATTENTION = {"MultiHeadAttention", "GroupedQueryAttention"}
MAY_BE_REFUSED = {
    add_lora: {"SpectralNormalization"},
    quantize_then_add_lora: {"SpectralNormalization", *ATTENTION},
    change_policy: set(stock_layers.CASES),
}
"""Layers that Keras cannot make again, by the change, so that a refusal must name them."""


UNCHANGED = (nothing, freeze_a_weight, regularize_a_weight)
"""Changes that leave a layer's weights in number and type."""


def changes() -> Iterator[Any]:
    yield from (*UNCHANGED, add_lora, quantize_then_add_lora, change_policy)
    for mode in ("int8", "float8"):
        change = quantize(mode)
        MAY_BE_REFUSED[change] = MAY_BE_REFUSED[quantize_then_add_lora]
        yield change


CHANGES = list(changes())


def networks(name: str) -> Iterator[Any]:
    """The changes, networks with a layer that takes them, and what Keras named that layer."""
    for change in CHANGES:
        model, layer = stock_layers.network(name)
        if change(layer) is not False:
            yield change, model, layer.name


def outputs(model: Any, x: Any) -> Any:
    return [np.asarray(y) for y in keras.tree.flatten(model(x, training=False))]


def state(layer: Any) -> Any:
    """Types, flags and values of all layers and variables in `layer`."""
    actual = []
    for inner in walk(layer):
        lora = [getattr(inner, f"lora_{name}", None) for name in ("enabled", "rank", "alpha")]
        actual.append((type(inner).__name__, inner.trainable, *lora))
    variables = sorted(layer.variables, key=lambda v: v.name)
    return actual, [(v.name, v.trainable, v.dtype, np.asarray(v).tolist()) for v in variables]


class StockLayersTest(tf.test.TestCase, parameterized.TestCase):
    def assert_close(self, expected: Any, got: Any, tolerance: float = 1e-6) -> None:
        for a, b in zip(expected, got, strict=True):
            if a.dtype.kind in "fc":
                self.assertAllClose(a, b, tolerance, tolerance)
            else:
                self.assertAllEqual(a, b)

    def assert_refused(self, error: Any, change: Any, name: str) -> None:
        self.assertIn(name, MAY_BE_REFUSED.get(change, ()), str(error))
        self.assertRegex(str(error), rf"^layer='\w+' \({name}\) cannot be made again from its con")
        self.assertNotIn("\n", str(error))

    def test_no_layer_is_forgotten(self) -> None:
        here = {*stock_layers.CASES, *stock_layers.ELSEWHERE}
        self.assertEmpty(set(stock_layers.all_names()) - here)

    @parameterized.parameters(*stock_layers.CASES)
    def test_what_is_not_converted_stays(self, name: str) -> None:
        x = stock_layers.inputs(name)
        for change, model, layer in networks(name):
            try:
                expected = outputs(model, x)
            except Exception:
                self.assertIs(change, change_policy)  # Keras itself cannot run it
                continue
            losses = sum(map(float, model.losses))
            for kind, convert in CONVERSIONS.items():
                with self.subTest(kind, change=change):
                    try:
                        converted = convert(model)
                    except ValueError as error:
                        self.assert_refused(error, change, name)
                        continue
                    both = [state(m.get_layer(layer)) for m in (model, converted)]
                    self.assertEqual(*both)
                    self.assert_close(expected, outputs(converted, x))
                    if kind == "to_mc_dropout":
                        self.assertAllClose(sum(map(float, converted.losses)), losses, 1e-6)
                        trainable = [len(m.trainable_weights) for m in (model, converted)]
                        self.assertEqual(*trainable)
            if name not in NO_FLOAT64 and change is not change_policy:
                with self.subTest("in_precision", change=change):
                    self.check_float64(model, x, expected, change, name)

    def check_float64(self, model: Any, x: Any, expected: Any, change: Any, name: str) -> None:
        try:
            copy = in_precision(model, "float64")
        except ValueError as error:
            own_type = r"'float64': the weight '\w+(/\w+)*/(lora_\w+|\w+_scale)' "
            named = rf"{own_type}|^layer='\w+' \({name}\)"
            self.assertRegex(str(error), named)
            self.assertNotIn("\n", str(error))
            self.assertNotIn(change, UNCHANGED)
            return
        x = [tf.cast(a, "float64") if a.dtype.is_floating else a for a in x]
        self.assert_close(expected, outputs(copy, x), 3e-5)
        flags = [[v.trainable for v in m.weights] for m in (model, copy)]
        self.assertEqual(*flags)

    @parameterized.parameters(
        *("BatchNormalization", "Dense", "Discretization", "EinsumDense", "Embedding"),
        *("IntegerLookup", "LSTM", "MultiHeadAttention", "Normalization", "StringLookup"),
        *("TextVectorization", "TimeDistributed"),
    )
    def test_ensembles_in_files(self, name: str) -> None:
        keras.saving.register_keras_serializable(package="test_copying")(stock_layers.square)
        x = stock_layers.inputs(name)
        for change, model, _ in networks(name):
            if change in (change_policy, regularize_a_weight, CHANGES[-1]):
                continue
            with self.subTest(change=change), tempfile.TemporaryDirectory() as folder:
                expected = outputs(model, x)
                ensemble = WeightEnsemble.of([model, model])
                ensemble.save(Path(folder) / "e.keras")
                if "Attention" in name and change in (quantize_then_add_lora, CHANGES[-2]):
                    with self.assertRaisesRegex(ValueError, "^the network 'stock' has other weigh"):
                        keras.models.load_model(Path(folder) / "e.keras")
                    continue
                loaded = keras.models.load_model(Path(folder) / "e.keras")
                for other in (ensemble, loaded):
                    self.assert_close(expected, outputs(other, x), 1e-5)
                    drawn = DrawnModel(other)(x, draw=make_draw(0, 1))
                    self.assert_close(expected, keras.tree.flatten(drawn), 1e-5)

    def test_networks_that_make_no_ensemble(self) -> None:
        """What is not in theta is the first one's: members must not differ in it."""

        def of(activation: str = "tanh", data: float = 1.0, rate: float = 0.1) -> keras.Model:
            scale = keras.layers.Normalization()
            scale.adapt(data * RNG.normal(size=(20, 4)))
            dense = keras.layers.Dense(3, activation)
            return keras.Sequential([keras.Input((4,)), scale, keras.layers.Dropout(rate), dense])

        def quantized() -> Any:
            model = of(data=0.0)
            model.layers[-1].quantize("int8")
            return model

        for models, message in (
            (
                (of(data=0.0), of("relu", data=0.0)),
                r"^models\[1\] has other layers than models\[0\]",
            ),
            ((of(), of(), of(data=2.0)), r"^models\[1\] .* has adapted them to other data"),
            ((quantized(), quantized()), r"^models\[1\] differs from .* integers of .*/kernel"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                WeightEnsemble.of(models)
        WeightEnsemble.of([of(data=0.0), of(data=0.0, rate=0.2)])

    def test_models_keep_their_policy(self) -> None:
        """Nested ones round their inputs as they did, whatever the policy is now."""
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype="float32")])
            outer = keras.Sequential([keras.Input((4,)), inner, keras.layers.Dropout(0.5)])
        finally:
            keras.config.set_dtype_policy("float32")
        x = 1.0 + RNG.normal(size=(5, 4)).astype("float32") / 1000
        for model in (outer, keras.Model(outer.inputs[0], inner(outer.inputs[0]))):
            copy = tfbdl.to_bayesian(model, num_data=9)
            self.assert_close(outputs(model, x), outputs(copy, x))
            self.assertEqual(copy.dtype_policy.name, model.dtype_policy.name)

    def test_policies_in_other_types(self) -> None:
        """A map of policies stays one, and what it says of integers too."""
        policies = keras.dtype_policies
        of_paths = {"d/kernel": policies.get("int8_from_float32"), "d": policies.get("float32")}
        given = policies.DTypePolicyMap(default_policy="float32", policy_map=of_paths)
        by_name = policies.DTypePolicyMap(policy_map={"d": "int8_from_float32"})
        for policy in (given, by_name):
            copy = copy_layer(keras.layers.Dense(3, dtype=policy), "float64").dtype_policy
            self.assertIsInstance(copy, policies.DTypePolicyMap)
            self.assertEqual(list(copy), list(policy))
            for path in policy:
                asked = policies.get(policy[path]).name.replace("float32", "float64")
                self.assertEqual(policies.get(copy[path]).name, asked)
        self.assertEqual(
            copy_layer(keras.layers.Dense(3, dtype=given), "float64").compute_dtype, "float64"
        )
        quantized = keras.layers.Dense(3, name="int8_source_name", dtype="int8_from_float32")
        self.assertEqual(copy_layer(quantized, "float64").dtype_policy.name, "int8_from_float64")

    def test_frozen_weights_of_converted_layers(self) -> None:
        dense = keras.layers.Dense(3, name="head")
        model = keras.Sequential([keras.Input((4,)), dense])
        dense.bias.trainable = False
        bayesian = tfbdl.to_bayesian(model, num_data=9)
        trainable = [v.path.split("/", 2)[-1] for v in bayesian.trainable_variables]
        self.assertEqual(trainable, ["kernel/mu", "kernel/rho"])
        plain = tfbdl.to_deterministic(bayesian)
        self.assertEqual([v.name for v in plain.trainable_variables], ["kernel"])


if __name__ == "__main__":
    tf.test.main()


class Forgetful(keras.layers.Dense):
    """A layer whose config lacks arguments that change what it computes."""

    def __init__(self, units: int, power: int = 1, shifts: tuple[float, ...] = (), **kwargs: Any):
        super().__init__(units, **kwargs)
        self.power, self.shifts = power, shifts

    def call(self, x: Any) -> Any:
        return super().call(x) ** self.power + sum(self.shifts)


@keras.saving.register_keras_serializable("tests")
class Mistaken(keras.layers.Layer):
    """As in keras_hub: the config has what the constructor makes of its arguments."""

    def __init__(self, units: int, scale: float = 1.0, initializer: Any = "ones", **kwargs: Any):
        super().__init__(**kwargs)
        self.units, self.scale, self.area = units, scale, units**2
        self.initializer = keras.initializers.get(initializer)
        self.dense = keras.layers.Dense(units, kernel_initializer=self.initializer)
        self.dropout = keras.layers.Dropout(0.5)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)

    def call(self, x: Any) -> Any:
        return self.scale * self.dropout(self.dense(x))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "area": self.area}


@keras.saving.register_keras_serializable("tests")
class Raising(Mistaken):
    """Another one of these asks for an attribute that there is not."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "size": self.size}


@keras.saving.register_keras_serializable("tests")
class Changing(Mistaken):
    """Its attribute is not what it was given, which Keras records where it is all plain."""

    def __init__(self, units: int, scale: float = 1.0, **kwargs: Any):
        super().__init__(units, 1.0 - scale, **kwargs)

    def call(self, x: Any) -> Any:
        return (1.0 - self.scale) * self.dropout(self.dense(x))


@keras.saving.register_keras_serializable("tests")
class Omitting(Mistaken):
    """As in blocks of Qwen3: the config lacks an argument without a default."""

    def get_config(self) -> dict[str, Any]:
        own = {"scale": self.scale, "initializer": self.initializer}
        return {**keras.layers.Layer.get_config(self), **own}


class MistakenConfigTest(tf.test.TestCase, parameterized.TestCase):
    """Layers whose config does not make them again, though their attributes do."""

    def model(self, of: type[Mistaken], initializer: Any = None) -> keras.Model:
        initializer = initializer or keras.initializers.RandomNormal(seed=1)
        layer = of(4, 0.3, initializer=initializer, name="mistaken")
        drop, head = keras.layers.Dropout(0.5, name="drop"), keras.layers.Dense(2, name="head")
        return keras.Sequential([keras.Input((3,)), layer, drop, head])

    @parameterized.product(name=tuple(CONVERSIONS), of=(Mistaken, Raising, Omitting))
    def test_conversions(self, name: str, of: type[Mistaken]) -> None:
        model = self.model(of)
        x = RNG.normal(size=(5, 3)).astype("float32")
        converted = tfbdl.to_deterministic(CONVERSIONS[name](model))
        self.assertAllClose(model(x), converted(x), 1e-6)

    @parameterized.parameters(
        (Mistaken, None, (TypeError, "area")),
        (Raising, None, (AttributeError, "size")),
        (Omitting, None, (TypeError, "units")),
        (Changing, "ones", (TypeError, "area")),
    )
    def test_files(
        self, of: type[Mistaken], initializer: Any, error: tuple[type[Exception], str]
    ) -> None:
        """Files of a copy are whole, where Keras can write or read none of the original."""
        model = self.model(of, initializer)
        bayesian = tfbdl.to_bayesian(model, num_data=9)  # inside the layer too
        x = RNG.normal(size=(5, 3)).astype("float32")
        self.assertAllClose(model(x), bayesian(x), 1e-6)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            with self.assertRaisesRegex(*error):
                model.save(path)
                keras.models.load_model(path)
            bayesian.save(path)
            loaded = keras.models.load_model(path)
            loaded.save(path)
            for copy in (loaded, keras.models.load_model(path)):
                self.assertAllClose(bayesian(x), copy(x), 1e-6)

    def test_attributes_that_do_not_make_it_again_either(self) -> None:
        regularized = self.model(Mistaken)
        regularized.layers[0].activity_regularizer = keras.regularizers.L2(0.1)
        for model in (self.model(Changing), regularized):
            with self.assertRaisesRegex(ValueError, "^layer='mistaken' .* cannot be made again"):
                tfbdl.to_bayesian(model, num_data=9)


class ForgottenTest(tf.test.TestCase, parameterized.TestCase):
    """Arguments that a layer's own `get_config` leaves out."""

    @parameterized.parameters(*CONVERSIONS)
    def test_conversions(self, name: str) -> None:
        inputs = keras.Input((3,))
        x = keras.layers.Dropout(0.5, name="drop")(Forgetful(4, 2, (0.5, 1.5))(inputs))
        model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x))
        x = RNG.normal(size=(5, 3)).astype("float32")
        converted = tfbdl.to_deterministic(CONVERSIONS[name](model))
        self.assertAllClose(model(x), converted(x), 1e-6)

    def test_a_layer_that_is_converted_itself(self) -> None:
        """Keras 3.12 forgets `output_padding`."""
        padded = keras.layers.Conv2DTranspose(3, 2, strides=3, output_padding=2)
        with mock.patch.object(type(padded), "get_config", without("output_padding")):
            model = keras.Sequential([keras.Input((2, 2, 1)), padded, keras.layers.Flatten()])
            converted = tfbdl.to_bayesian(model, num_data=9)
            x = RNG.normal(size=(5, 2, 2, 1)).astype("float32")
            self.assertAllClose(model(x), tfbdl.to_deterministic(converted)(x), 1e-6)

    def test_a_layer_beside_those_that_are_converted(self) -> None:
        """Keras forgets `sparse`."""
        layer = keras.layers.CategoryEncoding(5, "one_hot", sparse=True)
        self.assertTrue(copy_layer(layer).sparse)


def without(lost: str) -> Any:
    """The `get_config` of transposed convolutions without an argument."""
    whole = keras.layers.Conv2DTranspose.get_config
    return lambda layer: {k: v for k, v in whole(layer).items() if k != lost}
