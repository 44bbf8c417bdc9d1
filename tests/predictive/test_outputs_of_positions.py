"""Several outputs with positions, classes of pixels and their depth, against NumPy and single ones.

The left column has no label of its class, and a depth.
"""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import inference, metrics
from tfbdl.layers import BayesConv2D, MCDropout
from tfbdl.likelihoods import Categorical, Normal

N, H, W, C, S, NONE = 6, 3, 4, 3, 5, 255
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, H, W, 2)).astype("float32")
LABELS = RNG.integers(0, C, (N, H, W))
LABELS[:, :, 0] = NONE
COUNTED = LABELS != NONE
DEPTHS = RNG.normal(size=(N, H, W, 1)).astype("float32")
Y = {"classes": LABELS, "depth": DEPTHS}
LAWS = {"classes": Categorical(ignore_class=NONE), "depth": Normal(0.3)}
WEIGHTS = {"classes": 1.0, "depth": 0.5}


def network(*, random: bool = True, weights: Any = WEIGHTS) -> keras.Model:
    """Two heads on one body of convolutions."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((H, W, 2))
    h = layers.Conv2D(3, 3, padding="same", activation="tanh", name="body")(inputs)
    h = MCDropout(0.4, seed=3)(h) if random else h
    depth = BayesConv2D(1, 1, num_data=N, seed=5, name="depth") if random else None
    depth = depth or layers.Conv2D(1, 1, name="depth")
    model = keras.Model(
        inputs, {"classes": layers.Conv2D(C, 1, name="classes")(h), "depth": depth(h)}
    )
    model.compile(keras.optimizers.SGD(0.01), LAWS, loss_weights=weights)
    return model


def head(model: keras.Model, name: str) -> keras.Model:
    return keras.Model(model.input, model.get_layer(name).output)


def softmax(f: Any) -> Any:
    return scipy.special.softmax(np.asarray(f, np.float64), axis=-1)


def log_prob(name: str, f: Any) -> Any:
    """The log probability of each example, by NumPy and SciPy, shape (N,)."""
    if name == "depth":
        return scipy.stats.norm(np.asarray(f, np.float64), 0.3).logpdf(DEPTHS).sum(axis=(1, 2, 3))
    labels = np.where(COUNTED, LABELS, 0)[..., None]
    logs = np.take_along_axis(np.log(softmax(f)), labels, axis=-1)[..., 0]
    return np.where(COUNTED, logs, 0.0).sum(axis=(1, 2))


def test_each_is_that_of_its_own_network() -> None:
    model = network()
    options = {"seed": 3, "verbose": 0, "batch_size": 4, "return_samples": True}
    both = tfbdl.predict(model, X, S, **options)
    for name, law in LAWS.items():
        one = tfbdl.predict(head(model, name), X, S, likelihood=law, **options)
        np.testing.assert_allclose(both[name].outputs, one.outputs, rtol=1e-5, atol=1e-6)
    p = softmax(both["classes"].outputs)
    total = scipy.stats.entropy(p.mean(0), axis=-1)
    information = total - scipy.stats.entropy(p, axis=-1).mean(0)
    np.testing.assert_allclose(both["classes"].entropy, total, 1e-5)
    np.testing.assert_allclose(both["classes"].mutual_information, information, atol=1e-5)
    spread = both["depth"].outputs.astype(np.float64).var(axis=0)
    np.testing.assert_allclose(both["depth"].stddev, np.sqrt(spread + 0.09), 1e-5)
    for name in LAWS:
        logs = np.stack([log_prob(name, f) for f in both[name].outputs])
        expected = scipy.special.logsumexp(logs, axis=0) - np.log(S)
        np.testing.assert_allclose(both[name].log_prob(Y[name]), expected, 1e-5)


def test_bound() -> None:
    model = network()
    kept = tfbdl.predict(model, X, S, seed=3, return_samples=True, verbose=0)
    logs = sum(
        WEIGHTS[name] * np.stack([log_prob(name, f) for f in kept[name].outputs]) for name in LAWS
    )
    bound = tfbdl.elbo(model, X, Y, S, seed=3, batch_size=4)
    np.testing.assert_allclose(bound.log_likelihood, logs.mean(), 1e-5)
    density = tfbdl.log_predictive_density(model, X, Y, S, seed=3, batch_size=4)
    expected = scipy.special.logsumexp(logs, axis=0) - np.log(S)
    np.testing.assert_allclose(density, expected, 1e-5)


def test_exported(tmp_path: Any) -> None:
    model = network()
    tfbdl.export(model, tmp_path / "model", S, seed=1)
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    got = serve(x=tf.constant(X))
    expected = tfbdl.predict(model, X, S, seed=1, verbose=0)
    for name, field in (
        ("classes", "mean"),
        ("classes", "entropy"),
        ("classes", "mutual_information"),
        ("depth", "mean"),
        ("depth", "stddev"),
    ):
        known = getattr(expected[name], field)
        np.testing.assert_allclose(got[f"{name}_{field}"], known, 1e-5, 1e-6)


def jacobian(model: keras.Model, name: str) -> Any:
    """The Jacobian of one output by all weights, (N, H, W, outputs, D)."""
    with tf.GradientTape() as tape:
        f = head(model, name)(X)
    parts = tape.jacobian(
        f, [v.value for v in model.trainable_variables], unconnected_gradients="zero"
    )
    return np.concatenate([np.reshape(part, [*f.shape, -1]) for part in parts], -1).astype(float)


def ggn(model: keras.Model) -> Any:
    """Sum of w J^T F J over the positions that count, (D, D)."""
    p = softmax(head(model, "classes")(X))
    fisher = np.einsum("...k,kl->...kl", p, np.eye(C)) - np.einsum("...k,...l->...kl", p, p)
    j = jacobian(model, "classes")[COUNTED]
    h = WEIGHTS["classes"] * np.einsum("nki,nkl,nlj->ij", j, fisher[COUNTED], j)
    j = jacobian(model, "depth").reshape(N * H * W, -1)
    return h + WEIGHTS["depth"] * j.T @ j / 0.3**2


def own(model: keras.Model, subset: str) -> Any:
    """Which of all weights belong to a subset."""
    sizes = [(v.path, int(np.prod(v.shape))) for v in model.trainable_variables]
    return np.concatenate([np.full(n, subset == "all" or "body" not in path) for path, n in sizes])


@pytest.mark.parametrize("subset", ["last_layer", "all"])
@pytest.mark.parametrize("structure", ["full", "diag"])
def test_laplace(subset: str, structure: str) -> None:
    """The covariance of the weights, the variance of depths at each pixel, and the evidence."""
    model = network(random=False)
    laplace = inference.Laplace(
        model, subset_of_weights=subset, hessian_structure=structure, prior_precision=2.0
    ).fit(X, Y, batch_size=4)
    mine = own(model, subset)
    h = ggn(model)[np.ix_(mine, mine)]
    h = h if structure == "full" else np.diag(np.diag(h))
    precision = h + 2.0 * np.eye(len(h))
    j = jacobian(model, "depth")[..., mine]
    variance = np.einsum("...ki,ij,...kj->...k", j, np.linalg.inv(precision), j)
    got = tfbdl.predict(laplace, X, S, seed=1, verbose=0)
    np.testing.assert_allclose(got["depth"].epistemic_variance, variance, 2e-4)
    np.testing.assert_allclose(got["depth"].mean, head(model, "depth")(X), 1e-4, 1e-5)
    assert got["classes"].mutual_information.shape == (N, H, W)
    theta = np.concatenate([np.ravel(w) for w in model.get_weights()])[mine]
    evidence = (
        sum(WEIGHTS[name] * log_prob(name, head(model, name)(X)).sum() for name in LAWS)
        - theta @ theta
        + 0.5 * len(h) * np.log(2.0)
        - 0.5 * np.linalg.slogdet(precision)[1]
    )
    np.testing.assert_allclose(laplace.log_marginal_likelihood(), evidence, 1e-4)


def test_classes_of_laplace() -> None:
    """Probabilities and information of pixels, against many draws of the exact linear model."""
    model = network(random=False)
    laplace = inference.Laplace(model, hessian_structure="full", prior_precision=2.0).fit(X, Y)
    mine = own(model, "last_layer")
    h = ggn(model)[np.ix_(mine, mine)]
    precision = h + 2.0 * np.eye(len(h))
    shifts = RNG.multivariate_normal(np.zeros(len(h)), np.linalg.inv(precision), 4000)
    f = np.asarray(head(model, "classes")(X))
    p = softmax(f + np.einsum("...ki,si->s...k", jacobian(model, "classes")[..., mine], shifts))
    got = tfbdl.predict(laplace, X, 4000, seed=1, verbose=0)["classes"]
    np.testing.assert_allclose(got.mean, p.mean(0), atol=0.02)
    information = scipy.stats.entropy(p.mean(0), axis=-1) - scipy.stats.entropy(p, axis=-1).mean(0)
    np.testing.assert_allclose(got.mutual_information, information, atol=0.01)


@pytest.mark.parametrize("method", [inference.SWAG, inference.DeepEnsemble])
def test_ensembles(method: Any) -> None:
    """The mean over networks, each run by hand."""
    given = {"rank": 2} if method is inference.SWAG else {"num_members": 3}
    posterior = method(network(random=False), **given)
    posterior.fit(X, Y, epochs=4, batch_size=3, verbose=0)
    ensemble = posterior.ensemble(3, seed=1)
    got = tfbdl.predict(ensemble, X, 3, verbose=0)
    trainable = ensemble.network.trainable_variables
    ends = np.cumsum([int(np.prod(v.shape)) for v in trainable])
    f: dict[str, list[Any]] = {name: [] for name in LAWS}
    for theta in map(ensemble.theta, range(3)):
        for v, part in zip(trainable, np.split(theta, ends[:-1]), strict=True):
            v.assign(part.reshape(v.shape))
        for name in LAWS:
            f[name].append(np.asarray(head(ensemble.network, name)(X)))
    p = softmax(f["classes"])
    np.testing.assert_allclose(got["classes"].mean, p.mean(0), 1e-4, 1e-5)
    entropies = scipy.stats.entropy(p, axis=-1).mean(0)
    np.testing.assert_allclose(got["classes"].expected_entropy, entropies, 1e-4)
    np.testing.assert_allclose(got["depth"].epistemic_variance, np.var(f["depth"], 0), 1e-3, 1e-6)


def test_metrics_and_training() -> None:
    """Both loops, with metrics of the pixels that count."""
    logs = []
    for fit in (tfbdl.train, keras.Model.fit):
        model = network(random=False)
        accuracy = metrics.OfLabelled(
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"), NONE
        )
        model.compile("sgd", LAWS, loss_weights=WEIGHTS, metrics={"classes": [accuracy]})
        given = {"validation_data": (X, Y), "epochs": 1, "batch_size": N, "verbose": 0}
        history = fit(model, X, Y, **given)
        logs.append(getattr(history, "history", history))
        for name in LAWS:
            loss = -log_prob(name, head(model, name)(X)).mean()
            np.testing.assert_allclose(logs[-1][f"val_{name}_loss"], loss, 1e-5)
        p = softmax(head(model, "classes")(X))
        labels, counted = metrics.labelled(LABELS, [p], ignore_class=NONE)
        right = np.mean(counted.argmax(-1) == labels)
        np.testing.assert_allclose(logs[-1]["val_classes_accuracy"], right, 1e-6)
    for name in ("loss", "classes_loss", "depth_loss", "val_loss"):
        np.testing.assert_allclose(logs[0][name], logs[1][name], 1e-4)


def test_temperature() -> None:
    """Logits of pixels, twice too large: of all pixels, and of those that count."""
    f = RNG.normal(size=(200, H, W, C))
    uniform = RNG.random((200, H, W, 1))
    labels = (softmax(f).cumsum(-1) < uniform).sum(-1)
    t = metrics.fit_temperature(labels, 2 * f)
    np.testing.assert_allclose(t, 2.0, rtol=0.2)
    labels[:, :, 0] = NONE
    counted = metrics.labelled(labels, [2 * f], ignore_class=NONE)
    without = metrics.fit_temperature(labels[:, :, 1:], 2 * f[:, :, 1:])
    np.testing.assert_allclose(metrics.fit_temperature(*counted), without, 1e-6)
