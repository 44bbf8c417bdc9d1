"""The negative binomial law by decimal arithmetic of as many digits as its terms cancel."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import numpy as np
from exact import Exact, L, exact, raw_scale

TERMS = 40


@cache
def bernoulli() -> list[Fraction]:
    """B_0 to B_(2 TERMS)."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * TERMS + 1):
        total = sum(comb(n + 1, k) * b for k, b in enumerate(numbers))
        numbers.append(-total / (n + 1))
    return numbers


def stirling(x: Decimal) -> tuple[Decimal, Decimal]:
    """log Gamma less a constant, and its derivative, by Stirling's series above 40."""
    log_product, harmonic = Decimal(0), Decimal(0)
    product = Decimal(1)
    while x < 40:
        product, harmonic, x = product * x, harmonic + 1 / x, x + 1
    log_product = product.ln()
    log_gamma, psi = (x - Decimal("0.5")) * x.ln() - x, x.ln() - 1 / (2 * x)
    for k in range(1, TERMS + 1):
        b = bernoulli()[2 * k]
        term = Decimal(b.numerator) / Decimal(b.denominator) / (2 * k) / x ** (2 * k)
        log_gamma, psi = log_gamma + term * x / (2 * k - 1), psi - term
        if abs(term) * x < Decimal(10) ** -decimal.getcontext().prec:
            break
    return log_gamma - log_product, psi - harmonic


def constant() -> Decimal:
    """log(2 pi) / 2, from Gamma(1) = 1."""
    return -stirling(Decimal(1))[0]


def of_one(y: float, log_mean: Any, r: Any) -> tuple[float, float, float]:
    """Log p and its slopes by log m and by r."""
    h, r = Decimal(repr(float(log_mean))), as_decimal(r)
    with decimal.localcontext() as context:
        context.prec = 60 + 2 * max(0, r.adjusted()) + (8 if h < 1e4 else 320)
        k = Decimal(int(y))
        log_r = r.ln()
        d = h - log_r
        if abs(d) < 5000:
            ratio = d.exp()
            log_sum = log_r + (1 + ratio).ln()
            t = (k * r - r * r * ratio) / (r + r * ratio)
        else:
            log_sum = max(h, log_r)
            t = -r if d > 0 else k
        (top, psi_top), (low, psi_low) = stirling(k + r), stirling(r)
        log_c = top - low - stirling(k + 1)[0] - constant()
        value = log_c + k * (h - log_sum) + r * (log_r - log_sum)
        slope = psi_top - psi_low + log_r - log_sum - t / r
        return L(str(value)), L(str(t)), L(str(slope))


def as_decimal(x: Any) -> Decimal:
    mantissa, exponent = np.frexp(x)
    return Decimal(int(mantissa * L(2) ** 64)) * Decimal(2) ** (int(exponent) - 64)


class NegativeBinomial:
    """The law of log means h and raw dispersions."""

    scale = "predicted"

    def log_prob(y: Any, outputs: Any) -> Exact:
        h = outputs[:, 0]
        r, back = raw_scale(outputs[:, 1])
        with decimal.localcontext() as context:
            context.prec, context.Emax, context.Emin = 1400, 10**17, -(10**17)
            of_each = [of_one(*row) for row in zip(y, h, r, strict=True)]
        value, t, by_r = np.array(of_each, L).T
        of_mean = np.abs(t) * (1 + np.abs(np.minimum(h, 1e4)))
        size = np.abs(value) + of_mean + 1
        near = np.exp(np.minimum(h, 11000)) * r / (r + np.exp(np.minimum(h, 11000)))
        sizes = [np.minimum(near, r) + np.abs(t), r * back * (np.abs(by_r) + of_mean / r + 1 / r)]
        return exact(value, t, by_r * r * back, size=size, slope_size=sizes)

    def mean(y: Any, outputs: Any) -> Exact:
        mean = np.exp(outputs[:, 0])
        return exact(mean, mean, 0 * mean)

    def variance(y: Any, outputs: Any) -> Exact:
        h, (r, back) = outputs[:, 0], raw_scale(outputs[:, 1])
        mean, more = np.exp(h), np.exp(2 * h) / r
        size = more * (1 + np.abs(h) + np.abs(np.log(r)))
        slopes = [mean + 2 * more, -more * back]
        return exact(
            mean + more, *slopes, size=mean + size, slope_size=[mean + size, size * np.abs(back)]
        )
