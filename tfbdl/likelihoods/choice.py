"""The likelihood a user means, by an object, a name, a config or a loss of Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tfbdl.arguments import shown
from tfbdl.identifiers import choose
from tfbdl.keras_private import compiled_with
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.bernoulli import Bernoulli
from tfbdl.likelihoods.categorical import Categorical
from tfbdl.likelihoods.continuous_bernoulli import ContinuousBernoulli
from tfbdl.likelihoods.joint import Joint, kind_of, named, names_of
from tfbdl.likelihoods.log_normal import LogNormal
from tfbdl.likelihoods.normal import Normal
from tfbdl.likelihoods.of_keras import check_loss_targets, of_loss
from tfbdl.likelihoods.poisson import Poisson
from tfbdl.likelihoods.student_t import StudentT

LikelihoodLike: TypeAlias = (
    Likelihood | keras.losses.Loss | Callable[..., Any] | str | dict[str, Any] | list[Any]
)

_FAMILIES = (
    *(Bernoulli, Categorical, ContinuousBernoulli),
    *(LogNormal, Normal, Poisson, StudentT),
)
_NAMES: dict[str, Callable[[], Any]] = {family().name: family for family in _FAMILIES}


def get(likelihood: LikelihoodLike) -> Likelihood:
    """The likelihood a user means, as `keras.losses.get` finds losses.

    Args:
        likelihood: an object of `tfbdl.likelihoods`; the name of a family, which stands for its
            defaults: "bernoulli", "categorical", "continuous_bernoulli", "log_normal", "normal",
            "poisson", "student_t"; a config; or a cross-entropy of Keras, by object, function or
            name, such as "sparse_categorical_crossentropy", which takes probabilities. "poisson" is
            `Poisson`, of log rates, and not Keras' loss of that name, of rates. A dictionary, list
            or tuple of these, for the outputs of one network, makes a `Joint`.

    Raises:
        ValueError: if it is none of these, or a loss that is no likelihood, such as "mse".
    """
    if is_structure(likelihood):
        return Joint(map_losses(get, likelihood))
    found = likelihood
    if isinstance(likelihood, dict) or not callable(likelihood):
        found = _described(likelihood)
    known = of_loss(found)
    if known is None:
        raise ValueError(
            f"likelihood={_label(likelihood)} is a loss that gives y no probability; give one of "
            "tfbdl.likelihoods, such as Normal(0.1) where squared error would stand"
        )
    return known


def of_model(model: keras.Model, given: LikelihoodLike | None) -> Likelihood | None:
    """That which is given, or that of the loss the model was compiled with; None if neither says.

    Raises:
        ValueError: if `given` is no likelihood.
    """
    if given is None:
        loss = getattr(model, "loss", None)
        if not is_structure(loss):
            return of_loss(loss)
        weights = compiled_with(model).get("loss_weights")
        return _of_outputs(model, map_losses(of_loss, loss), weights)
    likelihood = get(given)
    if isinstance(likelihood, Joint):
        return _of_outputs(model, likelihood.likelihoods, likelihood.weights)
    return likelihood


def check_targets(model: keras.Model, y: Any, outputs: Any) -> None:
    """Raises ValueError where a model's loss meets targets that have no probability under it.

    Args:
        model: a compiled model.
        y: all targets, an array or a structure of arrays.
        outputs: the outputs of the network for any one example or more.
    """
    loss = model.loss
    if not is_structure(loss):
        if tf.is_tensor(outputs) and not keras.tree.is_nested(y):
            check_loss_targets(loss, y, outputs)
        return
    losses = _arranged("loss", loss, outputs, getattr(model, "output_names", None), None)
    try:
        keras.tree.assert_same_structure(outputs, y)
    except (ValueError, TypeError):
        raise ValueError(
            f"y is {kind_of(y)}, and the outputs of model={model.name} are {kind_of(outputs)}; "
            "give targets for each output, in the same structure"
        ) from None
    flat = (keras.tree.flatten(part) for part in (losses, y, outputs))
    for name, of_output, own, output in zip(names_of(outputs), *flat, strict=True):
        if of_output is not None:
            named(name, check_loss_targets, of_output, own, output)


def required_likelihood(model: keras.Model, given: LikelihoodLike | None) -> Likelihood:
    """The likelihood of a model as `of_model` finds it, where one is needed.

    Raises:
        ValueError: also if neither says.
    """
    likelihood = of_model(model, given)
    if likelihood is None:
        raise ValueError(
            f"likelihood=None: the loss of model={model.name} is no likelihood that is known; give "
            "one of tfbdl.likelihoods, such as Normal(0.1), here or to compile"
        )
    return likelihood


def is_structure(losses: Any) -> bool:
    """Whether it is a dictionary, list or tuple of losses, and not the config of one."""
    is_config = isinstance(losses, dict) and "class_name" in losses
    return isinstance(losses, (dict, list, tuple)) and not is_config


def map_losses(function: Callable[[Any], Any], losses: Any) -> Any:
    """`function` of each loss in a structure of them; a config is one loss, and None stays."""
    if isinstance(losses, dict) and is_structure(losses):
        return {key: map_losses(function, part) for key, part in losses.items()}
    if is_structure(losses):
        return type(losses)(map_losses(function, part) for part in losses)
    return None if losses is None else function(losses)


def _of_outputs(model: keras.Model, parts: Any, weights: Any) -> Joint:
    """Likelihoods as `compile` takes losses, in the structure that the model's outputs have."""
    outputs = getattr(model, "output", None)
    if outputs is None:
        return Joint(parts, weights)
    names = getattr(model, "output_names", None)
    return Joint(
        _arranged("likelihood", parts, outputs, names, None),
        None if weights is None else _arranged("loss_weights", weights, outputs, names, 1.0),
    )


def _arranged(name: str, given: Any, outputs: Any, names: Any, missing: Any) -> Any:
    """What is given by key, by the name of an output or by place, in the structure of outputs."""
    if isinstance(given, dict) and isinstance(outputs, dict):
        known, found = list(outputs), given
    elif isinstance(given, dict):
        known, found = list(names or ()), given
    else:
        flat = keras.tree.flatten(given)
        if len(flat) != len(keras.tree.flatten(outputs)):
            raise ValueError(
                f"{name} has {len(flat)} parts for {len(keras.tree.flatten(outputs))} outputs; "
                "give one for each"
            )
        return keras.tree.pack_sequence_as(outputs, flat)
    unknown = [key for key in found if key not in known]
    if unknown:
        raise ValueError(f"{name} has the key {unknown[0]!r}; the outputs are {known}")
    if isinstance(outputs, dict):
        return {
            key: found.get(key, keras.tree.map_structure(lambda _: missing, part))
            for key, part in outputs.items()
        }
    return keras.tree.pack_sequence_as(outputs, [found.get(key, missing) for key in known])


def _described(likelihood: Any) -> keras.losses.Loss | Callable[..., Any] | str:
    """The loss of a name or a config.

    Raises:
        ValueError: if there is none.
    """
    if isinstance(likelihood, str) and likelihood not in _NAMES and _keras_knows(likelihood):
        return likelihood
    also = "an object of tfbdl.likelihoods, a cross-entropy of Keras, or "
    return choose("likelihood", likelihood, keras.losses.Loss, _NAMES, also)


def _keras_knows(name: str) -> bool:
    try:
        return keras.losses.get(name) is not None
    except ValueError:
        return False


def _label(likelihood: Any) -> str:
    """A loss as messages show it: its name, or that of its class."""
    if isinstance(likelihood, (str, dict)):
        return shown(likelihood)
    return getattr(likelihood, "__name__", type(likelihood).__name__)
