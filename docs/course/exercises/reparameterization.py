"""Solutions to the exercises of "The gradient of an expectation"."""

from __future__ import annotations

import numpy as np


def score_variance(d: float, sigma: float) -> float:
    """The variance of (d + sigma e)^2 e / sigma, e ~ N(0, 1).

    Of the square, (d + sigma e)^4 e^2 / sigma^2, even powers of e survive: d^4 e^2 + 6 d^2 sigma^2
    e^4 + sigma^4 e^6, with the moments 1, 3 and 15. The mean is 2 d.
    """
    second_moment = (d**4 + 6 * d**2 * sigma**2 * 3 + sigma**4 * 15) / sigma**2
    return second_moment - 4 * d**2


def logistic_gradients(u: float, mu: float, s: float) -> tuple[float, float]:
    """By the scale s of a logistic law: from w = mu + s log(u / (1 - u)), and by -F_s / q.

    F(w) = sigmoid((w - mu) / s), so F_s = -q (w - mu) / s, since q = F' = sigmoid' / s. The ratio
    is (w - mu) / s = log(u / (1 - u)).
    """
    logit = np.log(u / (1 - u))
    w = mu + s * logit
    f = 1 / (1 + np.exp(-(w - mu) / s))
    density = f * (1 - f) / s
    by_s = -f * (1 - f) * (w - mu) / s**2
    return float(logit), float(-by_s / density)


def correlation_of_twins(estimator: str, draws: int = 200_000, seed: int = 0) -> float:
    """Of the outputs of two equal examples x = (1, 2), sigma = (0.5, 0.3), mu = 0.

    One W gives both the same output: 1. Local reparameterisation draws outputs: 0. Flipout gives
    them one W with signs of their own: 0 as well, though their squares are correlated.
    """
    rng = np.random.default_rng(seed)
    x, sigma = np.array([1.0, 2.0]), np.array([0.5, 0.3])
    w = sigma * rng.standard_normal((draws, 2))
    if estimator == "one sample":
        outputs = np.stack([w @ x, w @ x])
    elif estimator == "local":
        outputs = np.sqrt(x**2 @ sigma**2) * rng.standard_normal((2, draws))
    elif estimator == "flipout":
        signs = rng.choice([-1.0, 1.0], (2, draws, 2))
        outputs = np.sum(x * signs * w, axis=2) * rng.choice([-1.0, 1.0], (2, draws))
    else:
        raise ValueError(f"estimator={estimator!r} must be 'one sample', 'local' or 'flipout'")
    return float(np.corrcoef(outputs)[0, 1])
