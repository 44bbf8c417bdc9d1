"""How likely many functions hold the data: asked together, in parts that fit into memory."""

from unittest import mock

import numpy as np
import pytest
import scipy.stats

from tfbdl.likelihoods import Categorical, Normal
from tfbdl.predictive import replicates

RNG = np.random.default_rng(0)
S, N, T, C = 7, 5, 4, 3


@pytest.mark.parametrize(("numbers", "calls"), [(2**20, 1), (2 * N, 4), (1, S)])
def test_parts_of_functions(numbers: int, calls: int) -> None:
    outputs = RNG.normal(size=(S, N, 1)).astype(np.float32)
    y = RNG.normal(size=(N, 1))
    likelihood = Normal(0.5)
    with (
        mock.patch.object(replicates, "_NUMBERS", numbers),
        mock.patch.object(likelihood, "log_prob", wraps=likelihood.log_prob) as log_prob,
    ):
        logs = replicates.log_likelihoods(outputs, likelihood, y)
    assert log_prob.call_count == calls
    np.testing.assert_allclose(logs, scipy.stats.norm(outputs, 0.5).logpdf(y)[..., 0], 1e-5)


def test_each_function_has_the_mask() -> None:
    outputs = RNG.normal(size=(S, N, T, C)).astype(np.float32)
    y, mask = RNG.integers(0, C, (N, T)), RNG.random((N, T)) < 0.5
    likelihood = Categorical()
    with mock.patch.object(replicates, "_NUMBERS", 3 * N * T * C):
        logs = replicates.log_likelihoods(outputs, likelihood, y, mask)
    one_by_one = [replicates.log_likelihoods(f[np.newaxis], likelihood, y, mask) for f in outputs]
    np.testing.assert_allclose(logs, np.concatenate(one_by_one), 1e-6)
    all_count = replicates.log_likelihoods(outputs, likelihood, y)
    assert (logs[:, ~mask.all(axis=1)] > all_count[:, ~mask.all(axis=1)]).all()
