"""Trained networks as the start of Bayesian ones."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from tfbdl import posteriors, priors
from tfbdl.arguments import number, positive_integer
from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.convert.random_layer import (
    COUNTERPARTS,
    WRAPPED,
    fill,
    is_adapted,
    is_point,
    make,
)
from tfbdl.convert.selection import Layer, Selection
from tfbdl.copying import by_paths, describe
from tfbdl.keras_private import walk
from tfbdl.layers import estimators
from tfbdl.layers.base import BayesLayer
from tfbdl.lora import has_lora


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
    the layers of `tfbdl.layers` of these names. DepthwiseConv1D and 2D, SeparableConv1D and 2D,
    ReversibleEmbedding, and layers of subclasses are put into a `tfbdl.layers.BayesWrapper`. All
    are found inside attention, wrappers and layers of a user's own, too (see
    `tfbdl.layers.Exchanged`); all others are copied. A model in the model gives way to its layers
    if it shares some with what is around it, as language models share their embedding: files of
    Keras forget that.

    A layer with LoRA becomes random in its factors, and is frozen otherwise as before; nothing is
    merged (Yang et al. 2024, "Bayesian Low-rank Adaptation for Large Language Models", place a
    posterior over the same weights by `inference.Laplace`).

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
        estimator: the way outputs are sampled in training, as in `BayesDense`. Recurrent layers,
            embeddings and what is wrapped take the default only, convolutions all but local
            reparameterisation.
        bias_prior: p(b), as in `BayesDense`.
        bias_posterior: the family of q(b), as in `BayesDense`.
        layers: the layers among them, by default all but those that are quantized or have LoRA,
            which stay as they are with a warning: names, regular expressions for paths (names of
            the layers around it and its own, as in `"encoder_.*/query"`), a function of a layer, or
            "lora" for all layers with LoRA.
        skip: the layers that are left as they are, chosen in the same way.
        initial_sigma: the first standard deviations, as a fraction of |w| in (0, 1]; None for
            where `posterior` starts them.

    Returns:
        The converted model, compiled as `model`, with its inputs and outputs.

    Raises:
        ValueError: if an argument is out of its range, there is nothing to convert, or a layer that
            cannot be: one that is quantized and has no LoRA, one with a constraint, one that the
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

    rule = Rule(
        lambda old: make(old, arguments),
        lambda old, new: fill(old, new, initial_sigma),
    )
    rules = dict.fromkeys([*COUNTERPARTS, *WRAPPED, *map(type, _known(model))], rule)
    if layers is None:
        layers = _without_a_reason_to_stay(model)
    elif layers == "lora":
        layers = _with_lora(model)
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
    if initial_sigma not in (None, 0.1) and all(is_point(q) for q in made):
        raise ValueError(
            f"initial_sigma={initial_sigma} is given, and posterior='point' has none; leave it out"
        )


def _known(model: Any) -> list[Layer]:
    """The layers of a model that can be converted, subclasses with them."""
    layers = walk(model) if isinstance(model, Layer) else ()
    return [layer for layer in layers if isinstance(layer, (*COUNTERPARTS, *WRAPPED))]


def _without_a_reason_to_stay(model: Any) -> Selection:
    """The layers but those that stay as they are, which a warning names; None for all."""
    known = _known(model)
    staying = [(layer, why) for layer in known if (why := _reason_to_stay(layer))]
    if len(staying) in (0, len(known)):
        return None
    with by_paths(model):
        for layer, why in staying:
            warnings.warn(f"{describe(layer)} {why}, and stays as it is", stacklevel=3)
    return lambda layer: _reason_to_stay(layer) is None


def _reason_to_stay(layer: Layer) -> str | None:
    if isinstance(layer, BayesLayer):
        return "is random already"
    if has_lora(layer):
        return "has LoRA, whose factors layers='lora' makes random"
    return "is quantized" if is_adapted(layer) else None


def _with_lora(model: Any) -> Selection:
    """The layers with LoRA; ValueError where there are none."""
    if not any(has_lora(layer) for layer in _known(model)):
        raise ValueError(
            "layers='lora': no layer of the model has LoRA; call its enable_lora first"
        )
    return has_lora
