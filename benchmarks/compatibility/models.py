"""Models that nobody here wrote, or as people write them, each with a few examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers as L

import tfbdl

N, CLASSES, WORDS, TOKENS = 16, 4, 50, 8
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, CLASSES, N)
IMAGES = RNG.uniform(0, 255, (N, 32, 32, 3)).astype("float32")
SERIES = RNG.normal(size=(N, 12, 3)).astype("float32")
ROWS = RNG.normal(size=(N, 6)).astype("float32")
IDS = RNG.integers(1, WORDS, (N, TOKENS))


class Case(NamedTuple):
    """A compiled model and examples for it."""

    model: keras.Model
    x: Any
    y: Any


def compiled(model: keras.Model, loss: Any = SPARSE) -> keras.Model:
    model.compile(keras.optimizers.SGD(1e-3), loss)
    return model


def of_keras(name: str, **arguments: Any) -> Case:
    """A network of `keras.applications` for small images, from random weights."""
    make = getattr(keras.applications, name)
    body = make(weights=None, include_top=False, input_shape=(32, 32, 3), **arguments)
    h = L.GlobalAveragePooling2D()(body.output)
    outputs = L.Dense(CLASSES, name="head")(L.Dropout(0.2)(h))
    return Case(compiled(keras.Model(body.input, outputs, name=name.lower())), IMAGES, LABELS)


def normalised(case: Case) -> Case:
    """A case with the moments of the images: a deep network may begin with outputs of 1e-10."""
    layers = [layer for layer in case.model.layers if isinstance(layer, L.BatchNormalization)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    case.model(case.x, training=True)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    return case


def u_net() -> Case:
    """Classes of pixels, (32, 32, C)."""

    def block(h: Any, units: int) -> Any:
        h = L.Conv2D(units, 3, padding="same", use_bias=False)(h)
        return L.Dropout(0.2)(L.ReLU()(L.BatchNormalization()(h)))

    inputs = keras.Input((32, 32, 3))
    wide = block(L.Rescaling(1 / 255)(inputs), 8)
    middle = block(L.MaxPooling2D()(wide), 16)
    deep = block(L.MaxPooling2D()(middle), 32)
    up = L.Conv2DTranspose(16, 3, strides=2, padding="same")(deep)
    up = block(L.Concatenate()([up, middle]), 16)
    up = L.Conv2DTranspose(8, 3, strides=2, padding="same")(up)
    outputs = L.Conv2D(CLASSES, 1, name="head")(block(L.Concatenate()([up, wide]), 8))
    y = RNG.integers(0, CLASSES, (N, 32, 32))
    return Case(compiled(keras.Model(inputs, outputs, name="u_net")), IMAGES, y)


def lstm() -> Case:
    stack = [keras.Input((TOKENS,), dtype="int32"), L.Embedding(WORDS, 8, mask_zero=True)]
    stack += [L.Bidirectional(L.LSTM(6)), L.Dropout(0.2), L.Dense(CLASSES, name="head")]
    return Case(compiled(keras.Sequential(stack, name="lstm")), IDS, LABELS)


def tcn() -> Case:
    """A temporal convolution network that forecasts two numbers."""
    h = inputs = keras.Input((12, 3))
    for dilation in (1, 2, 4):
        g = L.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")(h)
        g = L.LayerNormalization()(L.SpatialDropout1D(0.1)(g))
        h = L.Add()([g, L.Conv1D(8, 1)(h)])
    outputs = L.Dense(2, name="head")(L.GlobalAveragePooling1D()(h))
    model = compiled(keras.Model(inputs, outputs, name="tcn"), tfbdl.likelihoods.Normal(0.3))
    return Case(model, SERIES, RNG.normal(size=(N, 2)).astype("float32"))


@keras.saving.register_keras_serializable("compatibility")
class Positions(L.Layer):
    """Adds a learned vector to each position, as the example of keras.io does."""

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer="normal", name="table")

    def call(self, x: Any) -> Any:
        return x + self.table


def vit() -> Case:
    """A vision transformer of two blocks."""
    inputs = keras.Input((32, 32, 3))
    h = L.Conv2D(16, 8, strides=8)(L.Rescaling(1 / 255)(inputs))
    h = Positions()(L.Reshape((16, 16))(h))
    for _ in range(2):
        g = L.LayerNormalization()(h)
        h = L.Add()([h, L.MultiHeadAttention(2, 8, dropout=0.1)(query=g, value=g)])
        g = L.Dense(32, "gelu")(L.LayerNormalization()(h))
        h = L.Add()([h, L.Dense(16)(L.Dropout(0.1)(g))])
    outputs = L.Dense(CLASSES, name="head")(L.GlobalAveragePooling1D()(h))
    return Case(compiled(keras.Model(inputs, outputs, name="vit")), IMAGES, LABELS)


SMALL = {"num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32, "vocabulary_size": WORDS}


def tokens(*names: str) -> dict[str, Any]:
    parts = {
        "token_ids": IDS.astype("int32"),
        "padding_mask": np.ones_like(IDS, "int32"),
        "segment_ids": np.zeros_like(IDS, "int32"),
    }
    return {name: parts[name] for name in names}


def bert() -> Case:
    import keras_hub  # noqa: PLC0415 (a large package, which this case alone needs)

    body = keras_hub.models.BertBackbone(num_heads=2, max_sequence_length=TOKENS, **SMALL)
    model = keras_hub.models.BertTextClassifier(body, CLASSES, preprocessor=None)
    return Case(compiled(model), tokens("token_ids", "padding_mask", "segment_ids"), LABELS)


def gpt2() -> Case:
    import keras_hub  # noqa: PLC0415

    body = keras_hub.models.GPT2Backbone(num_heads=2, max_sequence_length=TOKENS, **SMALL)
    model = keras_hub.models.GPT2CausalLM(body, preprocessor=None)
    return Case(compiled(model), tokens("token_ids", "padding_mask"), np.roll(IDS, -1, axis=1))


def gemma() -> Case:
    import keras_hub  # noqa: PLC0415

    heads = {"num_query_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "dropout": 0.1}
    model = keras_hub.models.GemmaCausalLM(
        keras_hub.models.GemmaBackbone(**heads, **SMALL), preprocessor=None
    )
    return Case(compiled(model), tokens("token_ids", "padding_mask"), np.roll(IDS, -1, axis=1))


def tabular() -> Case:
    """A dictionary of a text, an integer and real columns."""
    inputs = {
        "city": keras.Input((1,), dtype="string", name="city"),
        "kind": keras.Input((1,), dtype="int64", name="kind"),
        "numbers": keras.Input((6,), name="numbers"),
    }
    normalise = L.Normalization()
    normalise.adapt(ROWS)
    city = L.StringLookup(vocabulary=["rome", "oslo"], output_mode="one_hot")(inputs["city"])
    kind = L.Flatten()(L.Embedding(6, 3)(L.IntegerLookup(vocabulary=[3, 5, 7])(inputs["kind"])))
    h = L.Concatenate()([city, kind, normalise(inputs["numbers"])])
    h = L.Dropout(0.2)(L.Dense(16, "relu")(h))
    model = keras.Model(inputs, L.Dense(CLASSES, name="head")(h), name="tabular")
    x = {
        "city": RNG.choice(["rome", "oslo", "lima"], (N, 1)),
        "kind": RNG.choice([3, 5, 7, 9], (N, 1)),
        "numbers": ROWS,
    }
    return Case(compiled(model), x, LABELS)


def dicts() -> Case:
    """Dictionaries at both ends: classes and a real number."""
    inputs = {"a": keras.Input((4,), name="a"), "b": keras.Input((2,), name="b")}
    h = L.Dropout(0.2)(L.Dense(16, "tanh")(L.Concatenate()([inputs["a"], inputs["b"]])))
    outputs = {"kind": L.Dense(CLASSES, name="kind")(h), "price": L.Dense(1, name="price")(h)}
    model = keras.Model(inputs, outputs, name="dicts")
    model.compile(
        keras.optimizers.SGD(1e-3),
        {"kind": SPARSE, "price": tfbdl.likelihoods.Normal(0.3)},
        loss_weights={"kind": 1.0, "price": 0.5},
    )
    x = {"a": ROWS[:, :4], "b": ROWS[:, 4:]}
    return Case(model, x, {"kind": LABELS, "price": ROWS[:, :1] * 2.0})


def shared() -> Case:
    """One layer, called on both of a list of inputs."""
    inputs = [keras.Input((3,)), keras.Input((3,))]
    tower = L.Dense(8, "relu")
    h = L.Dropout(0.2)(L.Concatenate()([tower(i) for i in inputs]))
    model = keras.Model(inputs, L.Dense(CLASSES, name="head")(h), name="shared")
    return Case(compiled(model), [ROWS[:, :3], ROWS[:, 3:]], LABELS)


@keras.saving.register_keras_serializable("compatibility")
class Subclassed(keras.Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden, self.drop = L.Dense(16, "relu"), L.Dropout(0.2)
        self.head = L.Dense(CLASSES)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.head(self.drop(self.hidden(x), training=training))


def subclassed() -> Case:
    model = Subclassed(name="subclassed")
    model(ROWS)
    return Case(compiled(model), ROWS, LABELS)


def dense(name: str, dtype: str | None = None) -> keras.Model:
    stack = [keras.Input((6,)), L.Dense(16, "relu", name="hidden", dtype=dtype)]
    stack += [L.Dropout(0.2), L.Dense(CLASSES, name="head", dtype=dtype and "float32")]
    return keras.Sequential(stack, name=name)


def lora() -> Case:
    model = dense("lora")
    model.get_layer("hidden").enable_lora(2)
    return Case(compiled(model), ROWS, LABELS)


def int8() -> Case:
    model = dense("int8")
    model.get_layer("hidden").quantize("int8")
    return Case(compiled(model), ROWS, LABELS)


def mixed() -> Case:
    return Case(compiled(dense("mixed", "mixed_float16")), ROWS, LABELS)


CASES: dict[str, Callable[[], Case]] = {
    "ResNet50V2": lambda: of_keras("ResNet50V2"),
    "MobileNetV3Small": lambda: normalised(of_keras("MobileNetV3Small")),
    "EfficientNetV2B0": lambda: of_keras("EfficientNetV2B0"),
    "ConvNeXtTiny": lambda: of_keras("ConvNeXtTiny"),
    "DenseNet121": lambda: of_keras("DenseNet121"),
    "U-Net": u_net,
    "LSTM": lstm,
    "TCN": tcn,
    "ViT": vit,
    "BERT": bert,
    "GPT-2": gpt2,
    "Gemma": gemma,
    "look-ups and normalisation": tabular,
    "dict in, dict out": dicts,
    "shared layer": shared,
    "subclassed": subclassed,
    "LoRA": lora,
    "int8": int8,
    "mixed precision": mixed,
}
