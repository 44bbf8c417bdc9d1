"""Every likelihood over the whole range of floats: values and gradients, finite and right."""

from typing import Any

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from exact import (
    WEIGHTS,
    Classes,
    Counts,
    Grey,
    Logits,
    LogNormal,
    Means,
    Normal,
    Probabilities,
    Rows,
    StudentT,
)
from exact_mixture import Mixture
from exact_negative_binomial import NegativeBinomial
from exact_of_shape import Beta, Gamma
from hypothesis import given, settings
from hypothesis import strategies as st

from tfbdl import likelihoods

QUANTITIES = ("log_prob", "mean", "variance", "entropy", "cdf")
TYPES = {"float16": (16, 4e-3), "float32": (32, 2e-5), "float64": (64, 1e-10)}
NOTHING = {"float16": 2e-7, "float32": 1e-24, "float64": 1e-290}
ROWS = 8
SETTINGS = settings(max_examples=20, deadline=None, derandomize=True)


def numbers(width: int, low: Any = None, high: Any = None) -> Any:
    """All floats of a width, those that networks give more often, and those where formulas end."""
    info = np.finfo(f"float{width}")
    ends = [0.0, -0.0, 1.0, -1.0, info.max, info.tiny, info.smallest_subnormal, info.eps]
    ends += [30.0, 88.0, 89.0, 104.0, 709.0, 746.0, 1e-6, 1e4, 0.1, float(np.float16(0.999))]
    ends += [-x for x in ends] + [1 - float(info.epsneg)]
    low, high = -info.max if low is None else low, info.max if high is None else high
    ends = [float(np.asarray(x, info.dtype)) for x in ends if low <= x <= high]
    middle = (max(low, -120.0), min(high, 120.0))
    return st.one_of(
        st.sampled_from(ends),
        st.floats(*middle, width=width),
        st.floats(float(low), float(high), width=width, allow_nan=False, allow_infinity=False),
    )


def table(*columns: Any) -> Any:
    """Eight rows of what the strategies give, as arrays."""
    rows = st.lists(st.tuples(*columns), min_size=ROWS, max_size=ROWS)
    return rows.map(lambda rows: np.array(rows, np.float64))


def located(columns: Any) -> Any:
    """Targets and outputs of a location-scale law; some targets are the location itself."""

    def draw(width: int) -> Any:
        parts = table(numbers(width), st.booleans(), *[numbers(width)] * columns)
        return parts.map(lambda t: (np.where(t[:, 1] > 0, t[:, 2], t[:, 0]), t[:, 2:]))

    return draw


def log_located(columns: Any) -> Any:
    """Positive targets, some of them the median, and outputs of a law of log y."""

    def draw(width: int) -> Any:
        tiny, largest = np.finfo(f"float{width}").tiny, np.finfo(f"float{width}").max
        positive = numbers(width, tiny, largest)
        parts = table(positive, st.booleans(), *[numbers(width)] * columns)

        def near(t: Any) -> Any:
            with np.errstate(all="ignore"):
                medians = np.clip(np.exp(t[:, 2]), float(tiny), float(largest))
            return np.where(t[:, 1] > 0, medians, t[:, 0]), t[:, 2:]

        return parts.map(near)

    return draw


def of_mixture(width: int) -> Any:
    """Three components; some targets are one of their means, some logits are moderate."""
    parts = table(numbers(width), st.integers(0, 5), *[numbers(width)] * 9)

    def near(t: Any) -> Any:
        which, outputs = t[:, 1].astype(int), t[:, 2:]
        means = outputs[np.arange(len(t)), 3 + which % 3]
        outputs[which > 2, :3] = np.clip(outputs[which > 2, :3], -9, 9)
        return np.where(which % 2 > 0, means, t[:, 0]), outputs

    return parts.map(near)


def share(width: int) -> Any:
    """Targets between 0 and 1, some of them near the mean, and that moderate."""
    info = np.finfo(f"float{width}")
    inside = numbers(width, info.tiny, 1.0 - info.epsneg)
    close, logits = st.floats(-1.0, 1.0, width=width), st.floats(-9.0, 9.0, width=width)
    parts = table(inside, st.integers(0, 3), close, logits, *[numbers(width)] * 2)

    def near(t: Any) -> Any:
        which = t[:, 1]
        t[:, 4] = np.where(which > 1, t[:, 3], t[:, 4])
        nearby = scipy.special.expit(t[:, 4] + np.where(which > 2, t[:, 2] ** 5, 0))
        nearby = np.clip(nearby, info.tiny, 1.0 - info.epsneg)
        return np.where(which > 0, nearby, t[:, 0]), t[:, 4:]

    return parts.map(near)


def of_logits(targets: Any) -> Any:
    return lambda width: table(targets(width), numbers(width)).map(lambda t: (t[:, 0], t[:, 1:]))


def of_probabilities(width: int) -> Any:
    columns = st.sampled_from([0.0, 1.0, 0.25]), numbers(width, 0.0, 1.0)
    return table(*columns).map(lambda t: (t[:, 0], t[:, 1:]))


def of_classes(width: int) -> Any:
    columns = st.integers(0, 2), *[numbers(width)] * 3
    return table(*columns).map(lambda t: (t[:, 0], t[:, 1:]))


def of_rows(width: int) -> Any:
    def rows(t: Any) -> Any:
        with np.errstate(all="ignore"):
            return t[0], scipy.special.softmax(np.clip(t[1], -1e6, 1e6), axis=-1)

    return of_classes(width).map(rows)


def zero_or_one(width: int) -> Any:
    return st.sampled_from([0.0, 1.0])


def grey(width: int) -> Any:
    return numbers(width, 0.0, 1.0)


def count(width: int) -> Any:
    return st.one_of(st.integers(0, 40), st.integers(0, 10**8))


def dispersed(width: int) -> Any:
    """Counts, some of them near a moderate mean."""
    close, log_means = st.floats(-1.0, 1.0, width=width), st.floats(-3.0, 10.0, width=width)
    parts = table(count(width), st.booleans(), close, log_means, *[numbers(width)] * 2)

    def near(t: Any) -> Any:
        chosen, means = t[:, 1] > 0, np.exp(t[:, 3])
        t[:, 4] = np.where(chosen, t[:, 3], t[:, 4])
        nearby = np.round(means + t[:, 2] * np.sqrt(means))
        return np.where(chosen, np.maximum(nearby, 0), t[:, 0]), t[:, 4:]

    return parts.map(near)


CASES = {
    "bernoulli": (likelihoods.Bernoulli(), Logits, of_logits(zero_or_one)),
    "grey bernoulli": (likelihoods.Bernoulli(), Logits, of_logits(grey)),
    "bernoulli of probabilities": (
        likelihoods.Bernoulli(from_logits=False),
        Probabilities,
        of_probabilities,
    ),
    "categorical": (likelihoods.Categorical(), Classes, of_classes),
    "categorical of probabilities": (likelihoods.Categorical(from_logits=False), Rows, of_rows),
    "continuous bernoulli": (likelihoods.ContinuousBernoulli(), Grey, of_logits(grey)),
    "normal": (likelihoods.Normal(0.3), Normal(0.3), located(1)),
    "normal of large scale": (likelihoods.Normal(1e4), Normal(1e4), located(1)),
    "normal predicted": (likelihoods.Normal("predicted"), Normal("predicted"), located(2)),
    "student": (likelihoods.StudentT(2.5, 0.7), StudentT(0.7, 2.5), located(1)),
    "student predicted": (
        likelihoods.StudentT(4.0, "predicted"),
        StudentT("predicted", 4.0),
        located(2),
    ),
    "log normal": (likelihoods.LogNormal(0.3), LogNormal(0.3), log_located(1)),
    "log normal of large scale": (likelihoods.LogNormal(20.0), LogNormal(20), log_located(1)),
    "log normal predicted": (
        likelihoods.LogNormal("predicted"),
        LogNormal("predicted"),
        log_located(2),
    ),
    "normal mixture": (likelihoods.NormalMixture(3), Mixture(3), of_mixture),
    "beta": (likelihoods.Beta(), Beta, share),
    "gamma": (likelihoods.Gamma(), Gamma("predicted"), log_located(2)),
    "gamma of one shape": (likelihoods.Gamma(0.3), Gamma(0.3), log_located(1)),
    "gamma of large shape": (likelihoods.Gamma(1e4), Gamma(1e4), log_located(1)),
    "poisson": (likelihoods.Poisson(), Counts, of_logits(count)),
    "negative binomial": (likelihoods.NegativeBinomial(), NegativeBinomial, dispersed),
    "mean of bernoulli": (likelihoods.Bernoulli(), Probabilities, of_probabilities),
    "mean of categorical": (likelihoods.Categorical(), Means, of_rows),
}


def asked(name: str) -> Any:
    if name.startswith("mean of"):
        return ["entropy_of_mean"]
    likelihood = CASES[name][0]
    missing = [] if likelihood._defines("distribution") else ["entropy", "cdf"]
    return [q for q in QUANTITIES if q not in missing or likelihood._defines(q)]


def computed(name: str, y: Any, outputs: Any) -> Any:
    """Each quantity and its gradient by the outputs; of all classes together, weighted."""
    likelihood = CASES[name][0]
    y = y if isinstance(likelihood, likelihoods.Categorical) else y[:, None]

    def value_and_slopes(quantity: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            targets = [y] if quantity in ("log_prob", "cdf") else []
            value = getattr(likelihood, quantity)(*targets, outputs)
            of_classes = value.shape.rank == 2 and value.shape[-1] == 3
            total = tf.reduce_sum(tf.cast(WEIGHTS, value.dtype) * value) if of_classes else value
        slopes = tape.gradient(total, outputs, unconnected_gradients="zero")
        return (value if of_classes else tf.reshape(value, [-1])), slopes

    return {quantity: value_and_slopes(quantity) for quantity in asked(name)}


def check(what: Any, got: Any, exact: Any, size: Any, dtype: Any) -> None:
    """Finite wherever the exact number fits into the type, and right where its size is known."""
    largest, got = np.finfo(dtype).max / 8, np.asarray(got).astype(np.longdouble)
    fits = np.isfinite(exact) & (np.abs(exact) < largest) & ~(size >= largest)
    assert np.isfinite(got[fits]).all(), (what, got[fits], exact[fits])
    size = np.maximum(np.abs(exact), size)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - exact)
    wrong = fits & (error > TYPES[dtype][1] * size + NOTHING[dtype])
    assert not wrong.any(), (what, got[wrong], exact[wrong], size[wrong])


def compare(name: str, dtype: Any, drawn: Any, call: Any) -> None:
    """Holds what is found for drawn targets and outputs against the exact numbers."""
    law, wide = CASES[name][1], "float32" if dtype == "float16" else dtype
    y, outputs = drawn[0].astype(wide), drawn[1].astype(dtype)
    tiny, largest = np.finfo(wide).tiny, np.finfo(wide).max / 8
    got = call(tf.constant(y), tf.constant(outputs))
    columns = outputs.astype(np.longdouble)
    y = np.where(np.abs(y) < tiny, 0, y).astype(np.longdouble)  # as processors have it
    if law is Beta or isinstance(law, Gamma):  # whose outputs a large shape multiplies
        columns = np.where(np.abs(columns) < tiny, 0, columns)
    if law in (Means, Probabilities, Rows):  # subnormal ones count as the smallest normal number
        columns = np.where((columns > 0) & (columns < tiny), np.nan, columns)
    if law in (Logits, Probabilities, Grey, Counts):
        columns = columns[:, 0]
    for quantity, (value, slopes) in got.items():
        assert slopes.dtype == dtype
        with np.errstate(all="ignore"):
            true = getattr(law, quantity)(y, columns)
        check(quantity, value, true.value, true.size, wide)
        slope_size = np.array(true.slope_size)
        if getattr(law, "scale", None) == "predicted":  # whose slope is subnormal below
            slope_size[columns[:, 1] < np.log(tiny), 1] = np.nan
        if true.size.ndim == 1:
            slope_size[true.size >= largest] = np.inf
        check(f"slope of {quantity}", slopes, true.slopes, slope_size, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name: str, dtype: Any) -> None:
    @SETTINGS
    @given(CASES[name][2](TYPES[dtype][0]))
    def holds(drawn: Any) -> None:
        compare(name, dtype, drawn, lambda y, x: computed(name, y, x))

    holds()


@pytest.mark.parametrize("name", CASES)
def test_under_xla(name: str) -> None:
    compiled = tf.function(lambda y, x: computed(name, y, x), jit_compile=True)

    @SETTINGS
    @given(CASES[name][2](32))
    def holds(drawn: Any) -> None:
        compare(name, "float32", drawn, compiled)

    holds()
