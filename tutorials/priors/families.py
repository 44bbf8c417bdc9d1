"""The priors of single weights that the lecture holds against each other, scaled for wide layers.

A unit adds up H inputs. Priors of finite variance have the variance 1 / H here, so that the sum
keeps its size and tends to one and the same normal law whichever they are. The Cauchy prior and the
horseshoe fall off as 1 / w^2; they have no variance, and it takes a scale of 1 / H to keep the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tfbdl.priors import Bernoulli, Horseshoe, Laplace, Normal, Prior, ScaleMixture, StudentT

WIDE = (0.25 + 0.75 * math.exp(-6.0)) ** -0.5
"""sigma_1 of a mixture of variance 1 with pi = 1/4 and sigma_2 = sigma_1 / e^3."""

FINITE: dict[str, Callable[[int], Prior]] = {
    "normal": lambda h: Normal(h**-0.5),
    "scale mixture": lambda h: ScaleMixture(0.25, WIDE * h**-0.5, WIDE * math.exp(-3) * h**-0.5),
    "Laplace": lambda h: Laplace((2 * h) ** -0.5),
    "Student t, df = 3": lambda h: StudentT(3.0, (3 * h) ** -0.5),
}
HEAVY: dict[str, Callable[[int], Prior]] = {
    "Cauchy": lambda h: StudentT(1.0, 1 / h),
    "horseshoe": lambda h: Horseshoe(1 / h),
}
DISCRETE: dict[str, Callable[[int], Prior]] = {
    "binary": lambda h: Bernoulli(0.5, (-(h**-0.5), h**-0.5)),
}
FAMILIES = FINITE | DISCRETE | HEAVY
