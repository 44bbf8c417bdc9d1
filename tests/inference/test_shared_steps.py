"""Chains on targets of one structure share their programs, and are what they are without."""

import functools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl.inference import HMC, MCMC, NUTS, LogPosterior
from tfbdl.inference.mcmc import shared_steps
from tfbdl.inference.mcmc.stepping import Stepper

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 1))
FEW_STEPS = {"num_warmup": 6, "num_samples": 4, "num_chains": 2, "jit_compile": False}
KERNEL = HMC(max_leapfrog_steps=3)
NORMAL = tfbdl.likelihoods.Normal(0.5)


def network(activation: str = "tanh", *more: Any) -> Any:
    keras.utils.set_random_seed(3)
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((2,)), dense(3, activation), *more, dense(1)])


def draws(model: Any, x: Any = X, y: Any = Y, **given: Any) -> Any:
    settings = {"prior": 1.0, "likelihood": NORMAL, "kernel": KERNEL, **FEW_STEPS, **given}
    data = {"sample_weight": settings.pop("sample_weight", None)}
    return MCMC(model, **settings).fit(x, y, verbose=0, **data).theta


@pytest.fixture
def traces(monkeypatch: Any) -> Iterator[list[str]]:
    """The steps that have been traced since the last look."""
    counted: list[str] = []

    def count(name: str) -> None:
        original = getattr(Stepper, name)

        def traced(self: Any, *args: Any) -> Any:
            counted.append(name)
            return original(self, *args)

        monkeypatch.setattr(Stepper, name, traced)

    count("run")
    count("start")
    shared_steps._made.clear()
    yield counted
    shared_steps._made.clear()


def alone(*args: Any, **given: Any) -> Any:
    """Draws by programs of their own."""
    kept = shared_steps._made.copy()
    shared_steps._made.clear()
    drawn = draws(*args, **given)
    shared_steps._made.clear()
    shared_steps._made.update(kept)
    return drawn


def test_targets_of_one_structure_compile_once(traces: list[str]) -> None:
    """Other data, weights, seeds, starts, and a network made anew; each with its own draws."""
    first = draws(network())
    assert sorted(set(traces)) == ["run", "start"]
    others: list[tuple[Any, dict[str, Any]]] = [
        ((network(),), {}),
        ((network(), -X, Y + 1.0), {}),
        ((network(), X, Y), {"seed": 1, "initial": "model", "jitter": 0.1}),
    ]
    traces.clear()
    shared = [draws(*args, **given) for args, given in others]
    assert not traces
    np.testing.assert_array_equal(shared[0], first)
    for (args, given), drawn in zip(others, shared, strict=True):
        np.testing.assert_allclose(drawn, alone(*args, **given), rtol=1e-5, atol=1e-6)
    assert not np.allclose(shared[1], first)


@pytest.mark.parametrize(
    "given",
    [
        {"prior": 2.0},
        {"prior": tfbdl.priors.StudentT(5.0)},
        {"likelihood": tfbdl.likelihoods.Normal(0.4)},
        {"likelihood": tfbdl.likelihoods.StudentT(4.0)},
        {"kernel": HMC(max_leapfrog_steps=2)},
        {"kernel": NUTS(max_tree_depth=2)},
        {"num_warmup": 7},
        {"num_chains": 3},
        {"dtype": "float64"},
        {"sample_weight": np.linspace(0.5, 1.5, 12)},
    ],
)
def test_what_differs_is_not_shared(given: dict[str, Any], traces: list[str]) -> None:
    draws(network())
    traces.clear()
    drawn = draws(network(), **given)
    assert traces
    np.testing.assert_allclose(drawn, alone(network(), **given), rtol=1e-5, atol=1e-6)
    traces.clear()
    draws(network(), **given)
    assert not traces


def test_a_layer_that_changes(traces: list[str]) -> None:
    """The model stays the same, and its first program is of the layer as it was."""
    model = network()
    before = draws(model)
    model.layers[0].activation = keras.activations.relu
    after = draws(model)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, alone(network("relu")), rtol=1e-5, atol=1e-6)
    traces.clear()
    np.testing.assert_array_equal(draws(network()), before)
    np.testing.assert_array_equal(draws(network("relu")), after)
    assert not traces


def test_statistics_are_those_of_each_model(traces: list[str]) -> None:
    one, two = (network("tanh", keras.layers.BatchNormalization()) for _ in range(2))
    two.layers[1].moving_mean.assign([0.5, -1.0, 2.0])
    draws(one)
    traces.clear()
    drawn = draws(two)
    assert not traces
    np.testing.assert_allclose(drawn, alone(two), rtol=1e-5, atol=1e-6)


def test_layers_that_may_hold_more_are_not_shared(traces: list[str]) -> None:
    """Normalization keeps what it has adapted to beside its variables; functions see anything.

    An activation of the user's may have the name of one of Keras.
    """
    for kind in ("normalization", "function", "activation", "density"):
        both = []
        for shift in (0.0, 3.0):
            if kind == "normalization":
                layer = keras.layers.Normalization(mean=shift, variance=1.0)
            elif kind == "activation":

                def relu(h: Any, shift: float = shift) -> Any:
                    return h + shift

                layer = keras.layers.Activation(relu)
            else:
                layer = keras.layers.Lambda(lambda h, shift=shift: h + shift)
            traces.clear()
            if kind == "density":
                prior = functools.partial(_quadratic, shift=shift)
                target = LogPosterior(network(), prior, X, Y, likelihood=NORMAL)
                mcmc = MCMC(target, kernel=KERNEL, initial=np.zeros(13), **FEW_STEPS)
                both.append(mcmc.fit(verbose=0).theta)
            else:
                both.append(draws(network("tanh", layer)))
            assert traces
        assert not np.allclose(*both)


def _quadratic(theta: Any, shift: float) -> Any:
    return -0.5 * keras.ops.sum((theta - shift) ** 2)


def test_the_programs_of_the_latest_use_are_kept(traces: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(shared_steps, "KEPT", 2)
    for prior in (1.0, 2.0, 1.0, 3.0):
        draws(network(), prior=prior)
    traces.clear()
    draws(network(), prior=1.0)
    assert not traces
    draws(network(), prior=2.0)
    assert traces
