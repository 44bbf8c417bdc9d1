"""Scores of single inputs, and those that score highest."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfbdl.arguments import instance, positive_integer
from tfbdl.examples import examples
from tfbdl.likelihoods import Bernoulli, Categorical
from tfbdl.predictive import Prediction


def bald(prediction: Prediction) -> np.ndarray:
    """What the label would tell about the function, I(y; f | x), in nats: shape (N, ...).

    Bayesian active learning by disagreement (Houlsby et al. 2011, equation 2): large where the
    functions are each sure, and of different classes. It is `mutual_information` of the prediction.

    Args:
        prediction: what `tfbdl.predict` gives for the unlabelled inputs, with S > 1 functions.

    Raises:
        ValueError: if it is of one function, or not of classes.
    """
    _check(prediction)
    if prediction.num_samples < 2:
        raise ValueError(
            f"bald compares functions, and prediction has num_samples={prediction.num_samples}; "
            "predict with at least 2"
        )
    return prediction.mutual_information


def entropy(prediction: Prediction) -> np.ndarray:
    """The entropy of the label, H(y | x), in nats: shape (N, ...).

    Uncertainty sampling. Noise counts too, so that an input whose label is a coin's toss scores
    high forever. It is `entropy` of the prediction.

    Args:
        prediction: what `tfbdl.predict` gives for the unlabelled inputs.

    Raises:
        ValueError: if it is not of classes.
    """
    _check(prediction)
    return prediction.entropy


def variation_ratios(prediction: Prediction) -> np.ndarray:
    """The probability that the likeliest class is wrong, 1 - max_c p(y = c | x): shape (N, ...).

    The score is that of Gal, Islam and Ghahramani 2017, section 4. Where an input has several
    labels at once, under `Bernoulli`, it is the probability that any of them is wrong.

    Args:
        prediction: what `tfbdl.predict` gives for the unlabelled inputs.

    Raises:
        ValueError: if it is not of classes.
    """
    _check(prediction)
    p, family = prediction.mean, prediction.likelihood
    if isinstance(family, Categorical):
        return 1.0 - p.max(axis=-1)
    if isinstance(family, Bernoulli):
        likeliest = np.maximum(p, 1.0 - p)
        return 1.0 - (likeliest.prod(axis=-1) if p.ndim > 1 else likeliest)
    raise ValueError(not_of_classes(prediction))


def top(scores: np.ndarray, num: int) -> np.ndarray:
    """Indices of the `num` largest scores, the largest first, shape (num,).

    Where scores are equal, the first comes first. Each input is scored by itself, so that a batch
    of the best may be nearly the same input many times over; `batch_bald` avoids that.

    Args:
        scores: shape (N,).
        num: how many, at most N.

    Raises:
        ValueError: if the scores are no finite numbers in one row, or fewer than `num`.
    """
    scores = examples("scores", scores)
    if scores.ndim != 1:
        raise ValueError(f"scores has shape {scores.shape}; give one for each input, shape (N,)")
    num = positive_integer("num", num, ", of the inputs scored", most=len(scores))
    return np.argsort(-scores, kind="stable")[:num]


def not_of_classes(prediction: Prediction) -> str:
    """The refusal of a prediction that is not of classes."""
    family = prediction.likelihood
    known = "no likelihood" if family is None else type(family).__name__
    return f"prediction is under {known}; give one of classes, under Categorical or Bernoulli"


def _check(prediction: Any) -> None:
    instance("prediction", prediction, Prediction, "what tfbdl.predict gives")
