"""Gamma and Beta laws in extended precision, as in `exact`."""

from __future__ import annotations

from typing import Any

import numpy as np
from exact import PI, L, exact, expit, raw_scale, softplus


def rests(x: Any, log_x: Any = None) -> Any:
    """C(x), M(x) and P(x) of `tfbdl.likelihoods.stirling`, by their series above 40.

    Where x may underflow even here, log x is given.
    """
    lost = x < L("1e-4900")
    x = np.where(lost, 1, x)
    steps = np.maximum(np.ceil(40 - x), 0).astype(int)
    z = x + steps
    i = 1 / z
    c = i / 12 - i**3 / 360 + i**5 / 1260 - i**7 / 1680 + i**9 / 1188
    m = -L(0.5) - i / 12 + i**3 / 120 - i**5 / 252 + i**7 / 240 - i**9 / 132
    p = L(0.5) + i / 6 - i**3 / 30 + i**5 / 42 - i**7 / 30 + 5 * i**9 / 66
    for step in range(int(steps.max(initial=0)), 0, -1):
        more = step <= steps
        w = np.where(more, x + (step - 1), 1)  # from w + 1 to w
        log_ratio = np.log1p(1 / w)
        c = np.where(more, c + (w + L(0.5)) * log_ratio - 1, c)
        m = np.where(more, w / (w + 1) * m + w * log_ratio - 1, m)
        p = np.where(more, (w / (w + 1)) ** 2 * p + 1 / (w + 1), p)
    of_log = 0 if log_x is None else log_x
    return (
        np.where(lost, -(of_log + np.log(2 * PI)) / 2, c),
        np.where(lost, -1, m),
        np.where(lost, 1, p),
    )


class Gamma:
    """Law of log means h, and raw shapes or one shape; what the rounding of log y does is size."""

    def __init__(self, shape: Any) -> None:
        self.scale = shape

    def parts(self, outputs: Any) -> Any:
        h = outputs[:, 0]
        if self.scale == "predicted":
            a, back = raw_scale(outputs[:, 1])
            return h, a, [back]
        return h, L(self.scale) + 0 * h, []

    def log_prob(self, y: Any, outputs: Any) -> Any:
        (h, a, back), (c, m, _) = self.parts(outputs), rests(self.parts(outputs)[1])
        log_y = np.log(y)
        d = np.minimum(log_y - h, 11000)
        rest = a * np.where(np.abs(d) < 1e-4, d**2 / 2 + d**3 / 6 + d**4 / 24, np.expm1(d) - d)
        value = (np.log(a) - np.log(2 * PI)) / 2 - c - rest - log_y
        spread = a * np.abs(np.expm1(d)) * (np.abs(log_y) + np.abs(h) + np.abs(np.log(a)))
        size = np.abs(value) + rest + spread + c + np.abs(np.log(a)) + np.abs(log_y) + 1
        slopes = [a * np.expm1(d), *((-m - rest) * b for b in back)]
        of_mean = a * np.maximum(np.exp(d), 1) * (1 + np.abs(log_y) + np.abs(h) + np.abs(np.log(a)))
        of_mean = np.where(
            np.abs(d) < 1, np.abs(slopes[0]) + spread + a * (np.abs(log_y) + np.abs(h)), of_mean
        )
        return exact(value, *slopes, size=size, slope_size=[of_mean, *(size * b for b in back)])

    def mean(self, y: Any, outputs: Any) -> Any:
        h, _, back = self.parts(outputs)
        return exact(np.exp(h), np.exp(h), *(0 * b for b in back))

    def variance(self, y: Any, outputs: Any) -> Any:
        h, a, back = self.parts(outputs)
        value = np.exp(2 * h - np.log(a))
        size = value * (1 + 2 * np.abs(h) + np.abs(np.log(a)))
        return exact(
            value,
            *[2 * value, *(-value * b for b in back)],
            size=size,
            slope_size=[2 * size, *(size * b for b in back)],
        )

    def entropy(self, y: Any, outputs: Any) -> Any:
        (h, a, back), (c, m, p) = self.parts(outputs), rests(self.parts(outputs)[1])
        value = h + c + (np.log(2 * PI) - np.log(a)) / 2 + m / a - m
        size = np.abs(h) + c + np.abs(np.log(a)) + 1 / a + 1
        slopes = [1 + 0 * h, *((p / a - p) * b for b in back)]
        return exact(
            value, *slopes, size=size, slope_size=[1 + 0 * h, *((1 / a + 1) * b for b in back)]
        )


class Beta:
    """The law of logits h of the mean, and raw precisions."""

    scale = "predicted"

    def parts(outputs: Any) -> Any:
        """h; s and its slope; m and 1 - m; NaN where a share of a large s underflows in float32."""
        h, (s, back) = outputs[:, 0], raw_scale(outputs[:, 1])
        p, q = expit(h), expit(-h)
        lost = np.where((np.minimum(p, q) < 1e-37) & (s > 1e20), np.nan, 0)
        return h, s, back, p, q, lost

    def normaliser(outputs: Any) -> Any:
        h, s, *_ = Beta.parts(outputs)
        logs = np.log(s) - softplus(h) - softplus(-h)
        errors = [c for c, _, _ in Beta.rests(outputs)]
        value = (logs - np.log(2 * PI)) / 2 + errors[0] - errors[1] - errors[2]
        return value, np.abs(logs) + sum(np.abs(errors)) + np.abs(np.log(s)) + 1

    def rests(outputs: Any) -> Any:
        """The rests of s, a and b."""
        h, s, _, p, q, _ = Beta.parts(outputs)
        log_s = np.log(s)
        weighted = (s, log_s), (s * p, log_s - softplus(-h)), (s * q, log_s - softplus(h))
        return [rests(x, log_x) for x, log_x in weighted]

    def log_prob(y: Any, outputs: Any) -> Any:
        h, s, back, p, q, lost = Beta.parts(outputs)
        log_y, log_rest = np.log(y), np.log1p(-y)
        other = log_y - log_rest
        d = other - h
        t, to, at = np.where(h > 0, q, p), np.where(h > 0, -other, other), -np.abs(h)
        near, e = np.abs(d) < 1e-4, np.where(h > 0, -d, d)
        series = (
            t * (1 - t) * (e**2 / 2 + (1 - 2 * t) * e**3 / 6 + (1 - 6 * t * (1 - t)) * e**4 / 24)
        )
        distance = s * np.where(near, series, softplus(to) - softplus(at) - t * e)
        (_, m, _), (_, m_a, _), (_, m_b, _) = Beta.rests(outputs)
        norm, norm_size = Beta.normaliser(outputs)
        value = norm - distance - log_y - log_rest
        blur = (
            1 + np.abs(log_y) + np.abs(log_rest) + np.minimum(np.abs(h), np.abs(d) + np.abs(other))
        )
        spread = s * np.abs(expit(other) - p) * blur + 1e-9 * s * p * q * blur**2
        size = norm_size + distance + spread + np.abs(log_y) + np.abs(log_rest)
        size = np.where(size > 1e30, size, size + lost)
        slopes = [q * (s * p * d - m_a) + p * m_b, (m - m_a - m_b - distance) * back]
        of_h = s * p * q * (np.abs(d) + blur) + 2 + lost
        return exact(value, *slopes, size=size, slope_size=[of_h, (size + 3) * back])

    def mean(y: Any, outputs: Any) -> Any:
        _, _, back, p, q, _ = Beta.parts(outputs)
        return exact(p, p * q, 0 * back, slope_size=[p, 0 * back])

    def variance(y: Any, outputs: Any) -> Any:
        _, s, back, p, q, _ = Beta.parts(outputs)
        value = p * q / (1 + s)
        slopes = [value * (q - p), -value * s / (1 + s) * back]
        return exact(value, *slopes, slope_size=[value, slopes[1]])

    def entropy(y: Any, outputs: Any) -> Any:
        h, s, back, p, q, lost = Beta.parts(outputs)
        a, b = s * p, s * q
        (_, m, t), (_, m_a, t_a), (_, m_b, t_b) = Beta.rests(outputs)
        norm, size = Beta.normaliser(outputs)
        logs = softplus(h) + softplus(-h)
        value = m * (1 - 2 / s) + m_a * (1 / a - 1) + m_b * (1 / b - 1) - logs - norm
        e, e_a, e_b = t * (1 - 2 / s), t_a * (1 - 1 / a), t_b * (1 - 1 / b)
        slopes = [p * (e_b - 1) - q * (e_a - 1), (e - e_a - e_b) * back]
        large = 3 + 2 / s + 1 / a + 1 / b + lost
        sizes = [p * (3 + 1 / b) + q * (3 + 1 / a) + lost, large * back]
        return exact(value, *slopes, size=size + logs + large, slope_size=sizes)
