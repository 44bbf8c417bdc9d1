"""Effective samples of functions, as the benchmark counts them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

import effective_samples  # noqa: E402
import with_tfbdl  # noqa: E402
import work  # noqa: E402
from test_benchmark_worker import started  # noqa: E402


@pytest.mark.parametrize("name", work.POSTERIORS)
def test_functions_are_the_network_s(name: str) -> None:
    sizes = work.POSTERIORS[name][0]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, sizes[0])).astype(np.float32)
    y = np.arange(4, dtype=np.int32) if name == "images" else x[:, :1]
    target = with_tfbdl.posterior(name, x, y)
    theta = rng.normal(size=(2, 3, target.size)).astype(np.float32)
    outputs = [[target.flat(one, x)[..., 0] for one in row] for row in theta]
    np.testing.assert_allclose(
        effective_samples.functions(name, theta, x), outputs, rtol=1e-4, atol=1e-4
    )


def test_chains_go_on_from_the_file_s_settings(tmp_path: Path) -> None:
    path = tmp_path / "curve_mclmc.npz"
    settings = {"step_size": np.full(2, 0.003, np.float32), "scale": np.ones((2, 1), np.float32)}
    theta = np.stack([work.start(46), -work.start(46)])
    x, y = work.curve()
    np.savez(path, name="curve", kernel="mclmc", length=1.0, x=x, y=y, theta=theta, **settings)
    run = with_tfbdl.chains(str(path))
    first, second = run()["samples"], run()["samples"]
    assert first.shape == (work.samples_a_round("mclmc"), 2, 46)
    steps = np.linalg.norm(np.diff(np.concatenate([first, second]), axis=0), axis=-1)
    assert (
        steps.max() <= 1.001 * work.THINNING["mclmc"] * 0.003 * 46**0.5
    )  # root-mean-square speed 1
    assert steps.min() > 0.0
    np.testing.assert_allclose(np.linalg.norm(first[0] - theta, axis=1), steps[0], rtol=0.5)


def test_a_worker_takes_a_file(tmp_path: Path) -> None:
    run = started(f"chains:{tmp_path / 'missing.npz'}", tmp_path)
    assert "missing.npz" in run.stderr
    assert not run.stdout


def test_errors_of_moments_are_those_that_chance_makes() -> None:
    """Independent normal draws of 2,000 samples at 400 inputs, and a bias that is put in."""
    rng = np.random.default_rng(0)
    exact = {"mean": np.full(400, 3.0), "stddev": np.full(400, 2.0), "effective": np.full(400, 1e9)}
    f = 3.0 + 2.0 * rng.normal(size=(2000, 400))
    row = {"mean": f.mean(0), "stddev": f.std(0), "effective": np.full(400, 2000.0)}
    for error, noise in effective_samples.bias(row, exact):
        assert abs(error / noise - 1.0) < 4.0 / np.sqrt(2 * 400)
    (mean, _), (stddev, _) = effective_samples.bias(
        {**row, "mean": row["mean"] + 0.2, "stddev": 1.1 * row["stddev"]}, exact
    )
    assert abs(mean - np.hypot(0.1, 2000**-0.5)) < 0.005
    assert abs(stddev - np.hypot(np.log(1.1), 4000**-0.5)) < 0.005


def test_reference_is_all_that_is_adjusted() -> None:
    rows = [
        {"mean": [1.0], "stddev": [1.0], "effective": [10.0]},
        {"mean": [3.0], "stddev": [1.0], "effective": [30.0]},
        {"mean": [100.0], "stddev": [9.0], "effective": [1e6]},
    ]
    keys = ("curve, nuts, tfbdl", "curve, mams, blackjax", "curve, mclmc, tfbdl")
    exact = effective_samples.reference(dict(zip(keys, rows, strict=True)))
    assert json.loads(json.dumps({k: v.tolist() for k, v in exact.items()})) == {
        "mean": [2.5],
        "stddev": [pytest.approx((1.0 + 0.75) ** 0.5)],
        "effective": [40.0],
    }
