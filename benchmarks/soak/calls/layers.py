"""Layers: built, called at the mean, in training and in a draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from soak.calls.case import Case, Made, N, Wrong, X, is_true, shaped
from tfbdl import layers, priors
from tfbdl.draws import DrawnModel, make_draw

IMAGES = np.random.default_rng(1).normal(size=(N, 5, 5, 2)).astype("float32")
VOLUMES = np.random.default_rng(1).normal(size=(N, 4, 4, 4, 2)).astype("float32")
SEQUENCES = IMAGES[:, :, 0]
TOKENS = np.arange(12).reshape(N, 2) % 5


def called(layer: Any, x: np.ndarray, output: tuple[int | None, ...]) -> dict[str, Any]:
    """What a layer gives for x; a None in the documented shape of an example is any length."""
    y = layer(x, training=True)
    losses = list(layer.losses)
    inputs = keras.Input(batch_shape=x.shape)
    network = keras.Model(inputs, layer(inputs))
    draws = {
        "training": y,
        "mean": layer(x, training=False),
        "draw": DrawnModel(network)(x, draw=make_draw(1, 2)),
        "losses": losses,
        "config": layer.get_config(),
    }
    for name in ("training", "mean", "draw"):
        first = draws[name][0] if isinstance(y, (list, tuple)) else draws[name]
        wanted = (first.shape[1 + i] if n is None else n for i, n in enumerate(output))
        shaped(first, len(x), *wanted)
    return draws


def _dense(kind: type, **arguments: Any) -> dict[str, Any]:
    return called(kind(**arguments), X, (arguments["units"],))


def _last_layer(kind: type, **arguments: Any) -> dict[str, Any]:
    columns = 2 if arguments["learned_scale"] is None else 3
    return called(kind(**arguments), X, (columns * arguments["units"],))


def _convolution(kind: type, **arguments: Any) -> dict[str, Any]:
    x = {1: SEQUENCES, 2: IMAGES, 3: VOLUMES}[kind.rank]
    if str(arguments["data_format"]) == "channels_first":
        x = np.moveaxis(x, -1, 1)
    return called(kind(**arguments), x, (None,) * (kind.rank + 1))


def _recurrent(kind: type, **arguments: Any) -> dict[str, Any]:
    steps = SEQUENCES.shape[1:2] if is_true(arguments["return_sequences"]) else ()
    return called(kind(**arguments), SEQUENCES, (*steps, arguments["units"]))


def _embedding(kind: type, **arguments: Any) -> dict[str, Any]:
    return called(kind(**arguments), TOKENS, (2, arguments["output_dim"]))


def any_length(kind: type, **arguments: Any) -> dict[str, Any]:
    """A layer of examples of four numbers that gives as many as it likes."""
    return called(kind(**arguments), X, (None,))


def _same(kind: type, x: np.ndarray = X, **arguments: Any) -> dict[str, Any]:
    return called(kind(**arguments), x, x.shape[1:])


def _same_images(kind: type, **arguments: Any) -> dict[str, Any]:
    return _same(kind, IMAGES, **arguments)


def _concrete(kind: Any, **arguments: Any) -> dict[str, Any]:
    layer = kind(**arguments)
    return {**called(layer, X, (None,)), "keep": layer.keep_prob}


def _learned_scale(kind: Any, **arguments: Any) -> dict[str, Any]:
    layer = kind(**arguments)
    y = shaped(layer(X), N, 8)
    return {"y": y, "scale": shaped(layer.scale, 4), "config": layer.get_config()}


def _noisy_logits(kind: Any, **arguments: Any) -> dict[str, Any]:
    layer = kind(**arguments)
    log_p = layer(np.concatenate([X, X], axis=1))
    shaped(log_p, N, 8 // (2 + layer.rank))
    return {"log_p": log_p, "config": layer.get_config()}


def _pruned(threshold: float, method: str) -> dict[str, Any]:
    layer = layers.VariationalDropout(3, num_data=10, seed=1)
    layer(X)
    mu = np.linspace(0.01, 1.0, 12, dtype="float32").reshape(4, 3)
    layer.kernel.mu.assign(mu)
    layer.kernel.rho.assign(np.full((4, 3), -1.0, "float32"))
    actual = getattr(layer, method)(threshold)
    return {"value": actual, "mean": shaped(layer.kernel.mean, 4, 3)}


BAYESIAN: dict[str, tuple[Any, Any]] = {
    "num_data": (10, 20),
    "prior": (1.0, Made(priors.Laplace)),
    "posterior": ("mean_field", "low_rank"),
    "kl": ("auto", "sample"),
    "seed": (1, 2),
}
BIAS: dict[str, tuple[Any, Any]] = {
    "bias_prior": (0.5, "laplace"),
    "bias_posterior": ("point", "mean_field"),
}
LINEAR: dict[str, tuple[Any, Any]] = {
    **BAYESIAN,
    **BIAS,
    "activation": ("tanh", "relu"),
    "estimator": ("reparameterization", "flipout"),
    "use_bias": (True, False),
    "kernel_initializer": ("glorot_uniform", "he_normal"),
    "bias_initializer": ("zeros", "ones"),
    "activity_regularizer": (None, "l2"),
}
EINSUM: dict[str, tuple[Any, Any]] = {
    **{name: values for name, values in LINEAR.items() if name != "use_bias"},
    "equation": ("ab,bc->ac", "ab,bd->ad"),
    "output_shape": (3, (2,)),
    "bias_axes": ("c", None),
    "estimator": ("reparameterization", "per_example"),
}
CONVOLUTION: dict[str, tuple[Any, Any]] = {
    **LINEAR,
    "filters": (2, 4),
    "kernel_size": (2, 3),
    "strides": (1, 2),
    "padding": ("valid", "same"),
    "data_format": ("channels_last", "channels_first"),
    "dilation_rate": (1, 2),
}
RECURRENT: dict[str, tuple[Any, Any]] = {
    **BAYESIAN,
    **BIAS,
    "units": (2, 3),
    "activation": ("tanh", "relu"),
    "recurrent_prior": (0.5, 0.7),
    "recurrent_posterior": ("point", "mean_field"),
    "estimator": ("reparameterization", "flipout"),
    "recurrent_activation": ("sigmoid", "tanh"),
    "use_bias": (True, False),
    "kernel_initializer": ("glorot_uniform", "he_normal"),
    "recurrent_initializer": ("orthogonal", "he_normal"),
    "bias_initializer": ("zeros", "ones"),
    "dropout": (0.0, 0.5),
    "recurrent_dropout": (0.0, 0.5),
    "activity_regularizer": (None, "l2"),
    "return_sequences": (False, True),
    "return_state": (False, True),
    "zero_output_for_mask": (False, True),
    "go_backwards": (False, True),
    "stateful": (False, True),
    "unroll": (False, True),
}
EMBEDDING: dict[str, tuple[Any, Any]] = {
    **BAYESIAN,
    "input_dim": (5, 6),
    "output_dim": (3, 2),
    "embeddings_initializer": ("uniform", "ones"),
    "mask_zero": (False, True),
    "activity_regularizer": (None, "l2"),
    "estimator": ("reparameterization", "flipout"),
    "bias_prior": (None, 1.0),
    "bias_posterior": (None, "point"),
    "weights": (None, np.linspace(-1.0, 1.0, 15, dtype="float32").reshape(5, 3)),
}
DROPOUT: dict[str, tuple[Any, Any]] = {
    "rate": (0.5, 0.2),
    "noise_shape": (None, (1, None)),
    "per_example": (False, True),
    "seed": (1, 2),
}
CONCRETE: dict[str, tuple[Any, Any]] = {
    "layer": (Made(lambda: keras.layers.Dense(3)), Made(lambda: keras.layers.Dense(2))),
    "num_data": (10, 20),
    "lengthscale": (0.1, 0.2),
    "temperature": (0.1, 0.2),
    "per_unit": (False, True),
    "initial_rate": (0.1, 0.2),
    "logit_scale": (1.0, 2.0),
    "seed": (1, 2),
}


def case(
    kind: Any, run: Callable[..., Any], arguments: Mapping[str, Any], slow: bool = True
) -> Case:
    """The case of a layer, which `run` makes of its class and arguments, and calls."""
    name = f"tfbdl.layers.{kind.__name__}"
    return Case(name, kind, lambda **given: run(kind, **given), arguments, slow=slow)


def cases() -> Iterator[Case]:
    """One for each layer, and one for its methods with arguments."""
    yield from _with_weights()
    yield from _others()
    for method in ("prune", "sparsity"):
        yield Case(
            f"VariationalDropout.{method}",
            getattr(layers.VariationalDropout, method),
            lambda method=method, **given: _pruned(method=method, **given),
            {"threshold": (3.0, 1.0)},
        )


def _with_weights() -> Iterator[Case]:
    dense = {**LINEAR, "units": (3, 2)}
    yield case(layers.BayesDense, _dense, dense)
    variational = {
        **dense,
        "kl": ("molchanov", "kingma"),
        "prior": ("log_uniform", 0.5),
        "posterior": ("mean_field", "point"),
        "estimator": ("local_reparameterization", "flipout"),
        "bias_prior": ("flat", 0.5),
    }
    yield case(layers.VariationalDropout, _dense, variational)
    for rank in (1, 2, 3):
        groups = {**CONVOLUTION, "groups": (1, 2)}
        yield case(getattr(layers, f"BayesConv{rank}D"), _convolution, groups)
        padding = {**CONVOLUTION, "strides": (2, 3), "output_padding": (None, 1)}
        yield case(getattr(layers, f"BayesConv{rank}DTranspose"), _convolution, padding)
    lstm = {**RECURRENT, "unit_forget_bias": (True, False)}
    yield case(layers.BayesLSTM, _recurrent, lstm)
    yield case(layers.BayesGRU, _recurrent, {**RECURRENT, "reset_after": (True, False)})
    yield case(layers.BayesEmbedding, _embedding, EMBEDDING)
    yield case(layers.BayesEinsumDense, any_length, EINSUM)


def _others() -> Iterator[Case]:
    yield case(layers.MCDropout, _same, DROPOUT, slow=False)
    yield case(layers.MCGaussianDropout, _same, DROPOUT, slow=False)
    yield case(layers.ConcreteDropout, _concrete, CONCRETE)
    last = {
        **BAYESIAN,
        "bias_prior": (None, Wrong(1.0)),
        "bias_posterior": (None, Wrong("point")),
        "posterior": ("per_output", "low_rank"),
        "units": (3, 2),
        "use_bias": (True, False),
        "learned_scale": (None, 1.0),
        "kernel_initializer": ("glorot_uniform", "he_normal"),
    }
    yield case(layers.VariationalLastLayer, _last_layer, last)
    process = {
        "units": (3, 2),
        "num_data": (6, 20),
        "likelihood": ("categorical", "bernoulli"),
        "num_features": (4, 5),
        "length_scale": (1.0, 2.0),
        "ridge": (1.0, 0.5),
        "noise_scale": (1.0, 2.0),
        "per_output": (False, True),
        "mean_field_factor": (0.4, 0.0),
        "seed": (1, 2),
    }
    yield case(layers.RandomFeatureGP, _dense, process)
    noisy = {
        "rank": (0, 2),
        "temperature": (1.0, 0.5),
        "num_samples": (10, 20),
        "seed": (1, 2),
    }
    yield case(layers.HeteroscedasticLogits, _noisy_logits, noisy, slow=False)
    yield case(layers.LearnedScale, _learned_scale, {"initial_scale": (1.0, 2.0)})
    response = {"epsilon": (1e-6, 1e-2), "activation": (None, "tanh")}
    yield case(layers.FilterResponseNormalization, _same_images, response, slow=False)
