"""Conversions that reach into layers: attention, wrappers, blocks of a user's own."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import layers as bayes
from tfbdl import priors
from tfbdl.convert import prune, to_bayesian, to_deterministic, to_mc_dropout
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.keras_private import walk

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 5, 4)).astype("float32")
IDS = np.array([[1, 8, 3, 0, 0], [2, 2, 5, 1, 0], [5, 6, 7, 8, 1]])


@keras.saving.register_keras_serializable(package="tests")
class Block(L.Layer):
    """A user's own: a list, a dictionary, a model inside, a layer under two names."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps = [L.Dense(4, "tanh", name="step"), L.Dropout(0.5, name="step_drop")]
        self.by_name = {"out": L.Dense(4, name="out")}
        self.inside = keras.Sequential([keras.Input((None, 4)), L.Dense(4), L.Dropout(0.3)])
        self.first = self.steps[0]
        self.attention = L.MultiHeadAttention(2, 3, dropout=0.2, name="attention")

    def build(self, shape: Any) -> None:
        for layer in (self.steps[0], self.by_name["out"]):
            layer.build(shape)
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x: Any, training: Any = None) -> Any:
        for layer in self.steps:
            x = layer(x, training=training) if isinstance(layer, L.Dropout) else layer(x)
        x = self.attention(query=x, value=x)
        return self.inside(self.by_name["out"](self.first(x)), training=training)


class Transposed(L.Layer):
    """Multiplies by the kernel of another layer, as the decoder of a tied autoencoder does."""

    def __init__(self, dense: L.Dense, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = dense

    def call(self, x: Any) -> Any:
        return keras.ops.matmul(x, keras.ops.transpose(self.dense.kernel))

    def get_config(self) -> dict[str, Any]:
        dense = keras.saving.serialize_keras_object(self.dense)
        return {**super().get_config(), "dense": dense}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Transposed:
        return cls(**{**config, "dense": keras.saving.deserialize_keras_object(config["dense"])})


@keras.saving.register_keras_serializable(package="tests")
class Decoder(L.Layer):
    """As in keras_hub: its config builds it, and its shape is known without a call."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense, self.dropout = L.Dense(4, "tanh"), L.Dropout(0.3)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.dropout(self.dense(keras.ops.mean(x, axis=1)))

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0], 4)

    def get_build_config(self) -> dict[str, Any]:
        return {"input_shape": (None, 5, 4)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        layer = cls(**config)
        layer.build((None, 5, 4))
        return layer


@keras.saving.register_keras_serializable(package="tests")
class Words(L.Layer):
    """As in keras_hub: its first call builds it, and its config asks a layer in it."""

    def __init__(self, tie_weights: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = L.ReversibleEmbedding(9, 4, tie_weights, name="table")
        self.norm = L.LayerNormalization()
        self.dropout = L.Dropout(0.3)

    def call(self, ids: Any) -> Any:
        return self.dropout(self.norm(self.table(ids)))

    def compute_output_shape(self, shape: Any) -> Any:
        return (*shape, 4)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "tie_weights": self.table.tie_weights}


@keras.saving.register_keras_serializable(package="tests")
class Places(L.Layer):
    """Has a weight of its own and a layer that its first call builds."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vectors = self.add_weight(shape=(5, 4), initializer="normal", name="vectors")
        self.norm = L.LayerNormalization()

    def call(self, x: Any) -> Any:
        return x + self.norm(self.vectors)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def attention() -> keras.Model:
    """Attention called by name, with padding that is masked, as by BERT."""
    ids = keras.Input((5,), dtype="int32")
    x = L.Embedding(9, 4, mask_zero=True, name="words")(ids)
    layer = L.MultiHeadAttention(2, 3, dropout=0.4, name="attention")
    y = layer(query=x, value=x, use_causal_mask=True)
    return keras.Model(ids, L.Dense(2, name="head")(L.Flatten()(y + x)), name="attention")


def own() -> keras.Model:
    x = keras.Input((5, 4))
    block = Block(name="block")
    return keras.Model(x, L.Dense(2)(block(block(x))), name="own")


def wrapped() -> keras.Model:
    x = keras.Input((5, 4))
    y = L.TimeDistributed(L.Dense(3, "relu", name="each"), name="steps")(x)
    y = L.TimeDistributed(L.Dropout(0.5), name="drops")(y)
    y = L.GroupQueryAttention(4, 4, 2, dropout=0.1, name="groups")(y, y)
    return keras.Model(x, L.EinsumDense("abc,cd->abd", (None, 2), "tanh", "d")(y), name="wrapped")


def decoder() -> keras.Model:
    """A product with a constant, which Keras takes for sparse, before a layer of known shape."""
    x = keras.Input((5, 4))
    y = x * keras.ops.cast(keras.ops.sqrt(4), x.dtype)
    return keras.Model(x, L.Dense(2)(Decoder(name="decoder")(y)), name="decoder")


def words() -> keras.Model:
    ids = keras.Input((5,), dtype="int32")
    y = L.Flatten()(Places(name="places")(Words(False, name="words")(ids)))
    return keras.Model(ids, L.Dense(2, name="head")(y), name="words")


def tied() -> keras.Model:
    """As OPT: a block holds the table that the head is called from; steps share a layer."""
    ids = keras.Input((5,), dtype="int32")
    block, shared = Words(name="words"), L.Dense(4, "tanh", name="shared")
    y = L.TimeDistributed(shared, name="steps")(shared(block(ids)))
    return keras.Model(ids, block.table(L.Dropout(0.2)(y), reverse=True), name="tied")


MODELS = {f.__name__: f for f in (attention, own, wrapped, decoder, words, tied)}


@keras.saving.register_keras_serializable(package="tests")
class ByFunction(L.Layer):
    """Calls the layer that is its attribute by a function of its own."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dense = L.Dense(4, name="dense")
        self.dense, self.function = dense, lambda x: 1.0 * dense(x)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)

    def call(self, x: Any) -> Any:
        return self.function(x)


@keras.saving.register_keras_serializable(package="tests")
class OfKnownShape(ByFunction):
    """Keras does not call it to know the shape of what it gives."""

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


class InsideTest(tf.test.TestCase, parameterized.TestCase):
    def made(self, name: str) -> tuple[Any, np.ndarray]:
        model = MODELS[name]()
        rng = np.random.default_rng(1)
        for v in model.weights:
            if "float" in v.dtype:
                v.assign(v + 0.3 * rng.normal(size=v.shape))
        return model, IDS if name in ("attention", "words", "tied") else X

    def assert_same(self, a: Any, b: Any, x: np.ndarray) -> None:
        self.assertAllClose(a.predict(x, verbose=0), b.predict(x, verbose=0), 1e-6, 1e-6)

    def again(self, model: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.keras"
            model.save(path)
            return keras.models.load_model(path)

    @parameterized.parameters(*MODELS)
    def test_dropout(self, name: str) -> None:
        """All of it is drawn, and after saving draws the same."""
        model, x = self.made(name)
        converted = to_mc_dropout(model)
        self.assert_same(model, converted, x)
        dropouts = [v for v in walk(converted) if isinstance(v, (L.Dropout, bayes.MCDropout))]
        expected = [v for v in walk(model) if isinstance(v, L.Dropout) and v.rate]
        self.assertLen(dropouts, len(expected))
        self.assertTrue(all(isinstance(v, bayes.MCDropout) for v in dropouts))
        drawn, other = (DrawnModel(converted)(x, draw=make_draw(k, 0)) for k in range(2))
        self.assertNotAllClose(drawn, other)
        loaded = self.again(converted)
        self.assert_same(converted, loaded, x)
        self.assertAllClose(DrawnModel(loaded)(x, draw=make_draw(0, 0)), drawn, 1e-5, 1e-6)

    @parameterized.parameters(*MODELS)
    def test_weights(self, name: str) -> None:
        """Bayesian, saved, pruned and back: at the means the functions are the same."""
        model, x = self.made(name)
        converted = to_bayesian(model, num_data=10)
        self.assert_same(model, converted, x)
        left = [v for v in walk(converted) if type(v) in (L.Dense, L.EinsumDense, L.Embedding)]
        self.assertEmpty(left)
        self.assert_same(converted, self.again(converted), x)
        self.assert_same(prune(converted, 0.0), converted, x)
        back = to_deterministic(converted)
        self.assert_same(model, back, x)
        self.assertFalse([v for v in walk(back) if "tfbdl" in type(v).__module__])
        names = [[type(v).__name__ for v in walk(m)] for m in (model, back)]
        self.assertCountEqual(*names)

    def test_shared_layers_stay_shared(self) -> None:
        """Also in files, which Keras' own would part: a layer is one in all places that hold it."""
        model, _ = self.made("tied")
        for convert in (to_mc_dropout, lambda m: to_bayesian(m, num_data=10, layers="shared")):
            converted = convert(model)
            for copy in (converted, self.again(converted)):
                table = copy.get_layer("table")
                self.assertIs(copy.get_layer("words").layer.table, table)
                self.assertIs(copy.get_layer("steps").layer, copy.get_layer("shared"))

    def test_a_layer_that_uses_the_kernel_of_another_is_refused(self) -> None:
        """The line names what to do; what is skipped is converted around."""
        x, encoder = keras.Input((4,)), L.Dense(2, name="encoder")
        model = keras.Model(x, Transposed(encoder)(L.Dense(2, name="code")(encoder(x))))
        with self.assertRaisesRegex(
            ValueError, "cannot be called with new layers.*skip"
        ) as refused:
            to_bayesian(model, num_data=9)
        self.assertNotIn("\n", str(refused.exception))
        converted = to_bayesian(model, num_data=9, skip=["encoder"])
        self.assertIsInstance(converted.get_layer("code"), bayes.BayesDense)
        self.assertAllClose(converted(X[:, 0]), model(X[:, 0]))

    def test_layers_that_random_ones_share_are_not_parted(self) -> None:
        """A learned prior of two layers, and a layer that is called beside one that wraps it."""
        x, d = keras.Input((4,)), L.Dense(4, name="d")
        prior = priors.Normal(1.0, trainable=True)
        two = [bayes.BayesDense(4, num_data=9, prior=prior, name=name) for name in "ab"]
        by_prior = keras.Model(x, two[1](two[0](x)))
        by_wrapper = keras.Model(x, bayes.ConcreteDropout(d, num_data=9, name="c")(d(x)))
        for model, convert, names in (
            (by_prior, lambda m: prune(m, 0.5), "shared by 'a' and 'b'"),
            (by_wrapper, to_deterministic, "layer='d' .* shared by 'd' and 'c'"),
        ):
            with self.assertRaisesRegex(ValueError, f"{names}, where a copy would part it"):
                convert(model)


class ByFunctionTest(tf.test.TestCase, parameterized.TestCase):
    """What a new layer cannot take the place of is refused, and never answers in its stead."""

    MESSAGE = "layer='dense' in '.*' is called otherwise than by 'dense', so .* or `skip` it"

    def test_in_a_graph(self) -> None:
        model = keras.Sequential([keras.Input((5, 4)), ByFunction(), L.Dense(1, name="head")])
        with self.assertRaisesRegex(ValueError, self.MESSAGE):
            to_bayesian(model, num_data=9)
        skipped = to_bayesian(model, num_data=9, skip="by_function.*")
        self.assertAllClose(skipped(X), model(X), 1e-6)

    def test_where_keras_does_not_call(self) -> None:
        model = keras.Sequential([keras.Input((5, 4)), OfKnownShape(), L.Dense(1)])
        with self.assertRaisesRegex(ValueError, self.MESSAGE):
            to_bayesian(model, num_data=9)(X)


if __name__ == "__main__":
    tf.test.main()
