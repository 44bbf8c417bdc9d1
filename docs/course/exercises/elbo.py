"""Solutions to the exercises of "The evidence lower bound"."""

from __future__ import annotations

import numpy as np
import scipy.special
import scipy.stats


def bound(y: float, m: float, s: float) -> float:
    """The ELBO, in nats, of q = N(m, s^2) for w ~ N(0, 1) and y given w ~ N(w, 1).

    E_q log p(y | w) = log N(y; m, 1) - s^2 / 2 and KL = (m^2 + s^2 - 1) / 2 - log s. By m, the
    bound is -(y - m)^2 / 2 - m^2 / 2 + const: the maximum is at m = y / 2. By s, it is -s^2 + log
    s: the maximum is at s^2 = 1/2. There q is the posterior N(y / 2, 1 / 2), and the bound log N(y;
    0, 2).
    """
    likelihood = scipy.stats.norm.logpdf(y, m, 1) - s**2 / 2
    return float(likelihood - ((m**2 + s**2 - 1) / 2 - np.log(s)))


def wrong_divisor(num_data: int, batch_size: int) -> tuple[float, float]:
    """What KL / batch_size in place of KL / N amounts to: (temperature, share of the data).

    Mean loss + KL / M = (1 / N) (sum of losses + (N / M) KL). That is the bound of a posterior at
    the temperature T = N / M: the likelihood counts to the power M / N, as if there were M
    examples. The prior is the right one; only a share M / N of the data is believed.
    """
    return num_data / batch_size, batch_size / num_data


def importance_weighted(y: float, num_samples: int, seed: int = 0) -> float:
    """E log 1/K sum_k p(y | w_k) with w_k from the prior as q, in nats.

    The mean of K terms has less variance than one, and the same expectation p(y). By Jensen's
    inequality the logarithm of a less variable mean is larger on average: a mean over K is the mean
    of the means that leave one out, so the bound cannot fall from K - 1 to K.
    """
    w = np.random.default_rng(seed).standard_normal((40_000, num_samples))
    logs = scipy.stats.norm.logpdf(y, w, 1)
    return float(np.mean(scipy.special.logsumexp(logs, axis=1) - np.log(num_samples)))
