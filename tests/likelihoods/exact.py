"""What likelihoods and their gradients are, in extended precision, wherever they are.

Each function takes targets and outputs as arrays of `numpy.longdouble` and gives an `Exact`. Where
the platform has no such type, it is float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.special
import scipy.stats

L = np.longdouble
PI = L("3.14159265358979323846264338327950288")
WEIGHTS = np.array([1.0, 2.0, -1.0])
"""Weights of the classes, where the gradient of a value for each class is taken of their sum."""


class Exact(NamedTuple):
    """A quantity at each of n outputs and its gradient.

    value: shape (n,), or (n, C) for each of C classes.
    slopes: by the outputs, shape (n, columns); infinite where it is.
    size, slope_size: the sizes of the terms of both, which may cancel.
    """

    value: np.ndarray
    slopes: np.ndarray
    size: np.ndarray
    slope_size: np.ndarray


def exact(value: Any, *slopes: Any, size: Any = None, slope_size: Any = None) -> Any:
    columns = np.stack(slopes, axis=-1)
    sizes = columns if slope_size is None else np.stack(slope_size, axis=-1)
    return Exact(value, columns, np.abs(value if size is None else size), np.abs(sizes))


def expit(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def xlog(x: Any, y: Any) -> Any:
    """X log y, and 0 at x = 0."""
    return np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))


def ratio(x: Any, y: Any) -> Any:
    """X / y, and 0 at x = 0."""
    return np.where(x == 0, 0, x / np.where(x == 0, 1, y))


class Logits:
    """Bernoulli of logits h."""

    @staticmethod
    def log_prob(y: Any, h: Any) -> Any:
        value = np.where(h >= 0, (y - 1) * h, y * h) - np.log1p(np.exp(-np.abs(h)))
        slope = np.where(h >= 0, (y - 1) + expit(-h), y - expit(h))
        return exact(value, slope, size=np.abs(h) * (y % 1 > 0) + value, slope_size=[1 + 0 * h])

    @staticmethod
    def mean(y: Any, h: Any) -> Any:
        return exact(expit(h), expit(h) * expit(-h), slope_size=[expit(h)])

    @staticmethod
    def variance(y: Any, h: Any) -> Any:
        p, q = expit(h), expit(-h)
        return exact(p * q, p * q * (q - p), slope_size=[p * q])

    @staticmethod
    def entropy(y: Any, h: Any) -> Any:
        p, q = expit(h), expit(-h)
        value = q * softplus(h) + p * softplus(-h)
        return exact(value, -h * p * q, slope_size=[(1 + np.abs(h)) * p * q])

    @staticmethod
    def cdf(y: Any, h: Any) -> Any:
        inside = (y >= 0) & (y < 1)
        slope = np.where(inside, -expit(h) * expit(-h), 0)
        return exact(np.where(inside, expit(-h), y >= 1), slope, slope_size=[expit(-h)])


class Probabilities:
    """Bernoulli of probabilities p."""

    @staticmethod
    def log_prob(y: Any, p: Any) -> Any:
        value = xlog(y, p) + np.where(y == 1, 0, (1 - y) * np.log1p(-np.where(y == 1, 0, p)))
        ups, downs = ratio(y, p), ratio(1 - y, 1 - p)
        return exact(value, ups - downs, slope_size=[ups + downs])

    @staticmethod
    def mean(y: Any, p: Any) -> Any:
        return exact(p, 1 + 0 * p)

    @staticmethod
    def variance(y: Any, p: Any) -> Any:
        return exact(p * (1 - p), 1 - 2 * p, slope_size=[1 + 0 * p])

    @staticmethod
    def entropy(y: Any, p: Any) -> Any:
        rest = np.where(p < 1, (1 - p) * np.log1p(-np.where(p < 1, p, 0)), 0)
        return exact(-xlog(p, p) - rest, np.log1p(-p) - np.log(p), slope_size=[np.log(p)])

    entropy_of_mean = entropy

    @staticmethod
    def cdf(y: Any, p: Any) -> Any:
        inside = (y >= 0) & (y < 1)
        return exact(np.where(inside, 1 - p, y >= 1), np.where(inside, -1.0, 0.0) + 0 * p)


class Classes:
    """Categorical of logits h, shape (n, C), and labels y, shape (n,)."""

    @staticmethod
    def log_p(h: Any) -> Any:
        spread = h - h.max(-1, keepdims=True)
        return spread - np.log(np.exp(spread).sum(-1, keepdims=True))

    @staticmethod
    def log_prob(y: Any, h: Any) -> Any:
        log_p, hit = Classes.log_p(h), y[:, None] == np.arange(h.shape[-1])
        sizes = np.abs(h).max(-1)
        return Exact((hit * log_p).sum(-1), hit - np.exp(log_p), sizes, np.ones(h.shape))

    @staticmethod
    def weighted(h: Any, values: Any, slopes: Any) -> Any:
        """For slopes by p of the weighted sum of values."""
        p = np.exp(Classes.log_p(h))
        back = p * (slopes - (p * slopes).sum(-1, keepdims=True))
        return Exact(values, back, np.ones(h.shape), np.ones(h.shape))

    @staticmethod
    def mean(y: Any, h: Any) -> Any:
        return Classes.weighted(h, np.exp(Classes.log_p(h)), WEIGHTS + 0 * h)

    @staticmethod
    def variance(y: Any, h: Any) -> Any:
        p = np.exp(Classes.log_p(h))
        return Classes.weighted(h, p * (1 - p), WEIGHTS * (1 - 2 * p))

    @staticmethod
    def entropy(y: Any, h: Any) -> Any:
        log_p = np.maximum(Classes.log_p(h), -20000)
        entropy = -(np.exp(log_p) * log_p).sum(-1)
        back = -np.exp(log_p) * (log_p + entropy[:, None])
        return Exact(entropy, back, np.ones(len(h)), np.ones(h.shape))

    @staticmethod
    def cdf(y: Any, h: Any) -> Any:
        below = np.arange(h.shape[-1]) <= y[:, None]
        p = np.exp(Classes.log_p(h))
        back = p * (below - (p * below).sum(-1, keepdims=True))
        return Exact((p * below).sum(-1), back, np.ones(len(h)), np.ones(h.shape))


class Means:
    """The entropy of class probabilities p, shape (n, C), as they are."""

    @staticmethod
    def entropy_of_mean(y: Any, p: Any) -> Any:
        slopes = -np.log(p) - 1
        return Exact(-xlog(p, p).sum(-1), slopes, np.ones(len(p)), 2 + np.abs(np.log(p)))


class Rows:
    """Categorical of rows of probabilities p, shape (n, C), which are divided by their sums."""

    @staticmethod
    def log_prob(y: Any, p: Any) -> Any:
        hit = y[:, None] == np.arange(p.shape[-1])
        total = p.sum(-1, keepdims=True)
        of_label = (hit * p).sum(-1)
        slopes = hit / np.where(hit, p, 1) - 1 / total
        sizes = hit / np.where(hit, p, 1) + 1 / total
        return Exact(np.log(of_label) - np.log(total[:, 0]), slopes, 1 + 0 * of_label, sizes)

    @staticmethod
    def weighted(p: Any, values: Any, slopes: Any) -> Any:
        """For slopes by p over its sum of the weighted sum of values."""
        total = p.sum(-1, keepdims=True)
        back = (slopes - (p / total * slopes).sum(-1, keepdims=True)) / total
        return Exact(values, back, np.ones(p.shape), np.ones(p.shape))

    @staticmethod
    def mean(y: Any, p: Any) -> Any:
        return Rows.weighted(p, p / p.sum(-1, keepdims=True), WEIGHTS + 0 * p)

    @staticmethod
    def variance(y: Any, p: Any) -> Any:
        q = p / p.sum(-1, keepdims=True)
        return Rows.weighted(p, q * (1 - q), WEIGHTS * (1 - 2 * q))

    @staticmethod
    def entropy(y: Any, p: Any) -> Any:
        q = p / p.sum(-1, keepdims=True)
        actual = Rows.weighted(p, -xlog(q, q).sum(-1), -np.log(q))
        return actual._replace(size=np.ones(len(p)), slope_size=1 + np.abs(np.log(q)))

    @staticmethod
    def cdf(y: Any, p: Any) -> Any:
        below = np.arange(p.shape[-1]) <= y[:, None]
        q = p / p.sum(-1, keepdims=True)
        actual = Rows.weighted(p, (q * below).sum(-1), below + 0 * p)
        return actual._replace(size=np.ones(len(p)))


def bernoulli_numbers(derivative: Any, h: Any) -> Any:
    """Sum over k >= 1 of B_2k h^2k / (2k (2k)!), or a derivative of it."""
    numbers = scipy.special.bernoulli(30).astype(L)
    numbers[2], numbers[4], numbers[6] = 1 / L(6), -1 / L(30), 1 / L(42)
    numbers[8], numbers[10], numbers[12] = -1 / L(30), 5 / L(66), -691 / L(2730)
    total = np.zeros_like(h)
    for n in range(2, 31, 2):
        factor = numbers[n] / (n * L(scipy.special.factorial(n, exact=True)))
        for power in range(n, n - derivative, -1):
            factor = factor * power
        if n >= derivative:
            total = total + factor * h ** (n - derivative)
    return total


class Grey:
    """Continuous Bernoulli of logits h."""

    @staticmethod
    def parts(h: Any) -> Any:
        """log of the normaliser, mean, variance, its slope; each less what is above h > 0."""
        small = np.abs(h) < 1
        s, m = np.where(small, h, 0), np.where(small, 1, np.abs(h))
        e = np.exp(-m)
        log_c = np.log(-np.expm1(-m)) - np.log(m)
        lower = 1 / m - e / -np.expm1(-m)
        variance = 1 / m**2 - e / np.expm1(-m) ** 2
        slope = -2 / m**3 + e * (1 + e) / (-np.expm1(-m)) ** 3
        sign = np.where(h > 0, 1, -1)
        return (
            small,
            np.where(small, s / 2 + bernoulli_numbers(0, s), log_c),
            np.where(small, 0.5 + bernoulli_numbers(1, s), lower),
            np.where(small, bernoulli_numbers(2, s), variance),
            np.where(small, bernoulli_numbers(3, s), sign * slope),
        )

    @staticmethod
    def log_prob(y: Any, h: Any) -> Any:
        small, log_c, lower, _, _ = Grey.parts(h)
        upper = ~small & (h > 0)
        value = np.where(upper, (y - 1) * h, y * h) - log_c
        slope = np.where(upper, (y - 1) + lower, y - lower)
        return exact(
            value,
            slope,
            size=np.abs(y * h) + np.abs(log_c) + np.maximum(h, 0),
            slope_size=[1 + 0 * h],
        )

    @staticmethod
    def mean(y: Any, h: Any) -> Any:
        small, _, lower, variance, _ = Grey.parts(h)
        return exact(np.where(~small & (h > 0), 1 - lower, lower), variance)

    @staticmethod
    def variance(y: Any, h: Any) -> Any:
        _, _, _, variance, slope = Grey.parts(h)
        return exact(variance, slope, slope_size=[variance])

    @staticmethod
    def entropy(y: Any, h: Any) -> Any:
        small, log_c, lower, variance, _ = Grey.parts(h)
        s, m = np.where(small, h, 0), np.abs(h)
        near = s / 2 + bernoulli_numbers(0, s) - s * (0.5 + bernoulli_numbers(1, s))
        value = np.where(small, near, log_c + m * lower)
        return exact(value, -h * variance, size=value + 1)

    @staticmethod
    def cdf(y: Any, h: Any) -> Any:
        y = np.clip(y, 0, 1)
        at = np.abs(h) < 1e-6
        m = np.where(at, 1, np.abs(h))
        x = np.where(h > 0, 1 - y, y)
        tail = np.expm1(-m * y) * np.exp(-m * x) / np.expm1(-m)
        lower = np.expm1(-m * x) / np.expm1(-m)
        first, second = y * (y - 1) / 2, y * (y - 1) * (2 * y - 1) / 12
        value = np.where(at, y + h * first + h**2 * second, np.where(h > 0, tail, lower))
        # d F / dh = integral of x p(x) up to y, less F times the mean
        mean = Grey.mean(y, h).value
        far = Grey.slope_of_cdf(y, h, value, mean, at)
        slope = np.where(at, first + 2 * h * second, far)
        return exact(value, slope, size=1 + 0 * h, slope_size=[1 + 0 * h])

    @staticmethod
    def slope_of_cdf(y: Any, h: Any, value: Any, mean: Any, at: Any) -> Any:
        h = np.where(at, 1, h)
        log_mass = np.log(-np.expm1(-np.abs(h))) - np.log(np.abs(h))
        density = np.exp(np.maximum(h * np.where(h > 0, y - 1, y) - log_mass, -20000))
        return (y * density - value) / h - value * mean


def raw_scale(raw: Any) -> Any:
    """The scale of a raw one, and the slope of its logarithm."""
    scale = softplus(raw) + L(1e-6)
    return scale, expit(raw) / scale


def log_of(x: Any) -> Any:
    return np.log(np.abs(x) + (x == 0))


class Located:
    """y = loc + scale t; columns are loc, and raw where the scale is predicted."""

    def __init__(self, scale: Any, law: Any = None) -> None:
        self.scale, self.law = scale, law

    def parts(self, y: Any, outputs: Any) -> Any:
        loc = outputs[:, 0]
        if self.scale == "predicted":
            scale, slope = raw_scale(outputs[:, 1])
            return (y - loc) / scale, scale, [slope]
        return (y - loc) / L(self.scale), L(self.scale) + 0 * loc, []

    def log_prob(self, y: Any, outputs: Any) -> Any:
        z, scale, back = self.parts(y, outputs)
        log_density, of_z, pull = self.density(z)
        slopes = [-of_z / scale, *((pull - 1) * b for b in back)]
        sizes = [-of_z / scale, *((pull + 1) * b for b in back)]
        size = np.abs(log_density) + np.abs(np.log(scale)) + 1
        return exact(log_density - np.log(scale), *slopes, size=size, slope_size=sizes)

    def mean(self, y: Any, outputs: Any) -> Any:
        back = self.parts(y, outputs)[2]
        return exact(outputs[:, 0], 1 + 0 * outputs[:, 0], *(0 * b for b in back))

    def variance(self, y: Any, outputs: Any) -> Any:
        _, scale, back = self.parts(y, outputs)
        variance = scale**2 * self.unit_variance
        return exact(variance, 0 * scale, *(2 * variance * b for b in back))

    def entropy(self, y: Any, outputs: Any) -> Any:
        _, scale, back = self.parts(y, outputs)
        value = np.log(scale) + self.unit_entropy
        return exact(value, 0 * scale, *back, size=np.abs(np.log(scale)) + 1)

    def cdf(self, y: Any, outputs: Any) -> Any:
        z, scale, back = self.parts(y, outputs)
        value = self.unit_cdf(z.astype(np.float64))
        density = np.exp(np.maximum(self.density(z)[0], -20000))
        slopes = [-density / scale, *(-density * z * b for b in back)]
        sizes = [
            np.abs(s) + 1e-40 for s in slopes
        ]  # that of the tails is given up where it is less
        return exact(value, *slopes, size=1 + 0 * z, slope_size=sizes)


class Normal(Located):
    unit_variance = 1
    unit_entropy = (1 + np.log(2 * PI)) / 2
    unit_cdf = staticmethod(scipy.special.ndtr)

    def density(self, z: Any) -> Any:
        """Its logarithm, the slope of that, and minus z times it."""
        return -(z**2) / 2 - np.log(2 * PI) / 2, -z, z**2


class StudentT(Located):
    def __init__(self, scale: Any, df: Any) -> None:
        super().__init__(scale)
        self.df = L(df)
        self.unit_variance = self.df / (self.df - 2)
        self.unit_entropy = scipy.stats.t(float(df)).entropy()

    def density(self, z: Any) -> Any:
        df = self.df
        norm = scipy.special.betaln(0.5, float(df) / 2) + np.log(df) / 2
        return (
            -(df + 1) / 2 * np.log1p(z**2 / df) - norm,
            -(df + 1) * z / (df + z**2),
            (df + 1) * (z**2 / (df + z**2)),
        )

    def unit_cdf(self, z: Any) -> Any:
        return scipy.special.stdtr(float(self.df), z)


class LogNormal(Normal):
    """log y = loc + scale t; what the rounding of log y does to t counts as size."""

    def spread(self, y: Any, outputs: Any) -> Any:
        z, scale, _ = self.parts(np.log(y), outputs)
        return z, np.abs(np.log(y)) / scale

    def log_prob(self, y: Any, outputs: Any) -> Any:
        of_log_y = super().log_prob(np.log(y), outputs)
        z, spread = self.spread(y, outputs)
        slope_size = of_log_y.slope_size.copy()
        slope_size[:, 0] += spread / self.parts(y, outputs)[1]
        if self.scale == "predicted":
            slope_size[:, 1] += np.abs(z) * spread * np.abs(self.parts(y, outputs)[2][0])
        size = of_log_y.size + np.abs(z) * spread + np.abs(np.log(y))
        return Exact(of_log_y.value - np.log(y), of_log_y.slopes, size, slope_size)

    def mean(self, y: Any, outputs: Any) -> Any:
        _, scale, back = self.parts(y, outputs)
        value = np.exp(outputs[:, 0] + scale**2 / 2)
        size = value * (1 + np.abs(outputs[:, 0]) + scale**2)
        slopes = [value, *(value * scale**2 * b for b in back)]
        sizes = [size, *(size * scale**2 * b for b in back)]
        return exact(value, *slopes, size=size, slope_size=sizes)

    def variance(self, y: Any, outputs: Any) -> Any:
        _, scale, back = self.parts(y, outputs)
        square = scale**2
        log_less = np.log(-np.expm1(-square))
        value = np.exp(2 * (outputs[:, 0] + square) + log_less)
        size = value * (1 + 2 * np.abs(outputs[:, 0]) + 2 * square + np.abs(log_less))
        pull = 2 * square - 2 * square / np.expm1(-square)
        slopes = [2 * value, *(value * pull * b for b in back)]
        sizes = [2 * size, *(size * pull * b for b in back)]
        return exact(value, *slopes, size=size, slope_size=sizes)

    def entropy(self, y: Any, outputs: Any) -> Any:
        of_log_y, loc = super().entropy(y, outputs), outputs[:, 0]
        slopes = of_log_y.slopes + np.eye(outputs.shape[1])[0]
        return Exact(of_log_y.value + loc, slopes, of_log_y.size + np.abs(loc), np.abs(slopes))

    def cdf(self, y: Any, outputs: Any) -> Any:
        of_log_y = super().cdf(np.log(y), outputs)
        z, spread = self.spread(y, outputs)
        size = 1 + spread * np.exp(np.maximum(self.density(z)[0], -20000))
        slope_size = of_log_y.slope_size * (1 + np.abs(z) * spread)[:, None]
        if self.scale == "predicted":
            slope_size[:, 1] += np.abs(of_log_y.slopes[:, 1] / z) * spread
        return Exact(of_log_y.value, of_log_y.slopes, size, slope_size)


class Counts:
    """Poisson of log rates h."""

    @staticmethod
    def log_prob(y: Any, h: Any) -> Any:
        rate = np.exp(h)
        norm = scipy.special.gammaln(y.astype(np.float64) + 1).astype(L)
        value = np.where(y == 0, 0, y * h) - rate - norm
        near = np.abs(y - rate) + np.abs(np.where(y == 0, 0, h)) + 1
        float64 = 1e-3 * (np.abs(y * h) + rate + norm) * np.finfo(np.float64).eps / 1e-12
        return exact(value, y - rate, size=np.abs(value) + near + float64, slope_size=[y + rate])

    @staticmethod
    def mean(y: Any, h: Any) -> Any:
        return exact(np.exp(h), np.exp(h))

    variance = mean

    @staticmethod
    def entropy(y: Any, h: Any) -> Any:
        """The sum over the counts within 50 standard deviations, or 19 powers of 1 / rate."""
        of_each = [Counts.entropy_of(float(v)) for v in h]
        value, slope = np.array(of_each, L).T
        return exact(value, slope, size=value)

    @staticmethod
    def entropy_of(h: Any) -> Any:
        rate = np.exp(L(h))
        if h > 9.0:
            i = 1 / rate
            value = (1 + np.log(2 * PI) + h) / 2 - i / 12 - i**2 / 24 - 19 * i**3 / 360
            return value - 9 * i**4 / 80, 0.5 + i / 12 + i**2 / 12
        if h < -700:
            return L(0), L(0)
        k = np.arange(int(rate + 50 * np.sqrt(rate) + 80), dtype=L)
        log_factorial = np.concatenate([[L(0)], np.cumsum(np.log(k[1:]))])
        log_p = k * h - rate - log_factorial
        p = np.exp(log_p)
        return -np.sum(p * log_p), rate * (np.sum(p * np.log(k + 1)) - h)

    @staticmethod
    def cdf(y: Any, h: Any) -> Any:
        k = np.floor(np.maximum(y, 0))
        rate = np.minimum(np.exp(h), 1e300)
        value = np.where(
            y < 0, 0, scipy.special.pdtr(k.astype(np.float64), rate.astype(np.float64))
        )
        log_p = Counts.log_prob(k, h).value
        slope = np.where(y < 0, 0, -np.exp(np.maximum(log_p + h, -20000)))
        return exact(value, slope, size=1 + 0 * h)
