"""Solutions to the exercises of "Laplace in four steps"."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln

COUNTS = np.array([2, 0, 3])


def poisson_evidence() -> dict[str, float]:
    """Log p(y): exactly, and by Laplace in the rate and in its logarithm, in nats.

    log p(y, r) = sum y log r - (n + 1) r - sum log y!. In r the mode is sum y / (n + 1) = 5/4 and H
    = sum y / r^2 = 3.2. In v = log r the prior has the Jacobian r, so the mode is (sum y + 1) / (n
    + 1) = 3/2, and H = (n + 1) r = 6. Laplace is not invariant: a parabola in one is none in the
    other. The logarithm is nearer, as its density is less skewed.
    """
    total, n = COUNTS.sum(), len(COUNTS)
    constant = -gammaln(COUNTS + 1).sum()
    rate, tilted = total / (n + 1), (total + 1) / (n + 1)
    half = 0.5 * np.log(2 * np.pi)
    in_rate = total * np.log(rate) - (n + 1) * rate - 0.5 * np.log(total / rate**2)
    in_log = (total + 1) * np.log(tilted) - (n + 1) * tilted - 0.5 * np.log((n + 1) * tilted)
    return {
        "exact": float(gammaln(total + 1) - (total + 1) * np.log(n + 1) + constant),
        "rate": float(in_rate + half + constant),
        "logarithm": float(in_log + half + constant),
    }


def linear_regression(
    x: np.ndarray, y: np.ndarray, sigma: float, delta: float
) -> tuple[float, float]:
    """Log p(y | x), exactly and by Laplace, for weights N(0, 1 / delta) and noise N(0, sigma^2).

    The log joint is a parabola, so there is no error: second derivatives of a linear f are 0, the
    Hessian is the Gauss-Newton matrix x^T x / sigma^2, and steps 2 and 3 are equalities.
    """
    n, d = x.shape
    covariance = x @ x.T / delta + sigma**2 * np.eye(n)
    sign, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    exact = -0.5 * (sign * log_det + y @ np.linalg.solve(covariance, y))
    h = x.T @ x / sigma**2 + delta * np.eye(d)
    mode = np.linalg.solve(h, x.T @ y) / sigma**2
    residual = y - x @ mode
    log_joint = -0.5 * (residual @ residual / sigma**2 + n * np.log(2 * np.pi * sigma**2))
    log_joint -= 0.5 * (delta * mode @ mode + d * np.log(2 * np.pi / delta))
    by_laplace = log_joint + d / 2 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(h)[1]
    return float(exact), float(by_laplace)


def probit_error(m: float, v: float) -> float:
    """E[sigmoid(f)], f ~ N(m, v), less sigmoid(m / sqrt(1 + pi v / 8))."""
    z = np.linspace(-10, 10, 4001)
    weight = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    exact = np.trapezoid(weight * expit(m + np.sqrt(v) * z), z)
    return float(exact - expit(m / np.sqrt(1 + np.pi * v / 8)))


def worst_probit() -> tuple[float, float, float]:
    """The largest error and the (m, v) of it: about 0.02 for wide f, |m| about one deviation."""
    grid = [(m, v) for m in np.linspace(0, 30, 61) for v in np.geomspace(0.1, 400, 37)]
    m, v = max(grid, key=lambda at: abs(probit_error(*at)))
    return abs(probit_error(m, v)), m, v
