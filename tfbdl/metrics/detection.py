"""Detection of errors and of data out of distribution by uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.arguments import number
from tfbdl.metrics import array_checks, classifier
from tfbdl.metrics.ties import average_over_ties


def auroc(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Area under the receiver operating characteristic, in [0, 1].

    The probability that the score of an out-of-distribution example is larger than that of one in
    the distribution, ties counted one half; 1/2 for scores that say nothing.

    Args:
        scores_in: uncertainties of examples in the distribution, shape (N,), positions ravelled.
        scores_out: the scores of examples out of it, shape (M,).

    Raises:
        ValueError: if the scores are empty, not finite, or no vectors.
    """
    return area_of_flags(*_pooled(scores_in, scores_out))


def aupr(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Area under the precision-recall curve of finding out-of-distribution examples, in [0, 1].

    The average precision, sum over distinct scores of (recall step) x precision, without
    interpolation; M / (N + M) for scores that say nothing.

    Args:
        scores_in: uncertainties of examples in the distribution, shape (N,), positions ravelled.
        scores_out: the scores of examples out of it, shape (M,).

    Raises:
        ValueError: if the scores are empty, not finite, or no vectors.
    """
    return precision_of_flags(*_pooled(scores_in, scores_out))


def false_positive_rate(
    scores_in: ArrayLike, scores_out: ArrayLike, true_positive_rate: float = 0.95
) -> float:
    """Share of out-of-distribution examples that are taken for familiar ones, in [0, 1].

    The threshold is the least score at which at least `true_positive_rate` of the examples in the
    distribution are at or below it; counted are those out of it that are at or below it too. At
    0.95 it is what papers call FPR95 (Liang et al. 2018); small is good.

    Args:
        scores_in: uncertainties of examples in the distribution, shape (N,), positions ravelled.
        scores_out: the scores of examples out of it, shape (M,).
        true_positive_rate: in (0, 1].

    Raises:
        ValueError: if the scores are empty, not finite, or no vectors, or the rate is out of range.
    """
    rate = rate_in("true_positive_rate", true_positive_rate)
    inside = array_checks.vector("scores_in", scores_in)
    return passing(inside, array_checks.vector("scores_out", scores_out), rate)


def error_auroc(y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike) -> float:
    """`auroc` of finding the misclassified examples, in [0, 1].

    NaN if all predictions are right or all are wrong, where it is undefined.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).
        uncertainty: larger where the prediction is less certain, of the shape of y, such as the
            entropy or -max_c p_c.

    Raises:
        ValueError: if y are no labels, p no probabilities, or the uncertainty does not fit.
    """
    return area_of_flags(*_errors(y, p, uncertainty))


def error_aupr(y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike) -> float:
    """`aupr` of finding the misclassified examples, in [0, 1]; the error rate if at random.

    NaN if all predictions are right, where it is undefined.

    Arguments and errors as in `error_auroc`.
    """
    return precision_of_flags(*_errors(y, p, uncertainty))


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """A risk-coverage curve, see `risk_coverage`.

    Attributes:
        coverage: share of the examples that are predicted, k / N for k = 1 ... N, shape (N,).
        risk: share of errors among them, shape (N,).
    """

    coverage: np.ndarray
    risk: np.ndarray


def risk_coverage(y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike) -> RiskCoverage:
    """The error rate among the k most certain examples (Geifman and El-Yaniv 2017).

    Where examples tie, it is the average over all orders of them.

    Arguments and errors as in `error_auroc`.
    """
    return risks(*_errors(y, p, uncertainty))


def area_under_risk_coverage(y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike) -> float:
    """Mean risk over the coverages 1/N ... 1, in [0, 1]; small is good.

    Where examples tie, it is the average over all orders of them. It contains the error rate:
    even the best uncertainty leaves it above 0 if there are errors.

    Arguments and errors as in `error_auroc`.
    """
    return area(*_errors(y, p, uncertainty))


def area_under_generalized_risk_coverage(
    y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike
) -> float:
    """Mean over k of the errors among the k most certain examples, divided by N; small is good.

    AUGRC (Traub et al. 2024, equation 7): the risk counts all examples, not those predicted, so
    that it is the chance that an error goes unnoticed, averaged over thresholds. Where examples
    tie, it is the average over all orders of them.

    Arguments and errors as in `error_auroc`.
    """
    return generalized_area(*_errors(y, p, uncertainty))


def excess_area_under_risk_coverage(y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike) -> float:
    """`area_under_risk_coverage` less that of the best uncertainty for the same errors, >= 0.

    E-AURC (Geifman et al. 2019, section 3): 0 where every error is less certain than every right
    prediction. In contrast to the whole area it does not contain the error rate.

    Arguments and errors as in `error_auroc`.
    """
    return excess_area(*_errors(y, p, uncertainty))


def area_of_flags(flags: np.ndarray, scores: np.ndarray) -> float:
    """`auroc` of finding the flagged by their scores, both (N,); NaN if all or none are."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    return math.nan if flags.all() or not flags.any() else float(roc_auc_score(flags, scores))


def precision_of_flags(flags: np.ndarray, scores: np.ndarray) -> float:
    """`aupr` of finding the flagged by their scores, both of shape (N,); NaN if none are."""
    from sklearn.metrics import average_precision_score  # noqa: PLC0415

    return float(average_precision_score(flags, scores)) if flags.any() else math.nan


def risks(errors: np.ndarray, uncertainty: np.ndarray) -> RiskCoverage:
    """`risk_coverage` from flags of the errors; both of shape (N,)."""
    expected = average_over_ties(errors, uncertainty)[np.argsort(uncertainty)]
    count = np.arange(1, len(errors) + 1)
    return RiskCoverage(count / len(errors), np.cumsum(expected) / count)


def area(errors: np.ndarray, uncertainty: np.ndarray) -> float:
    """`area_under_risk_coverage` from flags of the errors; both of shape (N,)."""
    return float(risks(errors, uncertainty).risk.mean())


def generalized_area(errors: np.ndarray, uncertainty: np.ndarray) -> float:
    """`area_under_generalized_risk_coverage` from flags of the errors; both of shape (N,)."""
    curve = risks(errors, uncertainty)
    return float(np.mean(curve.risk * curve.coverage))


def excess_area(errors: np.ndarray, uncertainty: np.ndarray) -> float:
    """`excess_area_under_risk_coverage` from flags of the errors; both of shape (N,)."""
    return area(errors, uncertainty) - area(errors, errors.astype(np.float64))


def passing(inside: np.ndarray, outside: np.ndarray, rate: float) -> float:
    """`false_positive_rate` from checked scores and the rate."""
    needed = math.ceil(rate * len(inside) - 1e-9)  # of a rate that is a share of N but for rounding
    return float(np.mean(outside <= np.sort(inside)[max(needed, 1) - 1]))


def rate_in(name: str, rate: float) -> float:
    """`rate`, if it is in (0, 1].

    Raises:
        ValueError: if it is not.
    """
    return number(name, rate, lambda v: 0 < v <= 1, "in (0, 1]")


def _errors(y: ArrayLike, p: ArrayLike, uncertainty: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    shape = np.shape(y)
    y, p = array_checks.classes(y, p)
    if len(shape) > 1 and np.shape(uncertainty) == shape:
        uncertainty = np.ravel(uncertainty)
    uncertainty = array_checks.vector("uncertainty", uncertainty)
    classifier.same_length("uncertainty", uncertainty, "y", y)
    return ~classifier.top_class(y, p)[1], uncertainty


def _pooled(scores_in: ArrayLike, scores_out: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Whether each is out of the distribution, and the scores; both of shape (N + M,)."""
    inside = array_checks.vector("scores_in", scores_in)
    outside = array_checks.vector("scores_out", scores_out)
    is_out = np.repeat([False, True], [len(inside), len(outside)])
    return is_out, np.concatenate([inside, outside])
