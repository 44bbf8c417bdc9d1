"""Trained networks as the start of Bayesian ones."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from tfbdl import layers as bayes
from tfbdl import posteriors, priors
from tfbdl.arguments import number, positive_integer
from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.convert.parts import arguments_of, pairs_of_weights, swapped
from tfbdl.convert.selection import Layer, Selection
from tfbdl.copying import describe
from tfbdl.keras_private import walk
from tfbdl.layers import estimators

# Keras' layers, and the Bayesian ones whose arguments have the same names.
COUNTERPARTS: dict[type[Layer], type[Layer]] = {
    keras.layers.Dense: bayes.BayesDense,
    keras.layers.EinsumDense: bayes.BayesEinsumDense,
    keras.layers.Conv1D: bayes.BayesConv1D,
    keras.layers.Conv2D: bayes.BayesConv2D,
    keras.layers.Conv3D: bayes.BayesConv3D,
    keras.layers.Conv1DTranspose: bayes.BayesConv1DTranspose,
    keras.layers.Conv2DTranspose: bayes.BayesConv2DTranspose,
    keras.layers.Conv3DTranspose: bayes.BayesConv3DTranspose,
    keras.layers.LSTM: bayes.BayesLSTM,
    keras.layers.GRU: bayes.BayesGRU,
    keras.layers.Embedding: bayes.BayesEmbedding,
}

_WEIGHT_FORMATS = {"lora_rank", "lora_alpha", "quantization_config"}
_LEAST_SIGMA = 1e-6


def to_bayesian(
    model: keras.Model,
    *,
    num_data: int,
    prior: float | str | dict[str, Any] | priors.Prior = 1.0,
    posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
    estimator: str | dict[str, Any] | estimators.Estimator = "reparameterization",
    bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
    bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
    layers: Selection = None,
    skip: Selection = None,
    initial_sigma: float | None = 0.1,
) -> keras.Model:
    """A copy of a trained model whose layers have distributions around their weights.

    Dense, EinsumDense, Conv1D, Conv2D, Conv3D, their transposes, LSTM, GRU and Embedding become
    the layers of `tfbdl.layers` of these names, also inside attention, wrappers and layers of a
    user's own (see `tfbdl.layers.Exchanged`); all others are copied.

    Means start at the trained weights and standard deviations at `initial_sigma * |w|`, as in MOPED
    (Krishnan, Subedar, Tickoo 2020). MOPED's prior is N(w, 1), around the trained weights, which
    counts the data twice if these were learned from it; here the prior is the one you give. At
    `training=False` predictions are those of `model`.

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.
        num_data: N, the number of training examples.
        prior: p(w), as in `BayesDense`; each layer has one of its own. It takes the place of
            regularizers, which are left out with a warning: L2(l) beside a mean loss is the normal
            prior of scale (2 l N)^-1/2.
        posterior: the family of q(w), as in `BayesDense`.
        estimator: the way outputs are sampled in training, as in `BayesDense`. Recurrent layers and
            embeddings take the default only, convolutions all but local reparameterisation.
        bias_prior: p(b), as in `BayesDense`.
        bias_posterior: the family of q(b), as in `BayesDense`.
        layers: the layers among them, by default all but those of subclasses, quantized or with
            LoRA, which stay as they are with a warning: names, regular expressions for paths (names
            of the layers around it and its own, as in `"encoder_.*/query"`), or a function of a
            layer.
        skip: those that are left as they are, chosen in the same way.
        initial_sigma: the first standard deviations, as a fraction of |w| in (0, 1]; None for
            where `posterior` starts them.

    Returns:
        The converted model, compiled as `model`, with its inputs and outputs.

    Raises:
        ValueError: if an argument is out of its range, there is nothing to convert, or a layer that
            cannot be: one of a subclass, quantized, with LoRA or a constraint, one that the
            estimator does not hold for, or inside a layer that a config does not give back.
    """
    positive_integer("num_data", num_data, ": the number of training examples", most=2**63)
    if initial_sigma is not None:
        number("initial_sigma", initial_sigma, lambda s: 0 < s <= 1, "in (0, 1], or None")
    serialize = keras.saving.serialize_keras_object  # each layer makes objects of its own
    arguments = {
        "num_data": num_data,
        "prior": serialize(priors.get(prior)),
        "posterior": serialize(posteriors.get(posterior)),
        "estimator": serialize(estimators.get(estimator)),
    }
    if bias_prior is not None:
        arguments["bias_prior"] = serialize(priors.get(bias_prior, "bias_prior"))
    if bias_posterior is not None:
        bias_posterior = posteriors.get(bias_posterior, "bias_posterior")
        arguments["bias_posterior"] = serialize(bias_posterior)

    def rule(kind: type[Layer]) -> Rule:
        return Rule(
            lambda old: _make(kind, old, arguments),
            lambda old, new: _fill(old, new, initial_sigma),
        )

    rules = {old: rule(new) for old, new in COUNTERPARTS.items()}
    if layers is None:
        layers = _without_a_reason_to_stay(model)
    converted = exchange(model, rules, layers, skip)
    _check_heard(converted, arguments, initial_sigma)
    return converted


def _check_heard(
    converted: keras.Model, arguments: dict[str, Any], initial_sigma: float | None
) -> None:
    """Raises ValueError where an argument is given that no converted layer has a use for."""
    made = [q for layer in walk(converted) for q in getattr(layer, "random_weights", ())]
    for name in ("bias_prior", "bias_posterior"):
        if name in arguments and not any(q.name == "bias" for q in made):
            raise ValueError(f"{name} is given, and no converted layer has a bias; leave it out")
    if initial_sigma not in (None, 0.1) and all(_is_point(q) for q in made):
        raise ValueError(
            f"initial_sigma={initial_sigma} is given, and posterior='point' has none; leave it out"
        )


def _without_a_reason_to_stay(model: Any) -> Selection:
    """The layers but those that stay as they are, which a warning names; None for all."""
    if not isinstance(model, Layer):
        return None
    known = [layer for layer in walk(model) if isinstance(layer, tuple(COUNTERPARTS))]
    staying = [(layer, why) for layer in known if (why := _reason_to_stay(layer))]
    if len(staying) in (0, len(known)):
        return None
    for layer, why in staying:
        warnings.warn(f"{describe(layer)} {why}, and stays as it is", stacklevel=3)
    return lambda layer: _reason_to_stay(layer) is None


def _reason_to_stay(layer: Layer) -> str | None:
    if _is_adapted(layer):
        return "is quantized or has LoRA"
    return None if type(layer) in COUNTERPARTS else "is of a subclass"


def _is_adapted(layer: Layer) -> bool:
    return bool(getattr(layer, "quantization_mode", None) or getattr(layer, "lora_enabled", False))


def _is_point(q: posteriors.Posterior) -> bool:
    return isinstance(q, posteriors.PointMass)


def _make(kind: type[Layer], old: Any, arguments: dict[str, Any]) -> Layer:
    """A Bayesian layer with the arguments of `old` that are not about its weights' values."""
    if _is_adapted(old):
        raise ValueError(f"{describe(old)} is quantized or has LoRA; convert it without these")
    kept = arguments_of(old)
    for name in kept.keys() & _WEIGHT_FORMATS:
        del kept[name]
    for name in [name for name in kept if name.endswith("_constraint")]:
        if kept.pop(name) is not None:
            raise ValueError(f"{describe(old)} has a {name}, which random weights cannot keep")
    for name in [name for name in kept if name.endswith("_regularizer")]:
        if name != "activity_regularizer" and kept.pop(name) is not None:
            warnings.warn(
                f"{describe(old)} loses its {name}: the prior takes its place", stacklevel=2
            )
    kept.pop("seed", None)  # of dropout; layers that share it would share the noise of weights
    if not kept.get("use_bias", kept.get("bias_axes")):
        arguments = {name: arguments[name] for name in arguments if not name.startswith("bias_")}
    try:
        return kind(**{**kept, **arguments})
    except ValueError as error:
        raise ValueError(f"{describe(old)}: {error}") from None


def _fill(old: Any, new: Any, initial_sigma: float | None) -> None:
    for w, q in pairs_of_weights(old, new):
        if not hasattr(q, "mu"):
            raise ValueError(
                f"posterior={type(q).__name__} has no means to start at the weights of "
                f"{describe(old)}; choose another"
            )
        q.mu.assign(swapped(new, q, w))
        q.trainable = w.trainable
        if initial_sigma is not None:
            _spread(q, initial_sigma)


def _spread(q: posteriors.Posterior, fraction: float) -> None:
    """Sets the standard deviations of q to `fraction * |mean|`, and at least a millionth."""
    if isinstance(q, posteriors.MeanFieldNormal):
        mean = keras.ops.convert_to_numpy(q.mu).astype("float64")
        sigma = np.maximum(fraction * np.abs(mean), _LEAST_SIGMA)
        q.rho.assign(sigma + np.log(-np.expm1(-sigma)))
    elif isinstance(q, posteriors.MultiplicativeNormal):
        q.raw_log_alpha.assign(np.full(q.mu.shape, 2.0 * np.log(fraction)))
    elif not isinstance(q, posteriors.PointMass):
        raise ValueError(f"posterior={type(q).__name__} sets its own scale; use initial_sigma=None")
