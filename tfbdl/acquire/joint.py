"""BatchBALD: a batch of inputs whose labels together tell most about the function.

Labels of one function are independent, so that I(y_1..n; f) = H(y_1..n) - sum_i E_f H(y_i | f)
(Kirsch, van Amersfoort and Gal 2019, equation 8). Inputs are added one at a time, the best first,
which reaches 1 - 1/e of the best batch, as the information is submodular (their theorem 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special

from tfbdl.acquire.scores import not_of_classes
from tfbdl.arguments import generator, instance, positive_integer
from tfbdl.likelihoods import Bernoulli, Categorical
from tfbdl.predictive import Prediction

NUMBERS = 2**22
"""The size of a temporary array, 32 MB of float64."""


class Batch(NamedTuple):
    """Inputs to have labelled, see `batch_bald`.

    Attributes:
        indices: the places of the chosen inputs in the prediction, in the order of choice, shape
            (num,).
        information: I(y_1..n; f) of the first n of them, in nats, for n = 1..num, shape (num,): at
            most log S.
    """

    indices: np.ndarray
    information: np.ndarray


def batch_bald(
    prediction: Prediction, num: int, *, num_configurations: int = 10_000, seed: int = 0
) -> Batch:
    """A batch of inputs whose labels together tell most about the function.

    `bald` counts twice what two labels both tell, and fills a batch with inputs that are alike;
    here each input is worth what it adds. The sum over labellings of the inputs chosen before is
    exact while there are at most `num_configurations`, C^(n - 1) of them; then so many are drawn.

    Args:
        prediction: what `tfbdl.predict(..., return_samples=True)` gives for the unlabelled inputs,
            with S > 1 functions and one label for each input.
        num: how many, at most N. S functions cannot tell more than log S nats: with few of them,
            the last of a large batch are chosen by noise.
        num_configurations: labellings in a sum, at least S are drawn.
        seed: the seed of labellings that are drawn.

    Raises:
        ValueError: if an argument is out of its range, the functions were not kept, or the
            prediction is not of classes.
    """
    p = _probabilities(prediction)
    num = positive_integer("num", num, ", of the inputs", most=p.shape[1])
    limit = positive_integer("num_configurations", num_configurations)
    rng = generator("seed", seed)
    log_p = np.log(p, out=np.full_like(p, -np.inf), where=p > 0)
    noise = scipy.special.entr(p).sum(axis=-1).mean(axis=0)
    bounds = np.full(p.shape[1], np.inf)
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(num):
        posteriors, weights = _given_labels(log_p[:, chosen], limit, rng)
        best, gain = _best(p, noise, posteriors, weights, bounds)
        bounds[best] = -np.inf
        chosen.append(best)
        gains.append(gain)
    return Batch(np.array(chosen), np.cumsum(gains))


def _probabilities(prediction: Prediction) -> np.ndarray:
    """p(y = c | f(x)), float64 of shape (S, N, C)."""
    instance("prediction", prediction, Prediction, "what tfbdl.predict gives")
    if not isinstance(prediction.likelihood, (Bernoulli, Categorical)):
        raise ValueError(not_of_classes(prediction))
    p = prediction.samples.astype(np.float64)
    if isinstance(prediction.likelihood, Bernoulli) and p.shape[2:] in ((), (1,)):
        p = p.reshape(*p.shape[:2], 1)
        p = np.concatenate([1.0 - p, p], axis=-1)
    elif p.ndim != 3 or isinstance(prediction.likelihood, Bernoulli):
        raise ValueError(
            f"prediction has means of shape {prediction.mean.shape}; batch_bald needs one label "
            "for each input"
        )
    if len(p) < 2:
        raise ValueError("batch_bald compares functions, and prediction has one; predict with more")
    return p / p.sum(axis=-1, keepdims=True)


def _given_labels(
    log_p: np.ndarray, limit: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """p(f | labels) for labellings of the n inputs chosen, and how much each labelling counts.

    Args:
        log_p: log p(y = c | f(x)) at those inputs, shape (S, n, C).
        limit: M, the most labellings to enumerate.
        rng: the source of the labellings, where they are drawn.

    Returns:
        Shapes (M, S) and (M,).
    """
    S, n, C = log_p.shape
    if C**n <= limit:
        labels = np.indices((C,) * n).reshape(n, C**n)
    else:
        p = np.repeat(np.exp(log_p), -(-limit // S), axis=0)  # [M, n, C]
        draws = rng.uniform(size=(*p.shape[:2], 1))
        labels = (draws >= np.cumsum(p[..., :-1], axis=-1)).sum(axis=-1).T
    log_joint = sum((log_p[:, i, labels[i]].T for i in range(n)), np.zeros((labels.shape[1], S)))
    log_marginal = scipy.special.logsumexp(log_joint, axis=1)
    possible = log_marginal > -np.inf
    log_joint, log_marginal = log_joint[possible], log_marginal[possible]
    posteriors = np.exp(log_joint - log_marginal[:, np.newaxis])
    if C**n <= limit:
        return posteriors, np.exp(log_marginal) / S
    return posteriors, np.full(len(posteriors), 1.0 / len(posteriors))


def _best(
    p: np.ndarray,
    noise: np.ndarray,
    posteriors: np.ndarray,
    weights: np.ndarray,
    bounds: np.ndarray,
) -> tuple[int, float]:
    """The input that adds most, and what it adds.

    What an input adds falls as others are chosen. So those that added most before come first, and
    the search ends where no other can add more: `bounds`, shape (N,), is brought up to date.
    """
    S, N, C = p.shape
    step = max(NUMBERS // (len(posteriors) * C), 1)
    order = np.argsort(-bounds, kind="stable")
    best, gain = -1, -np.inf
    for start in range(0, N, step):
        block = order[start : start + step]
        if gain >= bounds[block[0]]:
            break
        block = block[bounds[block] > -np.inf]
        q = posteriors @ p[:, block].reshape(S, -1)  # [M, len(block) C]
        entropy = (weights @ scipy.special.entr(q)).reshape(len(block), C).sum(axis=1)
        bounds[block] = entropy - noise[block]
        first = int(np.argmax(bounds[block]))
        if bounds[block[first]] > gain:
            best, gain = int(block[first]), float(bounds[block[first]])
    return best, gain
