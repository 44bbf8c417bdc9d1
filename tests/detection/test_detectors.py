"""Detectors against scikit-learn, the papers' formulas in NumPy, and known geometry."""

import pickle
from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import sklearn.covariance
import tensorflow as tf

from tfbdl import layers, metrics
from tfbdl.detection import (
    Energy,
    Mahalanobis,
    MaxLogit,
    MaxSoftmax,
    NearestNeighbors,
    RelativeMahalanobis,
    ViM,
)

RNG = np.random.default_rng(0)
N, D, C = 300, 6, 3
Y = RNG.integers(C, size=N)
F = RNG.normal(size=(N, D)) @ RNG.normal(size=(D, D)) + 3.0 * np.eye(C, D)[Y] + 100.0
NEW = RNG.normal(size=(50, D)) * 5 + 100.0
HEAD = RNG.normal(size=(D, C)), RNG.normal(size=C)


def classifier(activation: Any = None, dense: Any = keras.layers.Dense) -> Any:
    keras.utils.set_random_seed(0)
    given = {} if dense is keras.layers.Dense else {"num_data": N}
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(D, "relu", name="hidden"),
            keras.layers.Dropout(0.5),
            dense(C, activation=activation, **given),
        ]
    )


X = RNG.normal(size=(N, 4)).astype("float32")
X_NEW = 3 * RNG.normal(size=(40, 4)).astype("float32")


def hidden(model: Any, x: Any) -> Any:
    w, b = (a.astype(np.float64) for a in model.layers[0].get_weights())
    return np.maximum(x @ w + b, 0)


def distances(f: Any, y: Any, new: Any, precision: Any) -> Any:
    """One example and class at a time."""
    means = [f[y == c].mean(axis=0) for c in np.unique(y)]
    return np.array([[(g - m) @ precision @ (g - m) for m in means] for g in new])


def centred(f: Any, y: Any) -> Any:
    return f - np.stack([f[y == c].mean(axis=0) for c in np.unique(y)])[y]


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_mahalanobis_against_scikit_learn(shrinkage: float) -> None:
    fitted = sklearn.covariance.ShrunkCovariance(shrinkage=shrinkage, assume_centered=True)
    fitted.fit(centred(F, Y))
    expected = distances(F, Y, NEW, fitted.precision_).min(axis=1)
    detector = Mahalanobis(shrinkage=shrinkage).fit(F, Y)
    np.testing.assert_allclose(detector.score(NEW), expected, rtol=1e-9)
    if shrinkage == 0:
        means = np.stack([F[c == Y].mean(axis=0) for c in range(C)])
        by_class = [fitted.mahalanobis(NEW - mean) for mean in means]
        np.testing.assert_allclose(detector.score(NEW), np.min(by_class, axis=0), rtol=1e-9)


def test_relative_mahalanobis_against_scikit_learn() -> None:
    shared = sklearn.covariance.EmpiricalCovariance(assume_centered=True).fit(centred(F, Y))
    own = sklearn.covariance.EmpiricalCovariance().fit(F)
    expected = distances(F, Y, NEW, shared.precision_).min(axis=1) - own.mahalanobis(NEW)
    actual = RelativeMahalanobis().fit(F, Y).score(NEW)
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-9)


def test_features_that_do_not_vary_do_not_count() -> None:
    """As in scikit-learn; those of a combination, too. With shrinkage they do."""
    f = np.concatenate([F, np.full((N, 1), 7.0), F[:, :1]], axis=1)
    new = np.concatenate([NEW, np.full((50, 1), 7.0), NEW[:, :1]], axis=1)
    expected = Mahalanobis().fit(F, Y).score(NEW)
    np.testing.assert_allclose(Mahalanobis().fit(f, Y).score(new), expected, rtol=1e-8)
    shrunk = Mahalanobis(shrinkage=0.1).fit(f, Y)
    before = shrunk.score(new)
    new[:, -2] = 9.0
    np.testing.assert_allclose(Mahalanobis().fit(f, Y).score(new), expected, rtol=1e-8)
    ridge = 0.1 * np.trace(np.cov(centred(f, Y).T, bias=True)) / (D + 2)
    np.testing.assert_allclose(shrunk.score(new) - before, 4.0 / ridge, rtol=1e-6)


def test_moments_of_batches_are_those_of_all() -> None:
    """Sorted by class, so that many batches lack some; labels are any integers."""
    order = np.argsort(Y)
    f, y = F[order], 10 - 5 * Y[order]
    for kind in (Mahalanobis, RelativeMahalanobis):
        expected = kind().fit(F, Y).score(NEW)
        data = tf.data.Dataset.from_tensor_slices((f, y)).batch(7)
        actual = kind().fit(data).score(tf.data.Dataset.from_tensor_slices(NEW).batch(9))
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 5, N])
def test_nearest_neighbors_by_brute_force(k: int) -> None:
    f, new = F - 100.0, NEW - 100.0
    f[3], new[0] = 0.0, 0.0
    f[1], new[1] = f[2], 1e200 * f[2]  # the same direction, twice among the known
    lengths = [np.linalg.norm(a / np.abs(a).max().clip(1e-9)) for a in (*f, *new)]
    unit = [a / np.abs(a).max().clip(1e-9) / max(b, 1e-9) for a, b in zip((*f, *new), lengths)]  # noqa: B905
    known, asked = np.array(unit[:N]), np.array(unit[N:])
    expected = np.sort(np.linalg.norm(asked[:, None] - known[None], axis=2), axis=1)[:, k - 1]
    actual = NearestNeighbors(k=k).fit(f).score(new)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_vim_by_the_papers_formulas() -> None:
    """Section 4.1, with the residual as I - P P^T; o solves W^T o = -b as nearly as can be."""
    w, b = HEAD
    o = -np.linalg.lstsq(w.T, b, rcond=None)[0]
    np.testing.assert_allclose(o @ w, -b)
    _, _, axes = np.linalg.svd(F - o, full_matrices=False)
    outside = np.eye(D) - axes[:2].T @ axes[:2]
    residual = [np.linalg.norm((a - o) @ outside, axis=1) for a in (F, NEW)]
    alpha = (F @ w + b).max(axis=1).sum() / residual[0].sum()
    # The softmax over C + 1 logits gives the virtual class p; the score is log p / (1 - p).
    logits = np.concatenate([NEW @ w + b, alpha * residual[1][:, None]], axis=1)
    log_p = scipy.special.log_softmax(logits, axis=1)
    expected = log_p[:, -1] - scipy.special.logsumexp(log_p[:, :-1], axis=1)
    detector = ViM(head=HEAD, num_components=2).fit(F)
    np.testing.assert_allclose(detector.score(NEW), expected, rtol=1e-8, atol=1e-7)
    np.testing.assert_allclose(detector.alpha, alpha)


def test_scores_of_logits_in_exact_arithmetic() -> None:
    z = np.array([[1.0, -2.0, 0.5], [800.0, 0.0, -900.0], [0.0, 40.0, 0.0], [5.0, 5.0, 5.0]])
    p = scipy.special.softmax(z, axis=1)
    np.testing.assert_allclose(MaxSoftmax().score(z)[[0, 3]], -np.log(p.max(axis=1))[[0, 3]])
    np.testing.assert_allclose(MaxSoftmax().score(z)[2], 2 * np.exp(-40.0), rtol=1e-12)
    np.testing.assert_array_equal(MaxLogit().score(z), [-1.0, -800.0, -40.0, -5.0])
    expected = -np.log(np.exp(z[[0, 3]] / 2).sum(axis=1)) * 2
    np.testing.assert_allclose(Energy(temperature=2.0).score(z)[[0, 3]], expected)
    np.testing.assert_allclose(Energy().score(z)[1], -800.0)
    near = Energy(temperature=1e-6).score(z[:3])
    np.testing.assert_allclose(near, MaxLogit().score(z[:3]), rtol=1e-9)


def test_saturated_logits_are_still_ranked() -> None:
    """Where 1 - p is 0 in floats; ties stay ties."""
    z = np.array([[60.0, 0.0], [50.0, 0.0], [50.0, 0.0]])
    assert (scipy.special.softmax(z, axis=1).max(axis=1) == 1.0).all()
    for detector in (MaxSoftmax(), MaxLogit(), Energy()):
        scores = detector.score(z)
        assert scores[0] < scores[1] == scores[2]
        assert metrics.auroc(scores[:1], scores[1:]) == 1.0


@pytest.mark.parametrize("activation", [None, "softmax"])
@pytest.mark.parametrize("dense", [keras.layers.Dense, layers.BayesDense])
def test_of_a_model(activation: Any, dense: Any) -> None:
    """Features are the head's inputs, logits its outputs before the softmax."""
    model = classifier(activation, dense)
    f, new = hidden(model, X), hidden(model, X_NEW)
    if dense is keras.layers.Dense:
        w, b = (a.astype(np.float64) for a in model.layers[-1].get_weights())
    else:
        w, b = (
            np.asarray(a.mean, np.float64) for a in (model.layers[-1].kernel, model.layers[-1].bias)
        )
    for kind in (MaxSoftmax, MaxLogit, Energy):
        expected = kind().score(new @ w + b)
        np.testing.assert_allclose(kind(model).fit(X).score(X_NEW), expected, rtol=1e-4, atol=1e-6)
    for learned in (Mahalanobis, RelativeMahalanobis, NearestNeighbors):
        for layer in (None, "hidden", model.layers[0]):
            actual = learned(model, layer).fit(X, Y).score(X_NEW)
            expected = learned().fit(f, Y).score(new)
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    expected = ViM(head=(w, b)).fit(f).score(new)
    np.testing.assert_allclose(ViM(model).fit(X).score(X_NEW), expected, rtol=1e-4, atol=1e-4)


def test_maps_of_features_are_averaged_over_positions() -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5, 5, 2))
    maps = keras.layers.Conv2D(4, 3, activation="relu", name="maps")(inputs)
    outputs = keras.layers.Dense(C)(keras.layers.Flatten()(maps))
    model = keras.Model(inputs, outputs)
    x = RNG.normal(size=(60, 5, 5, 2)).astype("float32")
    f = np.asarray(keras.Model(inputs, maps)(x))
    expected = Mahalanobis().fit(f.mean(axis=(1, 2)), Y[:60]).score(f.mean(axis=(1, 2)))
    for actual in (
        Mahalanobis(model, "maps").fit(x, Y[:60]).score(x),
        Mahalanobis().fit(f, Y[:60]).score(f),
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-3)


def test_data_in_every_form() -> None:
    """Arrays in any batches, data sets with and without labels, generators."""
    model = classifier()
    expected = Mahalanobis(model).fit(X, Y).score(X_NEW)

    def batches() -> Any:
        yield from ((X[i : i + 50], Y[i : i + 50, None]) for i in range(0, N, 50))

    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(64)
    for fitted in (
        Mahalanobis(model).fit(X, Y, batch_size=7),
        Mahalanobis(model).fit(data),
        Mahalanobis(model).fit(batches()),
        Mahalanobis(model).fit(data.repeat(), steps=5),
    ):
        np.testing.assert_allclose(fitted.score(X_NEW, batch_size=11), expected, rtol=1e-3)
        unlabelled = tf.data.Dataset.from_tensor_slices(X_NEW).batch(16)
        np.testing.assert_allclose(fitted.score(unlabelled), expected, rtol=1e-3)
    expected = ViM(model).fit(X).score(X_NEW)
    np.testing.assert_allclose(ViM(model).fit(batches()).score(X_NEW), expected, rtol=1e-3)


def test_the_model_is_that_of_now() -> None:
    model = classifier()
    detector = Energy(model)
    before = detector.score(X_NEW)
    model.set_weights([2 * w for w in model.get_weights()])
    assert np.abs(detector.score(X_NEW) - before).max() > 0.1
    model.layers[0].activation = keras.activations.tanh
    w, b = (a.astype(np.float64) for a in model.layers[0].get_weights())
    v, c = (a.astype(np.float64) for a in model.layers[-1].get_weights())
    expected = Energy().score(np.tanh(X_NEW @ w + b) @ v + c)
    np.testing.assert_allclose(detector.score(X_NEW), expected, rtol=1e-4)


def test_strangers_are_found() -> None:
    """Far from all classes in a direction that the logits do not see: energy is blind there."""
    f = RNG.normal(size=(400, 8)) * np.r_[np.ones(4), 0.1 * np.ones(4)]
    strange = RNG.normal(size=(100, 8)) * np.r_[np.ones(4), 0.1 * np.ones(4)] + 2.0 * np.eye(8)[7]
    y = f[:, :2].argmax(axis=1)
    head = np.eye(8, 2), np.zeros(2)
    for detector in (Mahalanobis(), NearestNeighbors(k=10), ViM(head=head, num_components=4)):
        detector.fit(f[:300], y[:300])
        assert metrics.auroc(detector.score(f[300:]), detector.score(strange)) > 0.95
        assert metrics.false_positive_rate(detector.score(f[300:]), detector.score(strange)) < 0.2
    energy = Energy()
    scores = energy.score(f[300:] @ head[0]), energy.score(strange @ head[0])
    assert 0.35 < metrics.auroc(*scores) < 0.65


def test_a_fitted_detector_goes_through_pickle() -> None:
    for detector in (Mahalanobis(), RelativeMahalanobis(), NearestNeighbors(), ViM(head=HEAD)):
        again = pickle.loads(pickle.dumps(detector.fit(F, Y)))
        np.testing.assert_array_equal(again.score(NEW), detector.score(NEW))


def test_what_a_detector_shows() -> None:
    """The call that makes it, and what it was fitted to."""
    model = classifier()
    assert repr(Mahalanobis(shrinkage=0.5)) == "Mahalanobis(shrinkage=0.5), not fitted"
    fitted = Mahalanobis(model, "hidden").fit(X, Y)
    call = f"Mahalanobis(model={model.name}, layer='hidden')"
    assert repr(fitted) == f"{call}, fitted to 300 examples of 6 features"
    assert repr(Energy(model, temperature=2)) == f"Energy(model={model.name}, temperature=2.0)"
    arrays = "<array of shape (6, 3)>, <array of shape (3,)>"
    of_head = ViM(head=HEAD, num_components=2).fit(F)
    shown = f"ViM(head=({arrays}), num_components=2), fitted to 300 examples of 6 features"
    assert repr(of_head) == shown
    assert (
        repr(ViM(model).fit(X)) == f"ViM(model={model.name}), fitted to 300 examples of 6 features"
    )
    assert repr(NearestNeighbors(k=7).fit(F)).startswith("NearestNeighbors(k=7), fitted to 300 ")


def test_refusals() -> None:
    model = classifier()
    several = keras.Model(model.inputs, [model.outputs[0], model.outputs[0]], name="two")
    for call, message in (
        (lambda: Energy(several), r"^model=two has 2 outputs; give keras.Model\("),
        (lambda: Mahalanobis().score(F), "^score needs a fitted Mahalanobis; call fit first$"),
        (lambda: Mahalanobis().fit(F), "^y=None: give targets"),
        (lambda: Mahalanobis().fit(F, np.eye(C)[Y]), "^y has shape .300, 3.; give integer labels"),
        (lambda: Mahalanobis().fit(F, Y + 0.5), r"^y has the label \d.5; give integers$"),
        (lambda: Mahalanobis().fit(F * 0, Y), "^x has features that do not vary"),
        (lambda: Mahalanobis(shrinkage=2), "^shrinkage=2 must be in .0, 1.$"),
        (lambda: Mahalanobis(layer="a"), "^layer='a' is given without a model; give both$"),
        (lambda: Mahalanobis(model, "a"), "^layer='a': model=.* has no such layer; its .* hidden"),
        (lambda: Mahalanobis(F), "^model=.* is no keras.Model"),
        (lambda: Mahalanobis().fit(F, Y).score(F[:, :2]), "^x has 2 features, and fit had 6;"),
        (lambda: NearestNeighbors(k=N + 1).fit(F), "^k=301 needs as many examples; x has 300$"),
        (ViM, "^model and head: give one of them$"),
        (lambda: ViM(model, head=HEAD), "^model and head: give one of them$"),
        (lambda: ViM(head=(F, Y)), "^head has shapes .300, 6. and .300,.; give a pair"),
        (lambda: ViM(head=HEAD, num_components=D).fit(F), "^num_components=6 must be less than"),
        (lambda: ViM(head=HEAD).fit(F[:, :4]), "^x has 4 features, and the head takes 6;"),
        (
            lambda: ViM(head=HEAD, num_components=5).fit(np.tile(F[:1], (9, 1))),
            "^num_components=5 leaves nothing of the training features",
        ),
        (lambda: Energy().score(F[:, :1]), "^x has logits of shape .300, 1.; give .N, C. of two"),
        (lambda: Energy(temperature=0), "^temperature=0 must be a positive number$"),
        (lambda: Energy(model).score(np.ones((2, 7))), "^x has examples of shape .7,., which"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    bare = keras.Sequential([keras.Input((4,)), keras.layers.Softmax()])
    with pytest.raises(ValueError, match="has no layer with a kernel; name a layer"):
        Energy(bare).score(X)
    model.set_weights([w * np.nan for w in model.get_weights()])
    with pytest.raises(ValueError, match="has logits that are not finite; its training has"):
        Energy(model).score(X)
