"""Priors p(w), one family a file."""

from __future__ import annotations

from numbers import Real
from typing import Any

from tfbdl.arguments import positive, text
from tfbdl.identifiers import choose
from tfbdl.priors.ard import ARD
from tfbdl.priors.base import Prior
from tfbdl.priors.bernoulli import Bernoulli
from tfbdl.priors.flat import Flat
from tfbdl.priors.gamma_scale import GammaScale
from tfbdl.priors.hierarchical import Hierarchical
from tfbdl.priors.horseshoe import Horseshoe
from tfbdl.priors.inverse_gamma_scale import InverseGammaScale
from tfbdl.priors.kronecker_normal import KroneckerNormal
from tfbdl.priors.laplace import Laplace
from tfbdl.priors.log_uniform import LogUniform
from tfbdl.priors.matrix_normal import MatrixNormal
from tfbdl.priors.multivariate_normal import MultivariateNormal
from tfbdl.priors.normal import Normal
from tfbdl.priors.scale_mixture import ScaleMixture
from tfbdl.priors.spatial_normal import SpatialNormal
from tfbdl.priors.student_t import StudentT

__all__ = [
    "ARD",
    "Bernoulli",
    "Flat",
    "GammaScale",
    "Hierarchical",
    "Horseshoe",
    "InverseGammaScale",
    "KroneckerNormal",
    "Laplace",
    "LogUniform",
    "MatrixNormal",
    "MultivariateNormal",
    "Normal",
    "Prior",
    "ScaleMixture",
    "SpatialNormal",
    "StudentT",
    "get",
]

_NAMES: dict[str, type[Prior]] = {
    "ard": ARD,
    "bernoulli": Bernoulli,
    "flat": Flat,
    "horseshoe": Horseshoe,
    "inverse_gamma_scale": InverseGammaScale,
    "laplace": Laplace,
    "log_uniform": LogUniform,
    "normal": Normal,
    "scale_mixture": ScaleMixture,
    "spatial_normal": SpatialNormal,
    "student_t": StudentT,
}


def get(identifier: float | str | dict[str, Any] | Prior, argument: str = "prior") -> Prior:
    """The prior a user means: an object, its name, its config, or the scale of a `Normal`.

    Args:
        identifier: the value that the user gave.
        argument: the name of the argument, for messages.

    Raises:
        ValueError: if the name is unknown.
    """
    text("argument", argument)
    if isinstance(identifier, Real) and not isinstance(identifier, bool):
        return Normal(positive(argument, identifier, "a positive number: a standard deviation"))
    return choose(argument, identifier, Prior, _NAMES, "a scale or ")


def density(identifier: float | str | dict[str, Any] | Prior, argument: str = "prior") -> Prior:
    """`get`, of a prior that is a density of the weights alone, as Markov chains and modes need it.

    Raises:
        ValueError: if it is unknown, its scales are learned by the bound of Bayesian layers, or its
            density has no integral at 0.
    """
    prior = get(identifier, argument)
    given = f"{argument}={type(prior).__name__}"
    if prior.cost is not None:
        raise ValueError(
            f"{given} has scales with a posterior of their own, which Bayesian layers alone learn; "
            "take fixed scales, as 'student_t' has"
        )
    if prior.trainable_variables:
        raise ValueError(
            f"{given} is learned by the bound of Bayesian layers alone; give trainable=False"
        )
    if isinstance(prior, LogUniform):
        raise ValueError(
            f"{given} is infinite at 0, and so is the posterior; take 'laplace' or 'student_t'"
        )
    return prior
