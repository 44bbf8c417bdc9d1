"""Laplace over many classes and positions: equal to J written out, and never as large."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import brute_force
import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from brute_force import randomised

import tfbdl
from tfbdl import graphs, likelihoods
from tfbdl.inference import Laplace
from tfbdl.inference.laplace import gathering, head_pass, jacobian, network_pass
from tfbdl.inference.laplace.covariance import OutputCovariances
from tfbdl.predictive import kept
from tfbdl.sources import Source

RNG = np.random.default_rng(3)
NUM, T, C = 5, 4, 3
X = RNG.normal(size=(NUM, T, 2))
NEW = RNG.normal(size=(3, T, 2))
COUNTS = RNG.poisson(1.0, (NUM, T, C))
CASES: dict[str, Any] = {
    "logits": (likelihoods.Categorical(), None, RNG.integers(0, C, (NUM, T))),
    "softmax": (
        likelihoods.Categorical(from_logits=False),
        "softmax",
        RNG.integers(0, C, (NUM, T)),
    ),
    "sigmoid": (likelihoods.Bernoulli(from_logits=False), "sigmoid", COUNTS > 0),
    "poisson": (likelihoods.Poisson(), None, COUNTS),
    "normal": (likelihoods.Normal(0.7), None, RNG.normal(size=(NUM, T, C))),
}
STRUCTURES = ("full", "kron", "diag", "lowrank")
TOLERANCE = {"float64": 1e-10, "float32": 1e-6}


def network(last: Any = None, layer: Any = None) -> keras.Model:
    """A last layer at each of T positions, behind a layer that mixes them."""
    keras.utils.set_random_seed(1)
    body = keras.layers.Conv1D(4, 3, padding="same", activation="tanh")
    layer = layer or keras.layers.Dense(C, last, name="last")
    return randomised(keras.Sequential([keras.Input((T, 2)), body, layer]))


def fitted(model: Any, likelihood: Any, y: Any, **arguments: Any) -> Laplace:
    settings = {"prior_precision": 0.8, "dtype": "float64", "jit_compile": False, **arguments}
    return Laplace(model, likelihood, **settings).fit(X, y, batch_size=2)


def asked(laplace: Laplace, **options: Any) -> Any:
    return tfbdl.predict(laplace, NEW, 50, seed=1, verbose=0, **options)


@contextmanager
def written_out() -> Iterator[None]:
    """No layer is known to be the last: J and covariances of all outputs are made."""
    with (
        mock.patch.object(jacobian, "find_heads", return_value=[]),
        mock.patch.object(network_pass, "NUMBERS", 10**9),
        mock.patch.object(network_pass, "_DIRECTIONS", 10**9),
    ):
        yield


def assert_equal(a: Laplace, b: Laplace, tolerance: float) -> None:
    """Equal fits, evidence and variances."""
    evidence = [float(p.log_marginal_likelihood()) for p in (a, b)]
    np.testing.assert_allclose(*evidence, tolerance)
    covariances = [np.linalg.inv(brute_force.precision(p)) for p in (a, b)]
    np.testing.assert_allclose(*covariances, tolerance * 10, tolerance * np.abs(covariances).max())


@pytest.mark.parametrize(("name", "structure"), [*itertools.product(CASES, STRUCTURES)])
def test_positions_are_examples(name: str, structure: str) -> None:
    likelihood, last, y = CASES[name]
    model = network(last)
    got = fitted(model, likelihood, y, hessian_structure=structure)
    assert got._result._jacobian.heads
    mean, covariance = got.function_moments(NEW)
    with written_out():
        dense = fitted(model, likelihood, y, hessian_structure=structure)
        assert_equal(got, dense, 1e-10)
        expected = asked(dense)
    prediction = asked(got)
    variance = np.diagonal(covariance, axis1=1, axis2=2).reshape(mean.shape)
    exact = {
        "logits": lambda: scipy.special.softmax(shrunk(mean, variance), axis=-1),
        "softmax": lambda: scipy.special.softmax(shrunk(mean, variance), axis=-1),
        "sigmoid": lambda: scipy.special.expit(shrunk(mean, variance)),
        "normal": lambda: mean,
    }
    if name in exact:
        np.testing.assert_allclose(prediction.mean, exact[name](), 1e-6)
        np.testing.assert_allclose(prediction.mean, expected.mean, 1e-6)
    if name == "normal":
        np.testing.assert_allclose(prediction.epistemic_variance, variance, 1e-6)
        np.testing.assert_allclose(prediction.entropy, expected.entropy, 1e-6)


def shrunk(mean: Any, variance: Any) -> Any:
    return mean / np.sqrt(1 + np.pi / 8 * variance)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_single_precision(structure: str) -> None:
    likelihood, _, y = CASES["logits"]
    model = network()
    single = fitted(model, likelihood, y, hessian_structure=structure, dtype="float32")
    double = fitted(model, likelihood, y, hessian_structure=structure)
    assert_equal(single, double, 1e-5)
    np.testing.assert_allclose(asked(single).mean, asked(double).mean, 2e-6)


@pytest.mark.parametrize(("name", "structure"), [*itertools.product(CASES, STRUCTURES)])
def test_covariances_of_positions(name: str, structure: str) -> None:
    """The blocks of J Sigma J^T, in whatever form they come, and draws of that law."""
    likelihood, last, y = CASES[name]
    laplace = fitted(network(last), likelihood, y, hessian_structure=structure)
    _, covariance = laplace.function_moments(NEW)
    blocks = covariance.reshape(-1, T, C, T, C)
    blocks = np.stack([blocks[:, t, :, t] for t in range(T)], axis=1).reshape(-1, C, C)
    with mock.patch.object(head_pass, "_NUMBERS", 100):  # a few positions at once
        ((_, (law,), _),) = laplace._result.covariances(
            Source.of(NEW), laplace._posterior, None, jointly=False, kept=None
        )
    np.testing.assert_allclose(law.dense(), blocks, 1e-9, 1e-12)
    np.testing.assert_allclose(law.diagonal(), np.diagonal(blocks, axis1=1, axis2=2), 1e-9, 1e-12)
    noises = [RNG.normal(size=shape) for shape in law.noise_shapes(5000)]
    draws = law.draws(list(map(tf.constant, noises))).numpy()
    covariances = np.einsum("snc,snd->ncd", draws, draws) / len(draws)
    scale = np.sqrt(np.einsum("ncc,ndd->ncd", blocks, blocks) + blocks**2)
    assert np.all(np.abs(covariances - blocks) < 5 * scale / np.sqrt(len(draws)) + 1e-12)


@pytest.mark.parametrize("structure", ["diag", "kron"])
def test_laplace_of_many_classes_by_hand(structure: str) -> None:
    """As laplace-torch has it: H = A x G / n or its diagonal, variances a^2 and the probit."""
    x, y = RNG.normal(size=(20, 6)), RNG.integers(0, 5, 20)
    model = randomised(keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, use_bias=False)]))
    (w,) = model.get_weights()
    p = scipy.special.softmax(x @ w, axis=1)
    information = np.einsum("nc,cd->ncd", p, np.eye(5)) - np.einsum("nc,nd->ncd", p, p)
    of_weights = {
        "kron": np.kron(x.T @ x, information.sum(axis=0)) / len(x),
        "diag": np.diag(np.einsum("ni,ncc->ic", x**2, information).ravel()),
    }
    sigma = np.linalg.inv(of_weights[structure] + 2.0 * np.eye(30)).reshape(6, 5, 6, 5)
    variance = np.einsum("ni,icjc,nj->nc", x, sigma, x)
    expected = scipy.special.softmax(shrunk(x @ w, variance), axis=1)
    for dtype, tolerance in (("float64", 1e-6), ("float32", 1e-5)):
        laplace = Laplace(
            model, "categorical", hessian_structure=structure, prior_precision=2.0, dtype=dtype
        ).fit(x, y)
        got = tfbdl.predict(laplace, x, 10, verbose=0).mean
        np.testing.assert_allclose(got, expected, tolerance)


@pytest.mark.parametrize("link", ["mc", "probit", "bridge"])
def test_links(link: str) -> None:
    """Samples from all of an example's covariance, and the formulas position by position."""
    likelihood, _, y = CASES["logits"]
    laplace = fitted(network(), likelihood, y, link_approx=link)
    mean, covariance = laplace.function_moments(NEW)
    law = [
        RNG.multivariate_normal(m.ravel(), c, 5000) for m, c in zip(mean, covariance, strict=True)
    ]
    p = scipy.special.softmax(np.reshape(law, (len(NEW), -1, T, C)), axis=-1)
    got = tfbdl.predict(laplace, NEW, 5000, verbose=0)
    error = 5 * p.std(axis=1) * np.sqrt(2 / 5000)
    off = {"mc": 0.0, "probit": 0.05, "bridge": 0.3}[link]
    assert np.all(np.abs(got.mean - p.mean(axis=1)) < error + off)
    np.testing.assert_allclose(got.epistemic_variance, p.var(axis=1), 0.2, 1e-3)
    entropy = scipy.special.entr(p).sum(axis=3).mean(axis=1)  # of positions
    np.testing.assert_allclose(got.expected_entropy, entropy, 0.05)


@pytest.mark.parametrize("few", [0, 100])
def test_kept_functions_are_joint_over_positions(few: int) -> None:
    """Draws of the weights where an example has many outputs, else of its whole covariance."""
    likelihood, last, y = CASES["softmax"]
    laplace = fitted(network(last), likelihood, y)
    mean, covariance = laplace.function_moments(NEW)
    with mock.patch.object(gathering, "FEW_OUTPUTS", few):
        kept = tfbdl.predict(laplace, NEW, 4000, return_samples=True, verbose=0).outputs
    assert kept.shape == (4000, *mean.shape)
    deviations = (kept - mean).reshape(4000, len(NEW), -1)
    covariances = np.einsum("snf,sng->nfg", deviations, deviations) / len(kept)
    variances = np.einsum("nff,ngg->nfg", covariance, covariance)
    error = 5 * np.sqrt((variances + covariance**2) / len(kept)) + 1e-6
    assert np.all(np.abs(covariances - covariance) < error)
    correlations = np.abs(covariance) / np.sqrt(variances)
    assert correlations[:, :C, C:].max() > 0.3  # between positions, which the draws have too


@pytest.mark.parametrize(
    ("structure", "name"), [*itertools.product(STRUCTURES, ["logits", "sigmoid", "normal"])]
)
def test_any_weights_some_directions_at_once(structure: str, name: str) -> None:
    """Weights of all layers, whose J is made of few outputs after the others."""
    likelihood, last, y = CASES[name]
    model = network(last)
    rank = 200 if structure == "lowrank" else None
    settings: Any = {"subset_of_weights": "all", "hessian_structure": structure, "rank": rank}
    whole = fitted(model, likelihood, y, **settings)
    mean, covariance = whole.function_moments(NEW)
    for numbers, directions in ((1, 1), (3000, 5), (10**7, 256)):
        with (
            mock.patch.object(network_pass, "NUMBERS", numbers),
            mock.patch.object(network_pass, "_DIRECTIONS", directions),
        ):
            some = fitted(model, likelihood, y, **settings)
            assert_equal(some, whole, 1e-9)
            prediction = asked(some)
        variance = np.diagonal(covariance, axis1=1, axis2=2).reshape(mean.shape)
        if name == "logits":
            expected = scipy.special.softmax(shrunk(mean, variance), axis=-1)
            np.testing.assert_allclose(prediction.mean, expected, 1e-6)
        if name == "normal":
            np.testing.assert_allclose(prediction.epistemic_variance, variance, 1e-6)


def test_several_heads() -> None:
    """A map of classes and a number beside it: their own covariances, and none between."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((T, 2))
    h = keras.layers.Conv1D(4, 3, padding="same", activation="tanh")(inputs)
    kinds = keras.layers.Dense(C, name="kinds")(h)
    price = keras.layers.Dense(2, name="price")(keras.layers.GlobalAveragePooling1D()(h))
    model = randomised(keras.Model(inputs, {"kinds": kinds, "price": price}))
    laws = {"kinds": likelihoods.Categorical(), "price": likelihoods.Normal(0.5)}
    joint = likelihoods.Joint(laws, {"kinds": 0.5, "price": 2.0})
    y = {"kinds": CASES["logits"][2], "price": RNG.normal(size=(NUM, 2))}
    for structure in STRUCTURES:
        got = fitted(model, joint, y, hessian_structure=structure)
        assert len(got._result._jacobian.heads) == 2
        with written_out():
            assert_equal(got, fitted(model, joint, y, hessian_structure=structure), 1e-10)
        mean, covariance = got.function_moments(NEW)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        answers = asked(got)
        np.testing.assert_allclose(answers["price"].epistemic_variance, variance[:, T * C :], 1e-6)
        logits = shrunk(mean, variance)[:, : T * C].reshape(-1, T, C)
        expected = scipy.special.softmax(logits, axis=-1)
        np.testing.assert_allclose(answers["kinds"].mean, expected, 1e-6)


def sizes_of_tensors(call: Any) -> list[int]:
    """The numbers of elements of all tensors in the graphs that `call` runs."""
    programs: list[Any] = []
    choose = graphs.Compiled._choose

    def listening(self: Any, traced: Any, arguments: Any) -> Any:
        programs.append(traced)
        return choose(self, traced, arguments)

    with mock.patch.object(graphs.Compiled, "_choose", listening):
        call()
    tensors = [t for f in programs for op in f.graph.get_operations() for t in op.outputs]
    return [t.shape.num_elements() or 0 for t in tensors if t.shape.rank is not None]


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_a_thousand_classes_make_no_matrix_of_an_example(structure: str) -> None:
    num, inputs, classes = 40, 8, 200
    x, y = RNG.normal(size=(num, inputs)), RNG.integers(0, classes, num)
    model = keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(classes)])
    laplace = Laplace(model, "categorical", hessian_structure=structure)
    assert max(sizes_of_tensors(lambda: laplace.fit(x, y))) < num * classes**2 / 10
    draws = 4 * num * classes
    largest = max(sizes_of_tensors(lambda: tfbdl.predict(laplace, x, 4, verbose=0)))
    assert largest <= max(draws, classes**2)


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_a_map_of_classes_makes_no_matrix_of_an_example(structure: str) -> None:
    side, classes, channels, num = 16, 4, 3, 4
    x = RNG.normal(size=(num, side, side, 2)).astype("float32")
    y = RNG.integers(0, classes, (num, side, side))
    inputs = keras.Input((side, side, 2))
    h = keras.layers.Conv2D(channels, 3, padding="same", activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Conv2D(classes, 1)(h))
    laplace = Laplace(model, "categorical", hessian_structure=structure)
    positions = num * side**2
    largest = max(sizes_of_tensors(lambda: laplace.fit(x, y)))
    largest = max(largest, *sizes_of_tensors(lambda: tfbdl.predict(laplace, x, 4, verbose=0)))
    assert largest <= positions * classes * (channels + 1) * classes  # not positions^2


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Conv1D(C, 1, name="last"),
        keras.layers.Conv1D(C, 3, padding="causal", name="last"),
        keras.layers.Conv1D(C, 2, strides=1, padding="same", use_bias=False, name="last"),
    ],
)
def test_convolutions_are_heads_too(layer: Any) -> None:
    likelihood, _, y = CASES["logits"]
    model = network(layer=layer)
    got = fitted(model, likelihood, y, hessian_structure="full")
    assert got._result._jacobian.heads
    with written_out():
        assert_equal(got, fitted(model, likelihood, y, hessian_structure="full"), 1e-10)


def test_what_is_no_head() -> None:
    """A layer called twice, scaled outputs, or outputs in another order: J as everywhere else."""
    inputs = keras.Input((T, 2))
    dense = keras.layers.Dense(2, name="last")
    twice = keras.Model(inputs, dense(dense(inputs)))
    scaled = keras.Model(inputs, 2.0 * dense(inputs))
    turned = keras.Model(inputs, keras.layers.Permute((2, 1))(dense(inputs)))
    for model in map(randomised, (twice, scaled, turned)):
        y = RNG.normal(size=(NUM, *model.output_shape[1:]))
        got = fitted(model, likelihoods.Normal(1.0), y, hessian_structure="full")
        assert not got._result._jacobian.heads
        j = brute_force.jacobians(model, X)
        expected = np.einsum("nki,nkj->ij", j, j)
        np.testing.assert_allclose(brute_force.curvature(got), expected, 1e-6, 1e-9)


def test_saved_and_loaded(tmp_path: Any) -> None:
    likelihood, last, y = CASES["softmax"]
    laplace = fitted(network(last), likelihood, y)
    laplace.save(tmp_path / "laplace.keras")
    again = tfbdl.load(tmp_path / "laplace.keras")
    np.testing.assert_array_equal(asked(again).mean, asked(laplace).mean)


def test_joint_density_of_many_outputs_is_refused() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(5000)])
    x, y = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 5000))
    laplace = Laplace(model, likelihoods.Normal(1.0), hessian_structure="diag")
    prediction = tfbdl.predict(laplace.fit(x, y), x, verbose=0)
    assert prediction.mean.shape == (4, 5000)
    with pytest.raises(ValueError, match=r"^log_prob needs the joint .* of 5,000 outputs, which"):
        prediction.log_prob(y)
    alone = tfbdl.predict(laplace, x[:1], verbose=0)
    with pytest.raises(ValueError, match=r"which is not kept for so many; use marginal$"):
        alone.log_prob(y[:1])


@pytest.mark.parametrize(("width", "advice"), [(10, "predict fewer at once, or "), (60, "")])
def test_advice_where_joint_densities_of_positions_are_not_kept(width: int, advice: str) -> None:
    """Fewer examples help where positions are so few that it is known how they vary together."""
    model = keras.Sequential([keras.Input((width, 2)), keras.layers.Conv1D(2, 1)])
    x, y = RNG.normal(size=(2, 6, width, 2))
    laplace = Laplace(model, likelihoods.Normal(1.0), hessian_structure="diag").fit(x, y)
    with mock.patch.object(kept, "KEPT", 500):
        many, one = (tfbdl.predict(laplace, x[:n], verbose=0) for n in (6, 1))
    with pytest.raises(ValueError, match=rf"which is not kept for so many; {advice}use marginal$"):
        many.log_prob(y)
    if advice:
        assert np.isfinite(one.log_prob(y[:1])).all()
    else:
        with pytest.raises(ValueError, match=r"which is not kept for so many; use marginal$"):
            one.log_prob(y[:1])


def test_joint_densities_of_many_examples_are_refused_before_they_are_made() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(5)])
    x, y = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 5))
    laplace = Laplace(model, likelihoods.Normal(1.0), hessian_structure="full").fit(x, y)
    logs = tfbdl.predict(laplace, x, batch_size=2, verbose=0).log_prob(y)
    with (
        mock.patch.object(kept, "KEPT", 100),
        mock.patch.object(
            OutputCovariances, "dense", autospec=True, side_effect=OutputCovariances.dense
        ) as dense,
    ):
        few, many = (tfbdl.predict(laplace, v, batch_size=2, verbose=0) for v in (x[:4], x))
        assert dense.call_count == 4
    np.testing.assert_allclose(few.log_prob(y[:4]), logs[:4], 1e-5)
    with pytest.raises(ValueError, match="which is not kept for so many; predict fewer at once, "):
        many.log_prob(y)
