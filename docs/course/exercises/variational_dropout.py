"""Solutions to the exercises of "The KL of variational dropout"."""

from __future__ import annotations

import numpy as np
import scipy.special
import scipy.stats


def alpha_of_rate(rate: float) -> float:
    """Mean 1 and variance (1 - k) / k, of masks as of noise: alpha = rate / (1 - rate).

    The rate 0.5 has alpha = 1, which is also the largest that Kingma's KL allows.
    """
    return rate / (1 - rate)


def kl_by_sum(alpha: float) -> float:
    """(E[psi(1/2 + j)] - psi(1/2)) / 2 for j ~ Poisson(1 / (2 alpha)), in nats."""
    mean = 0.5 / alpha
    j = np.arange(int(mean + 12 * np.sqrt(mean) + 60))
    law = scipy.stats.poisson(mean).pmf(j)
    return float(0.5 * (law @ scipy.special.digamma(0.5 + j) - scipy.special.digamma(0.5)))


def kl_by_integral(alpha: float) -> float:
    """E log|u| - log(alpha) / 2 + (gamma + log 2) / 2 for u ~ N(1, alpha), with |u| = e^t."""
    t = np.linspace(-40, 6, 40_001)
    law = scipy.stats.norm(1, alpha**0.5)
    density = (law.pdf(np.exp(t)) + law.pdf(-np.exp(t))) * np.exp(t)
    mean = np.trapezoid(density * t, t)
    return float(mean - 0.5 * np.log(alpha) + 0.5 * (np.euler_gamma + np.log(2)))


def slope_of_molchanov(log_alpha: np.ndarray) -> np.ndarray:
    """By log alpha: negative everywhere, as the exact KL's is, so neither has a minimum.

    With no data for a weight its log alpha would grow for ever, ever more slowly: the slope falls
    as 1 / alpha. The layer clips log alpha at 8, beyond which there is no gradient; the weight has
    been dropped at 3.
    """
    k1, k2, k3 = 0.63576, 1.87320, 1.48695
    s = scipy.special.expit(k2 + k3 * log_alpha)
    return -k1 * k3 * s * (1 - s) - 0.5 * scipy.special.expit(-log_alpha)
