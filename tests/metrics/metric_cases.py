"""Predictions that the tests of metrics share."""

from typing import Any

import numpy as np
import scipy.special
from hypothesis import settings
from hypothesis import strategies as st

QUICK = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def classification(num: int = 500, num_classes: int = 4, seed: int = 0) -> Any:
    """Labels, and overconfident probabilities of them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num, num_classes)) * 1.5
    cumulative = np.cumsum(scipy.special.softmax(logits / 2, axis=1), axis=1)
    y = (rng.random((num, 1)) > cumulative[:, :-1]).sum(axis=1)
    return y, scipy.special.softmax(logits, axis=1)


@st.composite
def few_classes(draw: Any) -> Any:
    """Labels and probabilities in eighths: with ties, zeros, ones, and values on edges of bins."""
    num, num_classes = draw(st.integers(1, 12)), draw(st.integers(2, 4))
    eighths = st.lists(st.integers(0, 8), min_size=num_classes - 1, max_size=num_classes - 1)
    rows = []
    for _ in range(num):
        cuts = sorted(draw(eighths))
        rows.append(np.diff([0, *cuts, 8]) / 8)
    y = draw(st.lists(st.integers(0, num_classes - 1), min_size=num, max_size=num))
    return np.array(y), np.array(rows)
