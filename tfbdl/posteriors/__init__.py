"""Variational posteriors q(w), one family a file."""

from __future__ import annotations

from typing import Any

from tfbdl.arguments import text
from tfbdl.identifiers import choose
from tfbdl.posteriors.base import Posterior
from tfbdl.posteriors.full_covariance import FullCovarianceNormal
from tfbdl.posteriors.inverse_cdf import InverseCDF
from tfbdl.posteriors.laplace import Laplace
from tfbdl.posteriors.logistic import Logistic
from tfbdl.posteriors.low_rank import LowRankNormal
from tfbdl.posteriors.matrix_normal import MatrixNormal
from tfbdl.posteriors.mean_field import MeanFieldNormal
from tfbdl.posteriors.multiplicative import MultiplicativeNormal
from tfbdl.posteriors.per_output import PerOutputNormal
from tfbdl.posteriors.point import PointMass
from tfbdl.posteriors.prior_itself import PriorItself
from tfbdl.posteriors.relaxed_bernoulli import RelaxedBernoulli

__all__ = [
    "FullCovarianceNormal",
    "InverseCDF",
    "Laplace",
    "Logistic",
    "LowRankNormal",
    "MatrixNormal",
    "MeanFieldNormal",
    "MultiplicativeNormal",
    "PerOutputNormal",
    "PointMass",
    "Posterior",
    "PriorItself",
    "RelaxedBernoulli",
    "get",
]

_NAMES: dict[str, type[Posterior]] = {
    "full_covariance": FullCovarianceNormal,
    "laplace": Laplace,
    "logistic": Logistic,
    "low_rank": LowRankNormal,
    "matrix_normal": MatrixNormal,
    "mean_field": MeanFieldNormal,
    "multiplicative": MultiplicativeNormal,
    "per_output": PerOutputNormal,
    "point": PointMass,
    "prior": PriorItself,
    "relaxed_bernoulli": RelaxedBernoulli,
}


def get(identifier: str | dict[str, Any] | Posterior, argument: str = "posterior") -> Posterior:
    """The posterior family a user means: an object, its name, or its config.

    Args:
        identifier: the value that the user gave.
        argument: the name of the argument, for messages.

    Raises:
        ValueError: if it is none of these.
    """
    text("argument", argument)
    return choose(argument, identifier, Posterior, _NAMES)
