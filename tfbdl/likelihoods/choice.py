"""The likelihood a user means, by an object, a name, a config or a loss of Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras

from tfbdl.arguments import shown
from tfbdl.identifiers import choose
from tfbdl.keras_private_training import compiled_with
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.bernoulli import Bernoulli
from tfbdl.likelihoods.beta import Beta
from tfbdl.likelihoods.categorical import Categorical
from tfbdl.likelihoods.continuous_bernoulli import ContinuousBernoulli
from tfbdl.likelihoods.gamma import Gamma
from tfbdl.likelihoods.joint import Joint
from tfbdl.likelihoods.log_normal import LogNormal
from tfbdl.likelihoods.negative_binomial import NegativeBinomial
from tfbdl.likelihoods.normal import Normal
from tfbdl.likelihoods.normal_mixture import NormalMixture
from tfbdl.likelihoods.of_keras import of_loss
from tfbdl.likelihoods.of_outputs import is_structure, map_losses, of_each_output
from tfbdl.likelihoods.poisson import Poisson
from tfbdl.likelihoods.quantiles import Quantiles
from tfbdl.likelihoods.student_t import StudentT

LikelihoodLike: TypeAlias = (
    Likelihood | keras.losses.Loss | Callable[..., Any] | str | dict[str, Any] | list[Any]
)

_FAMILIES = (
    *(Bernoulli, Beta, Categorical, ContinuousBernoulli, Gamma, LogNormal, NegativeBinomial),
    *(Normal, NormalMixture, Poisson, Quantiles, StudentT),
)
_NAMES: dict[str, Callable[[], Any]] = {family().name: family for family in _FAMILIES}


def get(likelihood: LikelihoodLike) -> Likelihood:
    """The likelihood a user means, as `keras.losses.get` finds losses.

    Args:
        likelihood: an object of `tfbdl.likelihoods`; the name of a family, which stands for its
            defaults: "bernoulli", "beta", "categorical", "continuous_bernoulli", "gamma",
            "log_normal", "negative_binomial", "normal", "normal_mixture" (of two), "poisson",
            "quantiles" (of five), "student_t"; a config; or a cross-entropy of Keras, by object,
            function or name, such as "sparse_categorical_crossentropy", which takes probabilities.
            "poisson" is `Poisson`, of log rates, and not Keras' loss of that name, of rates. A
            dictionary, list or tuple of these, for the outputs of one network, makes a `Joint`.

    Raises:
        ValueError: if it is none of these, or a loss that is no likelihood, such as "mse".
    """
    if is_structure(likelihood):
        return Joint(map_losses(get, likelihood))
    described = likelihood
    if isinstance(likelihood, dict) or not callable(likelihood):
        described = _described(likelihood)
    known = of_loss(described)
    if known is None:
        raise ValueError(
            f"likelihood={_label(likelihood)} is a loss that gives y no probability; give one of "
            "tfbdl.likelihoods, such as Normal(0.1) where squared error would stand"
        )
    return known


def of_model(model: keras.Model, given: LikelihoodLike | None) -> Likelihood | None:
    """The likelihood given, or that of the compiled loss; None if neither says.

    Raises:
        ValueError: if `given` is no likelihood.
    """
    if given is None:
        loss = getattr(model, "loss", None)
        weights = compiled_with(model).get("loss_weights") if loss is not None else None
        known = map_losses(of_loss, loss) if is_structure(loss) else of_loss(loss)
        return of_each_output(model, known, weights)
    return of_each_output(model, get(given), None)


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
