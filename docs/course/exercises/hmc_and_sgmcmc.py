"""Solutions to the exercises of "Hamiltonian and stochastic-gradient Monte Carlo"."""

from __future__ import annotations

import numpy as np


def leapfrog_growth(h: float) -> float:
    """The largest factor by which a leapfrog step multiplies (w, v) on U = w^2 / 2.

    The step has determinant 1 and trace 2 - h^2, so its eigenvalues lie on the unit circle as long
    as |2 - h^2| < 2: h < 2. In units of a direction's standard deviation s that is h < 2 s: the
    smallest, 0.01, sets h < 0.02, and the largest asks for a path of about pi / 2 times 1: at least
    80 steps.
    """
    half, whole = np.array([[1, 0], [-h / 2, 1]]), np.array([[1, h], [0, 1]])
    return float(np.abs(np.linalg.eigvals(half @ whole @ half)).max())


def variance_of_one_step(alpha: float, alpha_: float, steps: int = 3000, seed: int = 0) -> float:
    """Of w <- w + alpha_ (v + alpha grad log p(w)), v ~ N(0, 1) anew, on N(0, 1).

    Per step the drift is alpha alpha_ and the variance of the noise alpha_^2: the stationary
    variance is alpha_^2 / (1 - (1 - alpha alpha_)^2), for small steps alpha_ / (2 alpha). Equal
    steps sample at the temperature 1/2; alpha_ = 2 alpha would be right.
    """
    rng = np.random.default_rng(seed)
    w, squares = np.zeros(4000), []
    for step in range(steps):
        w = w + alpha_ * (rng.standard_normal(w.shape) - alpha * w)
        if step >= steps // 2:
            squares.append(np.mean(w**2))
    return float(np.mean(squares))


def equal_noise(num_data: int, batch_size: int, gradient_variance: float) -> float:
    """The learning rate at which lr^2 s^2 / B = 2 lr / N: 2 B / (N s^2).

    There the chain's variance is twice the posterior's: it samples at the temperature 2, at least
    where the gradients' noise is alike in all directions.
    """
    return 2 * batch_size / (num_data * gradient_variance)


def sgld_variance(
    rate: float, *, num_data: int, batch_size: int, noise: float, steps: int = 2000, seed: int = 0
) -> float:
    """Of SGLD's w, over that of the posterior, for y_n ~ N(w, noise^2) and no prior.

    U / N has the curvature a = 1 / noise^2; an example's gradient (w - y_n) / noise^2 the variance
    1 / noise^2. The posterior's variance is noise^2 / N.
    """
    rng = np.random.default_rng(seed)
    y = noise * rng.standard_normal(num_data)
    y -= y.mean()
    w, squares = np.zeros(400), []
    for step in range(steps):
        batch = rng.integers(num_data, size=(len(w), batch_size))
        gradient = (w - y[batch].mean(axis=1)) / noise**2
        w = w - rate * gradient + np.sqrt(2 * rate / num_data) * rng.standard_normal(w.shape)
        if step >= steps // 2:
            squares.append(np.mean(w**2))
    return float(np.mean(squares) / (noise**2 / num_data))
