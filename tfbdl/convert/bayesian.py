"""Trained networks as the start of Bayesian ones."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from tfbdl import posteriors, priors
from tfbdl.arguments import number
from tfbdl.convert.copying import describe
from tfbdl.convert.exchange import Layer, Rule, Selection, exchange
from tfbdl.layers import BayesDense, estimators

# Layers with a kernel and a bias, and the Bayesian ones whose arguments have the same names.
COUNTERPARTS: dict[type[Layer], type[Layer]] = {keras.layers.Dense: BayesDense}

_REGULARIZERS = ("kernel_regularizer", "bias_regularizer")
_CONSTRAINTS = ("kernel_constraint", "bias_constraint")
_WEIGHT_FORMATS = ("lora_rank", "lora_alpha", "quantization_config")
_LEAST_SIGMA = 1e-6


def to_bayesian(
    model: keras.Model,
    *,
    num_data: int,
    prior: float | str | dict | priors.Prior = 1.0,
    posterior: str | dict | posteriors.Posterior = "mean_field",
    estimator: str | dict | estimators.Estimator = "reparameterization",
    layers: Selection = None,
    initial_sigma: float | None = 0.1,
) -> keras.Model:
    """A copy of a trained model whose Dense layers have distributions around their weights.

    Means start at the trained weights and standard deviations at `initial_sigma * |w|`, as in MOPED
    (Krishnan, Subedar, Tickoo 2020). MOPED's prior is N(w, 1), around the trained weights, which
    counts the data twice if these were learned from it; here the prior is the one you give. At
    `training=False` predictions are those of `model`.

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.
        num_data: N, the number of training examples.
        prior: p(w) of kernels and biases, as in `BayesDense`. It takes the place of regularizers,
            which are left out with a warning: L2(l) beside a mean loss is the normal prior of scale
            (2 l N)^-1/2.
        posterior: the family of q(w), as in `BayesDense`.
        estimator: how outputs are sampled in training, as in `BayesDense`.
        layers: which Dense layers: names, or a function of a layer; by default all.
        initial_sigma: where standard deviations start, as a fraction of |w| in (0, 1]; None for
            where `posterior` starts them.

    Returns:
        The converted model, not compiled, with the inputs and outputs of `model`.

    Raises:
        ValueError: if an argument is out of its range, there is nothing to convert, or a layer that
            cannot be: one inside a wrapper such as TimeDistributed, of a subclass, quantized, or
            with LoRA or a constraint.
    """
    if initial_sigma is not None:
        number("initial_sigma", initial_sigma, lambda s: 0 < s <= 1, "in (0, 1], or None")
    serialize = keras.saving.serialize_keras_object  # each layer makes objects of its own
    arguments = {
        "num_data": num_data,
        "prior": serialize(priors.get(prior)),
        "posterior": serialize(posteriors.get(posterior)),
        "estimator": serialize(estimators.get(estimator)),
    }

    def rule(kind: type[Layer]) -> Rule:
        return Rule(
            lambda old: _make(kind, old, arguments),
            lambda old, new: _fill(old, new, initial_sigma),
        )

    return exchange(model, {old: rule(new) for old, new in COUNTERPARTS.items()}, layers)


def _make(kind: type[Layer], old: Any, arguments: dict[str, Any]) -> Layer:
    """A Bayesian layer with the arguments of `old` that are not about its weights' values."""
    if getattr(old, "quantization_mode", None) or getattr(old, "lora_enabled", False):
        raise ValueError(f"{describe(old)} is quantized or has LoRA; convert it without these")
    for name in _CONSTRAINTS:
        if getattr(old, name) is not None:
            raise ValueError(f"{describe(old)} has a {name}, which random weights cannot keep")
    for name in _REGULARIZERS:
        if getattr(old, name) is not None:
            warnings.warn(
                f"{describe(old)} loses its {name}: the prior takes its place", stacklevel=2
            )
    names = old.get_config().keys() - {*_REGULARIZERS, *_CONSTRAINTS, *_WEIGHT_FORMATS}
    kept = {name: getattr(old, name) for name in names}
    return kind(**{**kept, **arguments, "dtype": old.dtype_policy})


def _fill(old: Any, new: Any, initial_sigma: float | None) -> None:
    for q, w in ((new.kernel, old.kernel), (new.bias, old.bias)):
        if q is not None:
            q.mu.assign(w)
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
