"""Networks that know how far from the data they are."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from tfbdl.arguments import optional, positive, positive_integer
from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.convert.random_layer import is_adapted
from tfbdl.convert.selection import Layer, Selection, choose
from tfbdl.copying import copy_layer, copy_state, describe
from tfbdl.keras_private_layers import last_layers
from tfbdl.layers import BoundedSpectralNormalization, RandomFeatureGP
from tfbdl.likelihoods import Bernoulli, Categorical, Likelihood, LikelihoodLike, Normal
from tfbdl.likelihoods.choice import required_likelihood

BOUNDED: tuple[type[Layer], ...] = (
    keras.layers.Dense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
)
"""Layers whose kernels are given a bound."""


def to_sngp(
    model: keras.Model,
    *,
    num_data: int,
    likelihood: LikelihoodLike | None = None,
    num_features: int = 1024,
    length_scale: float = 1.0,
    ridge: float = 1.0,
    per_output: bool = False,
    norm_bound: float | None = 0.95,
    seed: int | None = None,
    layers: Selection = None,
    skip: Selection = None,
) -> keras.Model:
    """A network whose last layer is a Gaussian process over features that keep distances (SNGP).

    The last Dense layer becomes a `tfbdl.layers.RandomFeatureGP`, to be trained from its beginning;
    Dense layers and convolutions before it are put into a
    `tfbdl.layers.BoundedSpectralNormalization` (Liu et al. 2020, "Simple and principled uncertainty
    estimation with deterministic deep learning via distance awareness"). It takes one training and
    gives one network, whose uncertainty grows with the distance from the data; residual networks
    keep distances best.

    Args:
        model: a functional or a built Sequential model with one output, of logits or means.
        num_data: N, the number of training examples.
        likelihood: p(y | f(x)): `Categorical` or `Bernoulli` of logits, or `Normal` with a known
            scale; by default that of the loss the model was compiled with.
        num_features: D, as in `RandomFeatureGP`.
        length_scale: as there.
        ridge: as there.
        per_output: as there.
        norm_bound: c, as in `BoundedSpectralNormalization`; None for no bound.
        seed: as in `RandomFeatureGP`.
        layers: the layers with a bound, by default all Dense and convolutions but the last: names,
            regular expressions for paths (names of the layers around it and its own), or a function
            of a layer.
        skip: the layers that are left as they are, chosen in the same way.

    Returns:
        The converted model, compiled as `model`, with its inputs and outputs.

    Raises:
        ValueError: if an argument is out of its range, the likelihood is another, or the last layer
            with weights is no Dense without activation.
    """
    head = _head(model)
    arguments = {
        "num_data": positive_integer("num_data", num_data, most=2**63),
        "num_features": num_features,
        "length_scale": length_scale,
        "ridge": ridge,
        "per_output": per_output,
        "seed": seed,
        **_of(required_likelihood(model, likelihood)),
    }
    bound = optional(positive, "norm_bound", norm_bound)
    chosen = {id(head)}
    if bound is not None:
        chosen |= choose(model, BOUNDED, layers, skip)

    def make(old: Any) -> Layer:
        if old is head:
            return RandomFeatureGP(old.units, name=old.name, dtype=old.dtype_policy, **arguments)
        if is_adapted(old):
            raise ValueError(f"{describe(old)} is quantized or has LoRA; convert it without that")
        assert bound is not None
        return BoundedSpectralNormalization(copy_layer(old), bound)

    def fill(old: Any, new: Any) -> None:
        if old is not head:
            copy_state(old, new.layer)

    rules = dict.fromkeys(BOUNDED, Rule(make, fill))
    return exchange(model, rules, lambda layer: id(layer) in chosen)


def _head(model: keras.Model) -> Any:
    """The last layer, which becomes a Gaussian process.

    Raises:
        ValueError: if it is no Dense without activation, or not the only one.
    """
    heads = last_layers(model)
    if len(heads) != 1 or type(heads[0]) is not keras.layers.Dense:
        kinds = ", ".join(type(head).__name__ for head in heads) or "none that is known"
        raise ValueError(
            f"model={getattr(model, 'name', model)!r} must be functional or Sequential, and its "
            f"last layer with weights one Dense; it has {kinds}"
        )
    head = heads[0]
    if head.activation is not keras.activations.linear:
        raise ValueError(
            f"{describe(head)} has an activation, and a Gaussian process has none; let the model "
            "give logits"
        )
    if head.kernel_regularizer is not None:
        warnings.warn(
            f"{describe(head)} loses its regularizers: the prior takes their place", stacklevel=3
        )
    return head


def _of(likelihood: Likelihood) -> dict[str, Any]:
    """The arguments of the last layer that say what its outputs are.

    Raises:
        ValueError: if it has no such outputs.
    """
    if isinstance(likelihood, Categorical) and likelihood.from_logits:
        return {"likelihood": "categorical"}
    if isinstance(likelihood, Bernoulli) and likelihood.from_logits:
        return {"likelihood": "bernoulli"}
    if isinstance(likelihood, Normal) and likelihood.scale != "predicted":
        return {"likelihood": "normal", "noise_scale": likelihood.scale}
    raise ValueError(
        f"likelihood={likelihood} must be Categorical() or Bernoulli() of logits, or Normal with a "
        "known scale"
    )
