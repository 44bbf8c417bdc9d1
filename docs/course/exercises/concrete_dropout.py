"""Solutions to the exercises of "The terms of Concrete dropout"."""

from __future__ import annotations

import numpy as np
import scipy.optimize
from scipy.special import expit, logit


def best_keep(c: float) -> float:
    """Where c / k - H(k) is least, c = l^2 / 2 ||W||^2.

    The slope is -c / k^2 + log(k / (1 - k)). It is negative at k = 1/2, where the logarithm is 0:
    the minimum lies above. Keeping a unit more often makes its kept value W / k smaller.
    """

    def slope(k: float) -> float:
        return -c / k**2 + float(logit(k))

    return float(scipy.optimize.brentq(slope, 0.5, 1 - 1e-15))


def gradient_of_the_mask(
    keep: float, temperature: float, draws: int = 1_000_000, seed: int = 0
) -> tuple[float, float]:
    """Mean and variance of d mask / d logit = mask (1 - mask) / t.

    The mean of the mask tends to k = sigmoid(a), so that of its derivative to k (1 - k). With z =
    (a + l) / t the second moment is E[(s (1 - s))^2] / t^2 = f(-a) / t * int (s (1 - s))^2 dz,
    where f(-a) = k (1 - k) is the density of the logistic noise at -a: k (1 - k) / (6 t).
    """
    u = np.random.default_rng(seed).uniform(size=draws)
    mask = expit((logit(keep) + logit(u)) / temperature)
    gradient = mask * (1 - mask) / temperature
    return float(gradient.mean()), float(gradient.var())


def taken_for_a_logit(keep: float) -> float:
    """The probability to be kept of a unit whose keep probability is passed as a logit."""
    return float(expit(keep))
