"""How far a metric would move with other test examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tfbdl import arguments
from tfbdl.arguments import function, number, positive_integer, shown
from tfbdl.examples import as_array
from tfbdl.metrics import classifier

_MOST = 100_000


def confidence_interval(
    metric: Callable[..., float],
    arrays: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Interval of a metric over test sets like this one: the percentile bootstrap (Efron 1979).

        low, high = confidence_interval(metrics.expected_calibration_error, (y, p))

    Examples are drawn with replacement, N each time, and the metric is taken of each set. It says
    what the choice of test examples does, and nothing about the training. A metric that noise makes
    larger, such as the calibration errors, is larger still on sets in which examples repeat.

    Args:
        metric: a function of the arrays, such as those of `tfbdl.metrics`.
        arrays: its arguments, each with N examples along the first axis.
        level: the probability of the interval, in (0, 1).
        num_resamples: number of sets, at most 100,000, which already give the ends to a hundredth
            of their distance.
        seed: integer of 64 bits.

    Returns:
        The lower and the upper end.

    Raises:
        ValueError: if an argument is out of its range, or the arrays differ in length.
    """
    wanted = "a function of the arrays, which gives a number"
    if isinstance(metric, type):
        raise ValueError(f"metric={shown(metric)} is a class; give {wanted}")
    function("metric", metric, wanted)
    level = number("level", level, lambda v: 0 < v < 1, "in (0, 1)")
    num_resamples = positive_integer("num_resamples", num_resamples, most=_MOST)
    generator = arguments.generator("seed", seed)
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise ValueError(f"arrays={shown(arrays)} must be a tuple of what the metric takes")
    examples = [
        as_array(f"arrays[{k}]", array, "numbers or strings", text=True)
        for k, array in enumerate(arrays)
    ]
    for k, array in enumerate(examples):
        if array.ndim == 0 or len(array) == 0:
            raise ValueError(f"arrays[{k}] has shape {array.shape}; give some examples")
        classifier.same_length(f"arrays[{k}]", array, "arrays[0]", examples[0])
    N = len(examples[0])
    values = []
    for _ in range(num_resamples):
        chosen = generator.integers(N, size=N)
        value = np.asarray(metric(*(array[chosen] for array in examples)))
        if value.ndim or value.dtype.kind not in "fiub":
            raise ValueError(f"metric gives {shown(value)}; give {wanted}")
        values.append(float(value))
    low, high = np.quantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return float(low), float(high)
