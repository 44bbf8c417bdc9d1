"""E[y] under normal f, where the mean of a softmax or a sigmoid has no closed form."""

from __future__ import annotations

import math

import numpy as np
import scipy.special

from tfbdl.arguments import option
from tfbdl.inference.laplace.covariance import OutputCovariances
from tfbdl.inference.laplace.joint_rows import JointRows
from tfbdl.likelihoods import Bernoulli, Categorical, Likelihood

LINKS = ("probit", "bridge", "mc")
_FAMILIES = {"probit": (Categorical, Bernoulli), "bridge": (Categorical,), "mc": (Likelihood,)}


def check_link(likelihood: Likelihood, link_approx: str | None, pred_type: str = "glm") -> None:
    """Raises ValueError if `link_approx` is unknown, or not for that likelihood or pred_type."""
    if link_approx is None:
        return
    if pred_type != "glm":
        raise ValueError(f"link_approx={link_approx!r} is for pred_type='glm'")
    option("link_approx", link_approx, LINKS)
    if not isinstance(likelihood, _FAMILIES[link_approx]):
        kind, instead = type(likelihood).__name__, "use 'mc'"
        if isinstance(likelihood, JointRows):
            kind, instead = "all of several outputs", "leave it out, and each takes its own"
        raise ValueError(f"link_approx={link_approx!r} is not for {kind}; {instead}")


def mean_of_classes(
    likelihood: Likelihood, link_approx: str, mean: np.ndarray, law: OutputCovariances
) -> np.ndarray:
    """Class probabilities, of the shape (N, ...) of `mean`.

    Args:
        likelihood: a likelihood of logits.
        link_approx: "probit" (MacKay 1992): the link of f / sqrt(1 + pi / 8 Var f). "bridge": the
            Dirichlet whose Laplace approximation in logits N(mean, covariance) is, after both are
            projected to sum zero (Hobbhahn et al. 2022, equation 11). It is exact where the logits
            vary as a Dirichlet's do, the rare classes most; where they do not, it may be off by
            0.3 however little they vary.
        mean: the mean of the logits, shape (N, ...).
        law: the covariances of the logits at each position; for "probit" variances are enough.

    Raises:
        ValueError: if the likelihood is not one of classes, or not one that "bridge" takes.
    """
    check_link(likelihood, link_approx)
    if link_approx == "probit":
        variance = law.diagonal().numpy().reshape(mean.shape)
        shrunk = mean / np.sqrt(1.0 + math.pi / 8.0 * variance)
        one_of = isinstance(likelihood, Categorical)
        return scipy.special.softmax(shrunk, axis=-1) if one_of else scipy.special.expit(shrunk)
    classes = mean.shape[-1]
    return _bridge(mean.reshape(-1, classes), law.dense().numpy()).reshape(mean.shape)


def _bridge(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    of_rows, total = covariance.sum(axis=2), covariance.sum(axis=(1, 2))[:, np.newaxis]
    total = np.where(total == 0.0, 1.0, total)  # the sum is certain; rows are zero too
    mean = mean - of_rows * mean.sum(axis=1, keepdims=True) / total
    variance = np.diagonal(covariance, axis1=1, axis2=2) - of_rows**2 / total
    classes = mean.shape[1]
    others = scipy.special.logsumexp(-mean, axis=1, keepdims=True)
    alpha = (1.0 - 2.0 / classes + np.exp(mean + others) / classes**2) / variance
    return alpha / alpha.sum(axis=1, keepdims=True)
