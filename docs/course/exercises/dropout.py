"""Solutions to the exercises of "Dropout as a bound"."""

from __future__ import annotations

import numpy as np
import scipy.stats


def spread(h: np.ndarray, kernel: np.ndarray, keep: float) -> float:
    """The variance of sum_q h_q w_q, w_q = W_q / k with probability k and else 0.

    Each term has the variance h^2 (W^2 / k - W^2) = h^2 W^2 (1 - k) / k, and the masks are
    independent. N is not in it: for a given W and k the functions spread as much for a thousand
    examples as for none, unlike a posterior.
    """
    return float((1 - keep) / keep * np.sum(np.square(h) * np.square(kernel)))


def weight_decay(
    decay: float, *, num_data: int, keep: float, new_num_data: int, new_keep: float
) -> float:
    """The lambda of the same prior for other N and k: lambda = l^2 / (2 N k), so N k lambda stays.

    From 0.5e-4 at N = 1,000 and k = 0.5 to N = 60,000 and k = 0.9: 0.5e-4 * 500 / 54,000 = 4.6e-7.
    """
    return decay * num_data * keep / (new_num_data * new_keep)


def error_of_the_formula(ratio: float, keep: float = 0.5) -> float:
    """Exact KL of the widened mixture less the formula, in nats, at m / s = ratio (K = 1).

    Only the entropy of q differs, as the formula takes the lumps for separate. At m = 0 there is
    one lump, whose entropy lacks H(k): the error is log 2 for k = 1/2.
    """
    u = np.linspace(-12, ratio + 12, 20_001)
    density = (1 - keep) * scipy.stats.norm.pdf(u) + keep * scipy.stats.norm.pdf(u, ratio)
    entropy = -np.trapezoid(density * np.log(density), u)
    of_separate = -keep * np.log(keep) - (1 - keep) * np.log(1 - keep)
    of_separate += 0.5 * np.log(2 * np.pi * np.e)
    return float(of_separate - entropy)


def separate_from(tolerance: float = 0.01) -> float:
    """The m / s from which on the formula is right to `tolerance` nats."""
    ratios = np.linspace(0, 8, 801)
    errors = np.array([error_of_the_formula(r) for r in ratios])
    return float(ratios[np.argmax(errors < tolerance)])
