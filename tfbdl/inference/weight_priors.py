"""Priors of all weights of a network: one for each tensor, or a joint density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

import tensorflow as tf

from tfbdl import priors
from tfbdl.arguments import shown
from tfbdl.flat_model import FlatModel
from tfbdl.inference.density import Density
from tfbdl.priors import Prior

PriorLike: TypeAlias = float | str | Prior
OTHERS = "*"


def independent(chosen: list[Prior], flat: FlatModel) -> Density:
    """Log p(theta) as a function of theta, shape (D,), for a prior of each weight."""
    for p, shape in zip(chosen, flat.shapes.values(), strict=True):
        p.attach(shape)

    def density(theta: tf.Tensor) -> tf.Tensor:
        weights = flat.unflatten(theta)
        return tf.add_n(
            [tf.reduce_sum(p.log_prob(w)) for p, w in zip(chosen, weights, strict=True)]
        )

    return density


def check_density(prior: Density, theta: tf.Tensor) -> None:
    """Raises ValueError unless a joint prior gives one number for theta."""
    value = prior(theta)
    if not tf.is_tensor(value) or value.shape != () or not value.dtype.is_floating:
        raise ValueError(
            f"prior={shown(prior)} gives {shown(value)}; let it give the log density of theta, one "
            "tensor of shape ()"
        )


def is_joint(prior: Any) -> TypeGuard[Density]:
    """Whether a prior is a function of all weights."""
    return callable(prior) and not isinstance(prior, (Prior, type))


def prior_of_each(prior: Any, flat: FlatModel) -> list[Prior]:
    """The prior of each weight tensor of a model, in their order.

    Args:
        prior: one for all, or a mapping from names to such, as in `LogPosterior`.
        flat: the model.

    Raises:
        ValueError: if a weight has no prior, a name no weight, or one is no density of the weights
            alone.
    """
    if not isinstance(prior, Mapping):
        return [priors.density(prior)] * len(flat.shapes)
    if not prior or not all(isinstance(name, str) for name in prior):
        raise ValueError(f"prior={shown(prior)} must hold priors by the names of layers or weights")
    densities = {name: priors.density(p, f"prior[{name!r}]") for name, p in prior.items()}
    meant = {name: flat.named(name) for name in densities}
    chosen = []
    for path in flat.shapes:
        best = max((name for name in densities if path in meant[name]), key=len, default=OTHERS)
        if best not in densities:
            raise ValueError(f"prior names none for the weight {path!r}; add it, or '{OTHERS}'")
        chosen.append(densities[best])
    unused = [name for name in densities if name != OTHERS and not meant[name]]
    if unused:
        raise ValueError(f"prior names {unused[0]!r}; the weights are {', '.join(flat.shapes)}")
    return chosen
