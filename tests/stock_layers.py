"""Every layer of Keras in a network of its own, with what it learns or is adapted to inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

L = keras.layers
RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A layer, made by `make`, for inputs of these values, shape (3, ...) each."""

    make: Callable[[], Any]
    inputs: tuple[np.ndarray, ...]


def square(x: Any) -> Any:
    """A function that Keras does not know."""
    return x * x


def numbers(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, (3, *shape)).astype("float32")


VECTOR, SEQUENCE, IMAGE, VOLUME = numbers(4), numbers(6, 4), numbers(8, 8, 3), numbers(4, 4, 4, 2)
IDS = np.array([[1, 2, 0, 5], [3, 3, 1, 4], [2, 0, 0, 1]])
TEXT = np.array(["a b", "b c d", "a"])
BOXES = {"boxes": numbers(5, 4), "labels": np.ones((3, 5), "int32")}


def adapted(layer: Any, data: Any) -> Any:
    layer.adapt(data)
    return layer


def _of_rank(rank: int, x: np.ndarray) -> dict[str, Case]:
    """Layers that there are for sequences, images and volumes."""
    names: dict[str, tuple[Any, ...]] = {
        "AdaptiveAveragePooling": (2,),
        "AdaptiveMaxPooling": (2,),
        "AveragePooling": (2,),
        "Conv": (3, 2),
        "Cropping": (1,),
        "GlobalAveragePooling": (),
        "GlobalMaxPooling": (),
        "MaxPooling": (2,),
        "SpatialDropout": (0.3,),
        "UpSampling": (2,),
        "ZeroPadding": (1,),
    }
    if rank < 3:
        names |= {"DepthwiseConv": (2,), "SeparableConv": (3, 2)}
    made = {f"{name}{rank}D": arguments for name, arguments in names.items()}
    made[f"Conv{rank}DTranspose"] = (3, 2)
    return {
        name: Case(lambda name=name, args=args: getattr(L, name)(*args), (x,))
        for name, args in made.items()
        if hasattr(L, name)
    }


def _on(x: np.ndarray, **layers: Callable[[], Any]) -> dict[str, Case]:
    return {name: Case(make, (x,)) for name, make in layers.items()}


def _plain(x: np.ndarray, *names: str) -> dict[str, Case]:
    """Layers that take no arguments, those of them that this version of Keras has."""
    return {name: Case(getattr(L, name), (x,)) for name in names if hasattr(L, name)}


CASES: dict[str, Case] = {
    **_of_rank(1, SEQUENCE),
    **_of_rank(2, IMAGE),
    **_of_rank(3, VOLUME),
    **_plain(
        VECTOR,
        *("BatchNormalization", "ELU", "Flatten", "Identity", "LayerNormalization", "LeakyReLU"),
        *("PReLU", "RMSNormalization", "ReLU", "Softmax", "UnitNormalization"),
    ),
    **_on(
        VECTOR,
        Activation=lambda: L.Activation(square),
        ActivityRegularization=lambda: L.ActivityRegularization(l2=0.1),
        AlphaDropout=lambda: L.AlphaDropout(0.3),
        Dense=lambda: L.Dense(3, square, kernel_regularizer="l2", bias_constraint="non_neg"),
        Discretization=lambda: adapted(L.Discretization(num_bins=3), VECTOR),
        Dropout=lambda: L.Dropout(0.3),
        GaussianDropout=lambda: L.GaussianDropout(0.3),
        GaussianNoise=lambda: L.GaussianNoise(0.3),
        GroupNormalization=lambda: L.GroupNormalization(2),
        Lambda=lambda: L.Lambda(lambda x: x + x),
        Normalization=lambda: adapted(L.Normalization(), VECTOR),
        RepeatVector=lambda: L.RepeatVector(2),
        Rescaling=lambda: L.Rescaling(2.0, 1.0),
        Reshape=lambda: L.Reshape((2, 2)),
        SpectralNormalization=lambda: L.SpectralNormalization(L.Dense(3)),
    ),
    **_on(
        SEQUENCE,
        Bidirectional=lambda: L.Bidirectional(L.LSTM(3, dropout=0.1)),
        EinsumDense=lambda: L.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d"),
        GRU=lambda: L.GRU(3),
        GRUCell=lambda: L.RNN(L.GRUCell(3, recurrent_dropout=0.1)),
        LSTM=lambda: L.LSTM(3, recurrent_dropout=0.1),
        LSTMCell=lambda: L.RNN(L.LSTMCell(3)),
        Masking=L.Masking,
        Permute=lambda: L.Permute((2, 1)),
        RNN=lambda: L.RNN(L.GRUCell(3), return_sequences=True),
        SimpleRNN=lambda: L.SimpleRNN(3),
        SimpleRNNCell=lambda: L.RNN(L.SimpleRNNCell(3)),
        StackedRNNCells=lambda: L.RNN([L.GRUCell(3), L.LSTMCell(2)]),
        TimeDistributed=lambda: L.TimeDistributed(L.Dense(3)),
    ),
    **{
        name: Case(make, (SEQUENCE, SEQUENCE[:, ::-1]))
        for name, make in {
            **{n: getattr(L, n) for n in ("Add", "Average", "Concatenate", "Maximum")},
            **{n: getattr(L, n) for n in ("Minimum", "Multiply", "Subtract")},
            "AdditiveAttention": L.AdditiveAttention,
            "Attention": lambda: L.Attention(use_scale=True),
            "Dot": lambda: L.Dot(2),
            "GroupedQueryAttention": lambda: L.GroupQueryAttention(2, 4, 2),
            "MultiHeadAttention": lambda: L.MultiHeadAttention(2, 3, dropout=0.1),
        }.items()
    },
    **_plain(
        IMAGE,
        *("AugMix", "AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization"),
        *("RandAugment", "RandomColorJitter", "RandomElasticTransform"),
        *("RandomErasing", "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomInvert"),
        *("RandomPerspective", "RandomShear", "Solarization"),
    ),
    **{
        name: Case(lambda name=name: getattr(L, name)(0.2), (IMAGE,))
        for name in (
            *("RandomBrightness", "RandomColorDegeneration", "RandomContrast", "RandomHue"),
            *("RandomRotation", "RandomSaturation", "RandomSharpness", "RandomZoom"),
        )
    },
    **_on(
        IMAGE,
        CenterCrop=lambda: L.CenterCrop(4, 4),
        Pipeline=lambda: L.Pipeline([L.Rescaling(2.0), L.CenterCrop(4, 4)]),
        RandomCrop=lambda: L.RandomCrop(4, 4),
        RandomPosterization=lambda: L.RandomPosterization(4),
        RandomTranslation=lambda: L.RandomTranslation(0.1, 0.1),
        Resizing=lambda: L.Resizing(4, 4),
    ),
    **_on(numbers(3, 6, 2), ConvLSTM1D=lambda: L.ConvLSTM1D(2, 2)),
    **_on(numbers(3, 4, 4, 2), ConvLSTM2D=lambda: L.ConvLSTM2D(2, 2, dropout=0.1)),
    **_on(numbers(2, 3, 3, 3, 1), ConvLSTM3D=lambda: L.ConvLSTM3D(2, 2)),
    **_on(
        numbers(1024), MelSpectrogram=lambda: L.MelSpectrogram(fft_length=256, sampling_rate=8000)
    ),
    **_on(numbers(512, 1), STFTSpectrogram=lambda: L.STFTSpectrogram("real", 128, 64)),
    **_on(
        IDS,
        CategoryEncoding=lambda: L.CategoryEncoding(6),
        Embedding=lambda: L.Embedding(6, 3, mask_zero=True),
        Hashing=lambda: L.Hashing(5),
        IntegerLookup=lambda: adapted(L.IntegerLookup(), IDS),
        ReversibleEmbedding=lambda: L.ReversibleEmbedding(6, 3),
    ),
    "HashedCrossing": Case(lambda: L.HashedCrossing(5), (IDS[:, 0], IDS[:, 1])),
    **_on(
        TEXT,
        StringLookup=lambda: adapted(L.StringLookup(), ["a b", "a"]),
        TextVectorization=lambda: adapted(L.TextVectorization(output_sequence_length=3), TEXT[:2]),
    ),
}

ELSEWHERE = {
    "Layer": "abstract",
    "Wrapper": "abstract",
    "InputLayer": "in every network",
    "Equalization": "Keras makes no graph of it",
    "CutMix": "labels with images, in data sets",
    "MixUp": "labels with images, in data sets",
    "MaxNumBoundingBoxes": "bounding boxes, in data sets",
    "FlaxLayer": "of JAX",
    "JaxLayer": "of JAX",
    "TorchModuleWrapper": "of PyTorch",
    "TFSMLayer": "holds a folder's SavedModel",
}


def all_names() -> Iterator[str]:
    """The layers that this version of Keras has, each once."""
    seen = set()
    for _, kind in sorted(vars(L).items()):
        if inspect.isclass(kind) and issubclass(kind, L.Layer) and kind not in seen:
            seen.add(kind)
            yield kind.__name__


def network(name: str) -> tuple[keras.Model, Any]:
    """The layer `name` beside a Dropout and a Dense, its weights away from where they start.

    The network, whose outputs are those of the layer and of the Dense; and the layer.
    """
    case = CASES[name]
    layer = case.make()
    ins = [keras.Input(x.shape[1:], dtype=_dtype(x)) for x in case.inputs]
    several = "Head" in name or "Query" in name  # as arguments, not as a list
    y = layer(*ins) if len(ins) == 1 or several else layer(ins)
    x = keras.Input((4,), name="beside")
    model = keras.Model(
        [*ins, x], [y, L.Dense(2, name="head")(L.Dropout(0.5, name="drop")(x))], name="stock"
    )
    rng = np.random.default_rng(1)
    for v in model.weights if not hasattr(layer, "finalize_state") else ():
        if "float" in v.dtype:
            v.assign(rng.uniform(0.5, 1.5, v.shape))
    return model, layer


def _dtype(x: np.ndarray) -> str:
    return {"U": "string", "i": "int32"}.get(x.dtype.kind, "float32")


def inputs(name: str) -> list[tf.Tensor]:
    return [*map(tf.constant, CASES[name].inputs), tf.constant(VECTOR)]
