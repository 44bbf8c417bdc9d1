"""Conversions: the same predictions, weights and graph, and what cannot be converted is named."""

import json
import re
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import keras
import keras.layers as L
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers as bayes
from tfbdl import posteriors, priors
from tfbdl.convert import to_bayesian, to_deterministic, to_mc_dropout
from tfbdl.convert.random_layer import COUNTERPARTS, WRAPPED
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.keras_private import walk
from tfbdl.keras_private_graphs import graphs_in
from tfbdl.keras_private_training import compiled_with
from tfbdl.layers.base import BayesLayer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4)).astype("float32")
IDS = np.array([[1, 8, 3, 0], [2, 2, 0, 0], [5, 6, 7, 8]])
IMAGES = RNG.normal(size=(3, 32, 32, 3)).astype("float32")


@keras.saving.register_keras_serializable(package="tests")
class Doubled(L.Dense):
    """Code of its own, that no layer of the package has."""

    def call(self, x: Any) -> Any:
        return 2.0 * super().call(x)


def own(x: Any) -> Any:
    """An activation that Keras does not know."""
    return tf.sin(x)


def sequential() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((4,)),
            L.Dense(5, own, name="first"),
            L.BatchNormalization(),
            L.Dropout(0.5, seed=3, name="drop"),
            L.Dense(5, own),
            L.Activation(own),
            L.GaussianDropout(0.3),
            L.Dense(2, use_bias=False, name="last"),
        ],
        name="stack",
    )


def built_on_data() -> Any:
    model = keras.Sequential([L.Dense(3, "relu"), L.Dropout(0.5), L.Dense(2)])
    model(X[:5])
    return model


def nested() -> keras.Model:
    """A layer and a nested model that two levels share, operations, dicts at both ends."""
    shared = L.Dense(4, "tanh", name="shared")
    inputs = keras.Input((4,))
    inner = keras.Model(inputs, L.Dropout(0.2)(shared(inputs)), name="inner")
    stack = keras.Sequential([keras.Input((4,)), inner, L.Dense(4), L.LayerNormalization()])
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    twice = 2.0 * stack(shared(a)) + stack(b)[:, ::-1]
    outputs = {
        "head": L.Dense(1, name="head")(twice),
        "rest": [inner(a), L.Lambda(own)(twice)],
    }
    return keras.Model({"a": a, "b": b}, outputs, name="outer")


def branches() -> keras.Model:
    """A shared layer and a shared nested model, at one level, as Keras' files can hold them."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = L.Dense(4, "tanh", name="shared")
    layers = [
        keras.Input((4,)),
        L.Dropout(0.2),
        L.BatchNormalization(),
        L.Dense(4),
    ]
    stack = keras.Sequential(layers, name="stack")
    y = stack(shared(a)) - stack(shared(b))
    return keras.Model([a, b], [L.Dense(1, name="head")(y), y], name="outer")


def half() -> keras.Model:
    policy = "mixed_bfloat16"
    return keras.Sequential(
        [
            keras.Input((4,)),
            L.Dense(3, dtype=policy),
            L.Dropout(0.5, dtype=policy),
            L.Dense(2),
        ]
    )


def images() -> keras.Model:
    """Every convolution, of several arguments, on inputs of four numbers."""
    return keras.Sequential(
        [
            keras.Input((4,)),
            L.Reshape((2, 2, 1)),
            L.Conv2D(4, (1, 2), padding="same", activation=own, data_format="channels_first"),
            L.Conv2DTranspose(3, 2, strides=3, output_padding=2, padding="valid"),
            L.BatchNormalization(),
            L.Conv2D(4, 3, strides=2, use_bias=False, name="conv"),
            L.DepthwiseConv2D(2, padding="same"),
            L.Conv2D(2, 2, groups=2, dilation_rate=2, padding="same"),
            L.Reshape((-1, 2)),
            L.Conv1D(4, 2, padding="causal"),
            L.Conv1DTranspose(2, 2, strides=2),
            L.Reshape((-1, 2, 2, 1)),
            L.Conv3D(3, 2, padding="same"),
            L.Conv3DTranspose(2, 2),
            L.GlobalAveragePooling3D(),
            L.Dropout(0.5),
            L.Dense(2),
        ],
        name="images",
    )


def sequences() -> keras.Model:
    """Integers, embedded; a recurrent layer of each kind, one of them with two states."""
    ids = keras.Input((4,), dtype="int32")
    y = L.Embedding(9, 3, mask_zero=True, name="words")(ids)
    y = L.Bidirectional(L.LSTM(3, return_sequences=True, name="lstm"), "sum", name="both")(y)
    y = L.GRU(3, "relu", reset_after=False, return_sequences=True, dropout=0.2)(y)
    y, h, c = L.LSTM(2, return_state=True, unit_forget_bias=False, recurrent_dropout=0.1)(y)
    y = L.GRU(2, go_backwards=True, use_bias=False)(L.RepeatVector(3)(L.Dropout(0.5)(y + h + c)))
    return keras.Model(ids, L.Dense(2)(y), name="sequences")


MODELS = {
    f.__name__: f for f in (sequential, built_on_data, branches, nested, half, images, sequences)
}


def trained(model: Any) -> Any:
    """Every weight and statistic away from where it started."""
    rng = np.random.default_rng(1)
    for v in model.weights:
        if "float" in v.dtype:
            v.assign(rng.uniform(0.5, 1.5, v.shape) if "variance" in v.path else v + rng.normal())
    return model


def made(name: str) -> Any:
    return trained(MODELS[name]())


def inputs_of(model: Any) -> Any:
    if model.name == "sequences":
        return IDS
    if model.name != "outer":
        return X
    return {"a": X, "b": X[::-1]} if isinstance(model.input, dict) else [X, X[::-1]]


def leaves(model: Any) -> Any:
    return list({id(v): v for v in walk(model) if not isinstance(v, keras.Model)}.values())


def named_leaves(model: Any) -> Any:
    """The layers of a model and of those in it, by name; of inputs those of the model itself."""
    layers = [layer for graph in graphs_in(model) for layer in graph.layers]
    inner = [v for v in layers if not isinstance(v, L.InputLayer)]
    return {v.name: v for v in [*model.layers, *inner] if not isinstance(v, keras.Model)}


def of_type(model: Any, *kinds: Any) -> Any:
    return [layer for layer in walk(model) if type(layer) in kinds]


def drawn(model: Any, x: Any, sample: int = 0) -> Any:
    return keras.tree.flatten(DrawnModel(model)(x, draw=make_draw(0, sample)))


class ConvertTest(tf.test.TestCase, parameterized.TestCase):
    def assert_same_predictions(self, model: Any, other: Any, x: Any = None, **kwargs: Any) -> None:
        x = inputs_of(model) if x is None else x
        expected, got = model(x, training=False), other(x, training=False)
        keras.tree.map_structure(lambda a, b: self.assertAllClose(a, b, **kwargs), expected, got)

    def assert_same_weights(self, model: Any, other: Any) -> None:
        for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
            self.assertAllEqual(a, b)

    def through_file(self, model: Any) -> Any:
        path = f"{self.get_temp_dir()}/model.keras"
        model.save(path)
        return keras.models.load_model(path, safe_mode=True)

    def assert_refused(self, message: str, convert: Any, *args: Any, **kwargs: Any) -> None:
        with self.assertRaisesRegex(ValueError, message) as context:
            convert(*args, **kwargs)
        self.assertNotIn("\n", str(context.exception))


class AnyConversionTest(ConvertTest):
    """What holds for all three, in one walk around: m -> Bayesian, drawable -> m."""

    @parameterized.parameters(*MODELS)
    def test_there_and_back(self, name: str) -> None:
        model = made(name)
        x, before = inputs_of(model), model.get_weights()
        converted = to_mc_dropout(to_bayesian(model, num_data=10))
        back = to_deterministic(converted)
        for other in (converted, back):
            self.assert_same_predictions(model, other, rtol=1e-6, atol=1e-6)
            self.assertIs(type(other), type(model))
            self.assertEqual(other.name, model.name)
            self.assertCountEqual(named_leaves(other), named_leaves(model))
        self.assert_same_weights(model, back)
        self.assertEmpty([v for v in walk(back) if type(v).__module__.startswith("tfbdl")])
        for v in converted.trainable_variables:
            v.assign(v + 1.0)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        keras.tree.map_structure(self.assertAllEqual, model(x), model(x))
        self.assertFalse({id(v) for v in leaves(model)} & {id(v) for v in leaves(converted)})

    @parameterized.parameters(*MODELS)
    def test_draws(self, name: str) -> None:
        """One function a draw, other functions in other draws."""
        model = to_mc_dropout(to_bayesian(made(name), num_data=10))
        x = keras.tree.map_structure(lambda x: np.repeat(x[:1], 3, axis=0), inputs_of(model))
        for a, b in zip(drawn(model, x, 0), drawn(model, x, 1), strict=True):
            self.assertAllClose(a[1:], a[:-1], 1e-6)
            self.assertNotAllClose(a, b)

    def test_original_config_is_left(self) -> None:
        model = made("sequential")
        config = model.get_config()
        to_mc_dropout(model)
        self.assertEqual(json.dumps(model.get_config()), json.dumps(config))
        self.assertLen(model.get_layer("drop")._inbound_nodes, 1)

    def test_copies_are_compiled_alike(self) -> None:
        """What they share has no state; the copy's training leaves the model as it was."""
        model = made("sequential")
        optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 50))
        loss, error = lambda y, f: tf.reduce_mean(y - f, axis=-1), keras.metrics.MeanSquaredError()
        model.compile(
            *(optimizer, loss, 0.5),
            metrics=["mae", error],
            weighted_metrics=[keras.metrics.MeanAbsoluteError(name="weighted")],
            steps_per_execution=2,
            jit_compile=False,
        )
        model.fit(X, X[:, :2], epochs=1, verbose=0)
        before = [v.numpy() for v in [*model.variables, *optimizer.variables]]
        for copy in (to_mc_dropout(model), to_bayesian(model, num_data=6)):
            self.assertIs(copy.loss, loss)
            self.assertEqual(copy.optimizer.get_config(), optimizer.get_config())
            self.assertIsNot(copy.optimizer, optimizer)
            self.assertEqual(compiled_with(copy)["loss_weights"], 0.5)
            self.assertEqual((copy.steps_per_execution, copy.jit_compile), (2, False))
            history = copy.fit(X, X[:, :2], epochs=1, verbose=0).history
            self.assertSameElements(history, {"loss", "mae", "mean_squared_error", "weighted"})
        plain = to_deterministic(to_mc_dropout(model))
        own, again = (m.evaluate(X, X[:, :2], return_dict=True, verbose=0) for m in (model, plain))
        self.assertAllClose(own, again, 1e-5)
        for v, value in zip([*model.variables, *optimizer.variables], before, strict=True):
            if "seed" not in v.path:
                self.assertAllEqual(v, value)

    def test_likelihood_of_the_copy(self) -> None:
        model = made("sequential")
        model.compile("adam", tfbdl.likelihoods.Normal(0.3))
        prediction = tfbdl.predict(to_mc_dropout(model), X, 5, verbose=0)
        self.assertAllClose(prediction.aleatoric_stddev, np.full([6, 2], 0.3), 1e-5)

    def test_what_cannot_be_compiled_again_is_named(self) -> None:
        class Lost(keras.metrics.MeanSquaredError):
            def __init__(self, missing: Any) -> None:
                super().__init__()

        model = made("sequential")
        model.compile("adam", "mse", metrics=[Lost(1)])
        with self.assertWarnsRegex(
            UserWarning, "^model=.* is not compiled: part of what .*argument"
        ):
            copy = to_mc_dropout(model)
        self.assertFalse(copy.compiled)
        self.assertFalse(to_mc_dropout(made("sequential")).compiled)

    def test_frozen_layers_stay_frozen(self) -> None:
        model = made("nested")
        model.get_layer("inner").trainable = False
        model.layers[-1].trainable = False
        expected = {name: v.trainable for name, v in named_leaves(model).items()}
        for converted in (to_mc_dropout(model), to_bayesian(model, num_data=10)):
            got = named_leaves(converted)
            self.assertEqual({name: got[name].trainable for name in expected}, expected)

    def test_fit(self) -> None:
        model = to_bayesian(to_mc_dropout(made("sequential")), num_data=6)
        model.compile("adam", "mse")
        before = model.get_weights()
        history = model.fit(X, X[:, :2], epochs=2, verbose=0).history["loss"]
        self.assertAllInRange(history, 0.0, 1e4)
        changed = [np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True)]
        self.assertGreater(sum(changed), len(changed) // 2)
        self.assert_same_predictions(model, to_deterministic(model), atol=1e-6)

    @parameterized.parameters("built_on_data", "branches")
    def test_converted_models_can_be_saved(self, name: str) -> None:
        model = made(name)
        converted = to_mc_dropout(to_bayesian(model, num_data=10))
        loaded, x = self.through_file(converted), inputs_of(model)
        self.assert_same_predictions(converted, loaded)
        for a, b in zip(drawn(converted, x), drawn(loaded, x), strict=True):
            self.assertAllEqual(a, b)

    def test_state_that_is_no_weight(self) -> None:
        """A vocabulary, and the statistics of Normalization."""
        words, numbers = (
            L.TextVectorization(output_sequence_length=3),
            L.Normalization(),
        )
        words.adapt(["a b c", "a b"])
        numbers.adapt(X)
        text, x = keras.Input((), dtype="string", name="text"), keras.Input((4,), name="x")
        y = L.Flatten()(L.Embedding(9, 2)(words(text)))
        y = L.Dropout(0.5)(L.Concatenate()([y, numbers(x)]))
        model = keras.Model([text, x], L.Dense(1)(y))
        data = [tf.constant(["a c d", "b"]), tf.constant(X[:2])]
        self.assert_same_predictions(model, to_mc_dropout(model), data)
        self.assert_same_predictions(model, to_bayesian(model, num_data=10), data)


class MCDropoutTest(ConvertTest):
    def test_layers(self) -> None:
        """Each kind by its rate, name and seed, and its mask by the axes it is the same along."""
        x = keras.Input((8, 8, 40))
        y = L.Dropout(0.1, (None, 1, None, None), seed=7, name="a")(x)
        y = L.SpatialDropout2D(0.2, name="b")(y)
        y = L.SpatialDropout2D(0.3, data_format="channels_first", name="c")(y)
        y = L.GaussianDropout(0.4, name="d")(y)
        y = L.SpatialDropout3D(0.5, name="f")(L.Reshape((2, 4, 8, 40))(y))
        model = keras.Model(x, L.SpatialDropout1D(0.6, name="e")(L.Reshape((64, 40))(y)))
        converted = to_mc_dropout(model)
        actual = of_type(converted, bayes.MCDropout, bayes.MCGaussianDropout)
        self.assertEqual(
            {v.name: (type(v).__name__, v.rate, v.noise_shape, v.seed.seed) for v in actual},
            {
                "a": ("MCDropout", 0.1, (None, 1, None, None), 7),
                "b": ("MCDropout", 0.2, (None, 1, 1, None), None),
                "c": ("MCDropout", 0.3, (None, None, 1, 1), None),
                "d": ("MCGaussianDropout", 0.4, None, None),
                "e": ("MCDropout", 0.6, (None, 1, None), None),
                "f": ("MCDropout", 0.5, (None, 1, 1, 1, None), None),
            },
        )
        ones = np.ones((4, 8, 8, 40), "float32")
        for original in (model, to_deterministic(converted)):
            for name in "abc":
                both = [m.get_layer(name) for m in (original, converted)]
                masks = [layer(ones, training=True).numpy() for layer in both]
                same = [[np.all(m == m.take([0], axis)) for axis in range(4)] for m in masks]
                self.assertAllEqual(*same)
                self.assertAllClose(*(mask.max() for mask in masks))

    @parameterized.parameters("EfficientNetB0", "MobileNet")
    def test_applications(self, name: str) -> None:
        build = getattr(keras.applications, name)
        model = build(weights=None, input_shape=(32, 32, 3), classes=5)
        model = trained(model)
        converted = to_mc_dropout(model)
        self.assert_same_predictions(model, converted, IMAGES)
        self.assertEmpty(of_type(converted, L.Dropout))
        for old, new in zip(model.layers, converted.layers, strict=True):
            self.assertEqual(old.name, new.name)
            if isinstance(old, L.BatchNormalization):
                self.assert_same_weights(old, new)
        self.assert_same_weights(model, to_deterministic(converted))

    def test_some(self) -> None:
        self.assertEqual(
            [
                [v.name for v in of_type(to_mc_dropout(made("sequential"), layers=layers), *kinds)]
                for layers in ("drop", ["drop"], lambda layer: layer.rate == 0.5)
                for kinds in [(bayes.MCDropout, bayes.MCGaussianDropout)]
            ],
            [["drop"]] * 3,
        )

    def test_noise_that_stays_in_training_is_named(self) -> None:
        model = keras.Sequential(
            [
                keras.Input((3, 4)),
                L.LSTM(4, recurrent_dropout=0.1, return_sequences=True, name="a"),
                L.Bidirectional(L.GRU(4, dropout=0.1, name="b")),
                L.AlphaDropout(0.1, name="c"),
                L.GaussianNoise(0.1, name="d"),
                L.Dropout(0.1, name="e"),
                L.Dense(2, name="f"),
            ]
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            to_mc_dropout(model)
        pattern = r"^layer='(\w+)' \(\w+\) keeps its noise for training: it is not drawn$"
        named = [re.findall(pattern, str(w.message)) for w in caught]
        self.assertCountEqual(named, [["a"], ["forward_b"], ["backward_b"], ["c"], ["d"]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            to_mc_dropout(model, layers="e")

    def test_attention(self) -> None:
        """It holds a Dropout of its own: one of rate 0 is let be, and what is not chosen."""

        def model(rate: Any) -> Any:
            x = keras.Input((5, 4))
            y = L.MultiHeadAttention(2, 3, dropout=rate, name="attention")(x, x)
            return trained(keras.Model(x, L.Dropout(0.5, name="drop")(y)))

        x = RNG.normal(size=(2, 5, 4)).astype("float32")
        for rate, layers in ((0.0, None), (0.1, "drop")):
            attentive = model(rate)
            self.assert_same_predictions(attentive, to_mc_dropout(attentive, layers=layers), x)

    def test_quantized_afterwards(self) -> None:
        """Keras' `quantize` takes the plain layers, and leaves distributions as they are."""
        keras.utils.set_random_seed(0)
        stack = [L.Dense(16, "relu"), L.Dense(16, "relu"), L.Dense(3)]
        model = keras.Sequential([keras.Input((4,)), *stack])
        bayes = tfbdl.to_bayesian(model, layers=[stack[-1].name], num_data=9)
        x = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
        exact = tfbdl.predict(bayes, x, 20, seed=1, verbose=0)
        head = [np.array(w) for w in bayes.layers[-1].get_weights()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of Keras, about layers it passes over
            bayes.quantize("int8")
        modes = [getattr(layer, "quantization_mode", None) for layer in bayes.layers]
        self.assertEqual(modes, ["int8", "int8", None])
        for before, after in zip(head, bayes.layers[-1].get_weights(), strict=True):
            self.assertAllEqual(before, after)
        coarse = tfbdl.predict(bayes, x, 20, seed=1, verbose=0)
        self.assertAllClose(coarse.mean, exact.mean, atol=0.05)
        self.assertAllClose(coarse.epistemic_variance, exact.epistemic_variance, rtol=0.1)

    def test_refusals_name_paths(self) -> None:
        """Layers inside others are named as `layers` and `skip` take them."""

        def attends(change: Any) -> keras.Model:
            inputs = keras.Input((5, 8))
            attention = L.MultiHeadAttention(2, 4, name="mha")
            model = keras.Model(inputs, L.Dense(3)(attention(inputs, inputs)))
            change(attention)
            return model

        def constrain(attention: Any) -> None:
            attention._query_dense.kernel_constraint = keras.constraints.NonNeg()

        message = r"^layer='mha/query' \(EinsumDense\) has a kernel_constraint, which"
        self.assert_refused(message, tfbdl.to_bayesian, attends(constrain), num_data=9)
        eight = attends(lambda attention: attention._query_dense.quantize("int8"))
        message = r"^layer='mha/query' \(EinsumDense\) is quantized; convert it without that"
        named = {"layers": ["mha/query"], "num_data": 9}
        self.assert_refused(message, tfbdl.to_bayesian, eight, **named)
        message = r"^layer='mha' .* say that layer='mha/query' .* is quantized; quantize afterwards"
        with self.assertWarnsRegex(UserWarning, "^layer='mha/query' .* is quantized, and stays"):
            self.assert_refused(message, tfbdl.to_bayesian, eight, num_data=9)

    def test_refusals(self) -> None:
        class Mine(L.Dropout):
            pass

        def of(*layers: Any) -> keras.Model:
            return keras.Sequential([keras.Input((3, 4)), *layers], name="m")

        cases = {
            r"^model='m' holds nothing to convert, which is: Dropout, Spatial": of(L.Dense(2)),
            r"^layer='d' \(Mine\) is of a subclass": of(Mine(0.5, name="d")),
            r"^layer='d' \(Dropout\) has rate=1, which": of(L.Dropout(1, name="d")),
        }
        for message, model in cases.items():
            self.assert_refused(message, to_mc_dropout, model)


class BayesianTest(ConvertTest):
    def test_starts_around_the_trained_weights(self) -> None:
        """MOPED: mean w and sigma |w| / 10; the KL is that of two normals, by hand."""
        model = made("sequential")
        w = model.get_layer("first").kernel.numpy()
        model.get_layer("first").kernel.assign(np.where(w > 1.0, 0.0, w))
        converted = to_bayesian(model, num_data=7, prior=2.0)
        kl = 0.0
        for layer in of_type(converted, bayes.BayesDense):
            old = model.get_layer(layer.name)
            self.assertEqual(layer.activation, old.activation)
            for q, w in ((layer.kernel, old.kernel), (layer.bias, old.bias)):
                if w is None:
                    self.assertIsNone(q)
                    continue
                mu = w.numpy().astype("float64")
                sigma = np.maximum(0.1 * np.abs(mu), 1e-6)
                self.assertAllEqual(q.mean, mu)
                self.assertAllClose(q.stddev, sigma, rtol=1e-5)
                kl += np.sum(np.log(2.0 / sigma) + (sigma**2 + mu**2) / 8.0 - 0.5)
        converted(X)
        self.assertAllClose(sum(converted.losses), kl / 7, rtol=1e-5)
        self.assertAllEqual(np.unique(model.get_layer("first").kernel == 0.0), [False, True])

    def test_initial_sigma(self) -> None:
        def first(**kwargs: Any) -> Any:
            return to_bayesian(model, num_data=7, **kwargs).get_layer("first").kernel

        model = made("sequential")
        w = np.abs(model.get_layer("first").kernel.numpy())
        self.assertAllClose(first(initial_sigma=0.5).stddev, 0.5 * w, 1e-5)
        noisy = {"posterior": "multiplicative", "prior": "log_uniform"}
        self.assertAllClose(first(**noisy, initial_sigma=0.3).stddev, 0.3 * w, 1e-5)
        start = keras.initializers.Constant(-4.0)
        own_start = first(posterior=posteriors.MeanFieldNormal(start), initial_sigma=None)
        self.assertAllEqual(own_start.rho, np.full(w.shape, -4.0))
        self.assertAllEqual(first(posterior="point").stddev, 0.0 * w)
        for q in (first(**noisy), first(posterior="point")):
            self.assertAllEqual(np.abs(q.mean), w)

    def test_arguments_reach_the_layers(self) -> None:
        prior = priors.Normal(3.0)
        converted = to_bayesian(made("sequential"), num_data=7, prior=prior, estimator="flipout")
        actual = of_type(converted, bayes.BayesDense)
        self.assertLen(actual, 3)
        for layer in actual:
            self.assertEqual((layer.num_data, layer.prior.scale), (7, 3.0))
            self.assertEqual(type(layer.estimator).__name__, "Flipout")
        self.assertLen({id(layer.prior) for layer in actual}, 3)
        self.assertLen({int(layer.seed.state.value[0]) for layer in actual}, 3)

    def test_some(self) -> None:
        for layers in ("last", ["last"], lambda layer: layer.units == 2):
            converted = to_bayesian(made("sequential"), num_data=7, layers=layers)
            self.assertEqual([v.name for v in of_type(converted, bayes.BayesDense)], ["last"])

    @parameterized.parameters(("images", 19), ("sequences", 17))
    def test_means_and_spreads_of_all_weights(self, name: str, number: int) -> None:
        """Keras' own, kernels of transposed convolutions with channels before filters."""
        model = made(name)
        converted = to_bayesian(model, num_data=10)
        actual = 0
        for new in walk(converted):
            if not isinstance(new, BayesLayer):
                continue
            old = next(v for v in walk(model) if v.name == new.name)
            self.assertLen(old.weights, len(new.random_weights))
            for weight, q in zip(old.get_weights(), new.random_weights, strict=True):
                swap = "Transpose" in type(old).__name__ and q.name == "kernel"
                w = np.moveaxis(weight, -1, -2) if swap else weight
                self.assertAllEqual(q.mean, w)
                self.assertAllClose(q.stddev, np.maximum(0.1 * np.abs(w), 1e-6), 1e-5)
                actual += 1
        self.assertEqual(actual, number)
        kinds = {type(v) for v in walk(converted) if isinstance(v, BayesLayer)}
        counterparts = {new for old, new in COUNTERPARTS.items() if of_type(model, old)}
        wrapped = {bayes.BayesWrapper} if of_type(model, *WRAPPED) else set()
        self.assertEqual(kinds, counterparts | wrapped)

    def test_bias_has_a_prior_and_a_posterior_of_its_own(self) -> None:
        for name in ("sequential", "images", "sequences"):
            converted = to_bayesian(
                made(name), num_data=7, prior=2.0, bias_prior=0.5, bias_posterior="point"
            )
            for layer in walk(converted):
                if isinstance(layer, BayesLayer):
                    for q in layer.random_weights:
                        is_bias = q.name == "bias"
                        self.assertAllClose(q.prior.scale, 0.5 if is_bias else 2.0)
                        self.assertEqual(isinstance(q, posteriors.PointMass), is_bias)

    def test_some_directions(self) -> None:
        """A Bidirectional is made anew if a layer in it is chosen."""
        model = made("sequences")
        for chosen, expected in (
            ("forward_lstm", [bayes.BayesLSTM, L.LSTM]),
            ("words", [L.LSTM, L.LSTM]),
            (["forward_lstm", "backward_lstm"], [bayes.BayesLSTM, bayes.BayesLSTM]),
        ):
            converted = to_bayesian(model, num_data=10, layers=chosen)
            both = converted.get_layer("both")
            self.assertEqual([type(both.forward_layer), type(both.backward_layer)], expected)
            self.assertEqual(both.merge_mode, "sum")
            self.assert_same_predictions(model, converted, rtol=1e-5, atol=1e-5)
        model.get_layer("both").forward_layer.trainable = False
        both = to_bayesian(model, num_data=10).get_layer("both")
        self.assertEmpty(both.forward_layer.trainable_variables)
        self.assertLen(both.backward_layer.trainable_variables, 6)

    def test_estimators_that_layers_do_not_take(self) -> None:
        cases = (
            ("sequences", "flipout", r"^layer='words' \(Embedding\): estimator='?.* 'reparam"),
            ("images", "local_reparameterization", r"^layer='conv2d.*' \(Conv2D\): estimator="),
        )
        for name, estimator, message in cases:
            model = made(name)
            arguments = {"num_data": 10, "estimator": estimator}
            self.assert_refused(message, to_bayesian, model, **arguments)
            dense = to_bayesian(model, layers=lambda v: type(v) is L.Dense, **arguments)
            rest = to_bayesian(dense, num_data=10)
            self.assert_same_predictions(model, rest, rtol=1e-5, atol=1e-5)
            self.assertLen([v for v in walk(rest) if isinstance(v, L.LSTM | L.Conv2D)], 0)

    def test_posteriors_without_means_are_refused(self) -> None:
        self.assert_refused(
            "^posterior=PriorItself has no means",
            to_bayesian,
            made("half"),
            num_data=10,
            posterior="prior",
            initial_sigma=None,
        )

    def test_shared_layers_stay_shared(self) -> None:
        converted = to_bayesian(made("nested"), num_data=10)
        shared = [v for v in of_type(converted, bayes.BayesDense) if v.name == "shared"]
        self.assertLen(shared, 1)
        converted(inputs_of(converted))
        self.assertLen(converted.losses, 3)

    def test_an_application(self) -> None:
        net = keras.applications.MobileNetV2((32, 32, 3), 0.35, weights=None, classes=5)
        model = trained(net)
        converted = to_bayesian(model, num_data=10)
        self.assert_same_predictions(model, converted, IMAGES)
        self.assertLen(of_type(converted, bayes.BayesDense), 1)
        convolutions = of_type(converted, bayes.BayesConv2D)
        self.assertLen(convolutions, len(of_type(model, L.Conv2D)))
        self.assertGreater(len(convolutions), 30)
        self.assertLen(
            of_type(converted, bayes.BayesWrapper), len(of_type(model, L.DepthwiseConv2D))
        )
        self.assert_same_weights(model, to_deterministic(converted))

    def test_regularizers_give_way_with_a_warning(self) -> None:
        layer = L.Dense(2, kernel_regularizer="l2", activity_regularizer="l1", name="d")
        model = keras.Sequential([keras.Input((4,)), layer])
        with self.assertWarnsRegex(UserWarning, r"^layer='d' \(Dense\) loses its kernel_reg"):
            converted = to_bayesian(model, num_data=10)
        converted(X)
        self.assertLen(converted.losses, 2)  # the KL, and that of the activity
        self.assert_same_predictions(model, converted)

    def test_refusals(self) -> None:
        class Mine(L.Dense):
            pass

        class Subclassed(keras.Model):
            pass

        def of(*layers: Any, shape: Any = (3, 4)) -> keras.Model:
            return keras.Sequential([keras.Input(shape), *layers], name="m")

        eight = of(L.Dense(8, name="d"))
        eight.layers[0].quantize("int8")
        cases = {
            "^model='m' holds nothing to convert, which is: Dense, EinsumDense, .*, Separable": of(
                L.Dropout(0.5)
            ),
            r"^layer='d' \(Dense\) is quantized": eight,
            r"^layer='d' \(Mine\): kernel has a constraint": of(
                Mine(2, kernel_constraint="non_neg", name="d")
            ),
            r"^layer='d' \(Dense\) has a kernel_constraint": of(
                L.Dense(2, kernel_constraint="non_neg", name="d")
            ),
            r"^layer='r' \(LSTM\) has a recurrent_constraint": of(
                L.LSTM(2, recurrent_constraint="max_norm", name="r")
            ),
            "^model='s' is not built": keras.Sequential([L.Dense(2)], name="s"),
            r"^model='own' \(Subclassed\) is no functional or Seq": Subclassed(name="own"),
        }
        for message, model in cases.items():
            self.assert_refused(message, to_bayesian, model, num_data=10)

    @parameterized.parameters(("lora", "has LoRA"), ("int8", "is quantized"))
    def test_low_rank_factors_and_eight_bits_stay(self, kind: str, reason: str) -> None:
        stack = [keras.Input((8,)), L.Dense(8, "relu", name="d"), L.Dense(2, name="head")]
        model = keras.Sequential(stack)
        hidden = model.get_layer("d")
        if kind == "lora":
            hidden.enable_lora(2)
            hidden.lora_kernel_b.assign(RNG.normal(size=(2, 8)))
        else:
            hidden.quantize("int8")
        with self.assertWarnsRegex(UserWarning, rf"^layer='d' \(Dense\) {reason}"):
            converted = to_bayesian(model, num_data=10)
        copy, x = converted.get_layer("d"), RNG.normal(size=(6, 8)).astype("float32")
        self.assertIs(type(copy), L.Dense)
        self.assertIsInstance(converted.get_layer("head"), bayes.BayesDense)
        self.assertAllClose(model(x), converted(x), 1e-5, 1e-6)
        self.assertEqual(
            [(v.name, v.dtype, v.trainable) for v in copy.weights],
            [(v.name, v.dtype, v.trainable) for v in hidden.weights],
        )

    @parameterized.parameters("lora", "d", r"d|head")
    def test_factors_of_lora(self, layers: str) -> None:
        """They alone are random, beside what else is chosen; the frozen kernel stays as it is."""
        dense = [L.Dense(8, "relu", name="d"), L.Dense(2, name="head")]
        model = keras.Sequential([keras.Input((8,)), *dense])
        hidden, x = model.get_layer("d"), RNG.normal(size=(6, 8)).astype("float32")
        hidden.enable_lora(2, 5.0)
        hidden.lora_kernel_b.assign(RNG.normal(size=(2, 8)))
        converted = to_bayesian(model, num_data=10, layers=layers)
        wrapper = converted.get_layer("d")
        self.assertIsInstance(wrapper, bayes.BayesWrapper)
        self.assertEqual(list(wrapper.replaced), ["lora_kernel_a", "lora_kernel_b"])
        self.assertAllEqual(wrapper.layer._kernel, hidden._kernel)
        self.assertAllClose(model(x), converted(x), 1e-5, 1e-6)
        self.assertIs(
            type(converted.get_layer("head")),
            type(dense[1]) if layers != "d|head" else bayes.BayesDense,
        )
        q = wrapper.lora_kernel_b
        self.assertAllClose(q.stddev, 0.1 * np.abs(q.mean), 1e-3, 1e-5)
        back = to_deterministic(converted)
        self.assertAllClose(model(x), back(x), 1e-5, 1e-6)
        self.assertAllClose(back.get_layer("d").lora_kernel_b, hidden.lora_kernel_b, 1e-6)
        self.assertAllEqual(back.get_layer("d")._kernel, hidden._kernel)

    def test_no_lora(self) -> None:
        self.assert_refused(
            "layers='lora': no layer of the model has LoRA",
            to_bayesian,
            made("half"),
            num_data=9,
            layers="lora",
        )

    def test_layers_that_are_wrapped(self) -> None:
        """Kinds without a Bayesian form, and subclasses with code of their own."""
        x = keras.Input((8, 8, 3))
        y = L.SeparableConv2D(4, 3, name="separable")(L.DepthwiseConv2D(3, name="depthwise")(x))
        y = Doubled(2, name="own")(L.GlobalAveragePooling2D()(y))
        model = trained(keras.Model(x, y))
        converted = to_bayesian(model, num_data=10)
        images = RNG.normal(size=(4, 8, 8, 3)).astype("float32")
        self.assertAllClose(model(images), converted(images), 1e-5, 1e-6)
        wrappers = of_type(converted, bayes.BayesWrapper)
        self.assertEqual([w.name for w in wrappers], ["depthwise", "separable", "own"])
        self.assertNotAllClose(converted(images), converted(images, training=True))
        self.assert_same_weights(model, to_deterministic(converted))

    @parameterized.parameters("train_step", "compute_loss")
    def test_a_training_of_its_own_is_not_lost(self, name: str) -> None:
        """A subclass of keras.Model that is functional converts, unless it trains in its way."""
        x = keras.Input((4,))
        outputs = L.Dense(2)(x)
        converted = to_bayesian(type("Plain", (keras.Model,), {})(x, outputs), num_data=10)
        self.assert_same_predictions(keras.Model(x, outputs), converted)
        own = type("Own", (keras.Model,), {name: lambda self, *args, **kwargs: {}})
        message = rf"^model='own' \(Own\) has a {name} of its own"
        self.assert_refused(message, to_bayesian, own(x, outputs, name="own"), num_data=10)

    @parameterized.parameters(
        (r"^layers=\['lost'\] are unknown; what can be converted is: .*first, last", ["lost"]),
        (r"^layers=\['drop'\] are unknown", "drop"),
        (r"^layers=\[\] chooses none", []),
        (r"^layers=<function .*> chooses none", lambda layer: False),
    )
    def test_layers_is_checked(self, message: str, layers: Any) -> None:
        self.assert_refused(message, to_bayesian, sequential(), num_data=10, layers=layers)

    @parameterized.parameters(
        ("initial_sigma", 0.0),
        ("initial_sigma", 1.5),
        ("num_data", 0),
        ("prior", "mystery"),
        ("posterior", "multiplicative"),
        ("estimator", "mystery"),
    )
    def test_arguments_are_checked(self, name: str, value: Any) -> None:
        arguments = {"num_data": 10, name: value}
        self.assert_refused(f"{name}|prior", to_bayesian, sequential(), **arguments)


class DeterministicTest(ConvertTest):
    def model(self) -> Any:
        noise = bayes.ConcreteDropout(L.Dense(3, "relu", name="inside"), num_data=10, name="around")
        layers = [
            bayes.BayesDense(5, "tanh", num_data=10, name="bayes"),
            bayes.VariationalDropout(4, "relu", num_data=10, name="sparse"),
            bayes.MCDropout(0.2, (None, 1), seed=4, name="drop"),
            bayes.MCGaussianDropout(0.3, name="noise"),
            noise,
        ]
        return trained(keras.Sequential([keras.Input((4,)), *layers]))

    def test_layers(self) -> None:
        model = self.model()
        plain = to_deterministic(model)
        kinds = [(v.name, type(v)) for v in plain.layers]
        self.assertEqual(
            kinds,
            [
                ("bayes", L.Dense),
                ("sparse", L.Dense),
                ("drop", L.Dropout),
                ("noise", L.GaussianDropout),
                ("inside", L.Dense),
            ],
        )
        drop = plain.get_layer("drop")
        self.assertEqual((drop.rate, drop.noise_shape, drop.seed), (0.2, (None, 1), 4))
        self.assertEqual(plain.get_layer("noise").rate, 0.3)
        self.assert_same_predictions(model, plain, atol=1e-6)
        self.assertAllEqual(plain.get_layer("inside").kernel, model.layers[-1].layer.kernel)

    def test_loads_without_this_package(self) -> None:
        model = self.model()
        folder = self.get_temp_dir()
        to_deterministic(model).save(f"{folder}/plain.keras")
        code = (
            "import sys, keras, numpy as np\n"
            "model = keras.models.load_model(sys.argv[1])\n"
            "assert 'tfbdl' not in sys.modules\n"
            "np.save(sys.argv[3], model(np.load(sys.argv[2])))"
        )
        np.save(f"{folder}/x.npy", X)
        arguments = [f"{folder}/{name}" for name in ("plain.keras", "x.npy", "y.npy")]
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
        self.assertAllClose(np.load(f"{folder}/y.npy"), model(X), atol=1e-6)

    def test_refusals(self) -> None:
        class Mine(bayes.BayesDense):
            pass

        def of(*layers: Any) -> keras.Model:
            return keras.Sequential([keras.Input((3, 4)), *layers], name="m")

        cases = {
            "^model='m' holds nothing to convert, which is: BayesDense, .*, Var": of(L.Dense(2)),
            r"^layer='d' \(Mine\) is of a subclass": of(Mine(2, num_data=10, name="d")),
            r"^layer='g' \(MCGaussianDropout\) has noise_shape=": of(
                bayes.MCGaussianDropout(0.5, noise_shape=(None, 1, None), name="g")
            ),
            r"^layer='s' \(LearnedScale\) has no counterpart in Keras": of(
                bayes.MCDropout(0.5), bayes.LearnedScale(name="s")
            ),
        }
        for message, model in cases.items():
            self.assert_refused(message, to_deterministic, model)

    def test_a_layer_without_config(self) -> None:
        class Mute(L.Layer):
            def __init__(self, secret: Any, **kwargs: Any) -> None:
                super().__init__(**kwargs)
                self.secret = secret

            def call(self, x: Any) -> Any:
                return x

        model = keras.Sequential([keras.Input((4,)), Mute(object(), name="mute"), L.Dropout(0.5)])
        self.assert_refused(r"^layer='mute' \(Mute\) cannot be made again", to_mc_dropout, model)


if __name__ == "__main__":
    tf.test.main()


@keras.saving.register_keras_serializable(package="tests")
class ByName(L.Layer):
    """Two layers of its own, called by the names of their arguments."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first, self.second = L.Dense(4, "tanh"), L.Conv1D(4, 3, padding="same")
        self.drop = L.Dropout(0.1)

    def build(self, shape: Any) -> None:
        self.first.build(shape)
        self.second.build(shape)

    def call(self, x: Any) -> Any:
        return self.second(inputs=self.drop(inputs=self.first(inputs=x)))


@pytest.mark.parametrize("convert", [partial(to_bayesian, num_data=5), to_mc_dropout])
def test_layers_called_by_the_names_of_keras(convert: Any) -> None:
    """As `Dense(4)(inputs=h)`, in a graph and in a layer of one's own."""
    h = inputs = keras.Input((6,), dtype="int32")
    h = L.Embedding(9, 4)(inputs=h)
    h = L.SpatialDropout1D(0.1)(inputs=L.Conv1D(4, 3, padding="same")(inputs=h))
    h = ByName()(L.EinsumDense("abc,cd->abd", (None, 4))(inputs=h))
    h = L.MultiHeadAttention(2, 2)(query=h, value=h, key=h)
    model = keras.Model(inputs, L.Dense(2)(inputs=L.LSTM(3)(sequences=h)))
    x = RNG.integers(0, 9, (5, 6))
    converted = convert(model)
    np.testing.assert_allclose(converted(x), model(x), 1e-4, 1e-5)
    assert tfbdl.predict(converted, x, 3, verbose=0).epistemic_variance.min() > 0
