"""Networks with several outputs, each with its likelihood, against single ones and NumPy."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import inference
from tfbdl.layers import BayesDense, MCDropout
from tfbdl.likelihoods import Categorical, Joint, Normal

N, S = 11, 7
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype("float32")
KINDS = RNG.integers(0, 4, N)
PRICES = RNG.normal(size=(N, 2)).astype("float32")
Y = {"kind": KINDS, "price": PRICES}
LAWS = {"kind": Categorical(), "price": Normal(0.3)}
WEIGHTS = {"kind": 2.0, "price": 0.5}


def network(*, random: bool = True, structure: Any = dict, compiled: bool = True) -> Any:
    """Two heads on one body, whose noise both share."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    h = keras.layers.Dense(6, "tanh", name="body")(inputs)
    if random:
        h = MCDropout(0.4, seed=3)(h)
    kind = BayesDense(4, num_data=N, seed=5, name="kind") if random else _dense(4, "kind")
    heads = {"kind": kind(h), "price": _dense(2, "price")(h)}
    model = keras.Model(inputs, heads if structure is dict else structure(heads.values()))
    if compiled:
        loss = {**LAWS, "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
        model.compile(keras.optimizers.SGD(0.01), loss, loss_weights=WEIGHTS)
    return model


def _dense(units: int, name: str) -> Any:
    return keras.layers.Dense(units, name=name)


def head(model: keras.Model, name: str) -> keras.Model:
    return keras.Model(model.input, model.get_layer(name).output)


def log_prob(name: str, y: Any, f: Any) -> Any:
    """The log probability by NumPy and SciPy."""
    f = np.asarray(f, np.float64)
    if name == "kind":
        return np.take_along_axis(scipy.special.log_softmax(f, axis=-1), y[:, None], 1)[:, 0]
    return scipy.stats.norm(f, 0.3).logpdf(y).sum(axis=-1)


def log_probs(predictions: Any) -> Any:
    """The weighted sum over outputs, for each kept function, (S, N)."""
    return sum(
        WEIGHTS[name] * np.stack([log_prob(name, Y[name], f) for f in predictions[name].outputs])
        for name in LAWS
    )


@pytest.mark.parametrize("return_samples", [False, True])
@pytest.mark.parametrize("num_samples", [0, S])
def test_each_is_that_of_its_own_network(return_samples: bool, num_samples: int) -> None:
    """The same functions: the body's noise is common to both."""
    model = network()
    options = {"seed": 3, "return_samples": return_samples, "verbose": 0, "batch_size": 4}
    got = tfbdl.predict(model, X, num_samples, **options)
    assert list(got) == ["kind", "price"]
    for name, law in LAWS.items():
        one = tfbdl.predict(head(model, name), X, num_samples, likelihood=law, **options)
        for field in ("mean", "aleatoric_variance", "epistemic_variance", "expected_entropy"):
            np.testing.assert_allclose(
                getattr(got[name], field), getattr(one, field), rtol=2e-5, atol=1e-6
            )
        assert repr(got[name].likelihood) == repr(law)
        if return_samples:
            np.testing.assert_allclose(got[name].outputs, one.outputs, rtol=1e-5, atol=1e-6)


def test_lists_and_names() -> None:
    """Losses by place, by name, or by key; outputs in a list or a tuple."""
    expected = tfbdl.predict(network(), X, S, seed=3, verbose=0)
    for structure in (list, tuple):
        for given in (LAWS, list(LAWS.values()), ("categorical", Normal(0.3))):
            model = network(structure=structure, compiled=False)
            got = tfbdl.predict(model, X, S, seed=3, likelihood=given, verbose=0)
            for one, name in zip(got, LAWS, strict=True):
                np.testing.assert_allclose(one.mean, expected[name].mean, 1e-6, 1e-6)
                assert repr(one.likelihood) == repr(LAWS[name])


def test_an_output_whose_noise_is_not_known() -> None:
    model = network()
    model.compile("sgd", {"kind": Categorical(), "price": "mse"})
    got = tfbdl.predict(model, X, S, seed=3, verbose=0)
    np.testing.assert_allclose(got["kind"].mean.sum(axis=-1), 1.0, 1e-5)
    assert got["price"].likelihood is None
    with pytest.raises(ValueError, match=r"^likelihood of the output 'price' is not known; give"):
        tfbdl.elbo(model, X, Y)
    uncompiled = tfbdl.predict(network(compiled=False), X, S, seed=3, verbose=0)
    np.testing.assert_allclose(uncompiled["price"].mean, got["price"].mean, 1e-6)


def test_bound_and_density() -> None:
    """Weights of losses count; the KL counts once; a function is one for both outputs."""
    model = network()
    kept = tfbdl.predict(model, X, S, seed=3, return_samples=True, verbose=0)
    logs = log_probs(kept)
    bound = tfbdl.elbo(model, X, Y, S, seed=3, batch_size=4)
    np.testing.assert_allclose(bound.log_likelihood, logs.mean(), 1e-5)
    model(X)
    np.testing.assert_allclose(bound.kl, float(sum(model.losses)), 1e-5)
    got = tfbdl.log_predictive_density(model, X, Y, S, seed=3, batch_size=4)
    np.testing.assert_allclose(got, scipy.special.logsumexp(logs, axis=0) - np.log(S), 1e-5)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    np.testing.assert_allclose(tfbdl.elbo(model, data, num_samples=S, seed=3), bound, 1e-5)


def test_training_is_that_of_keras() -> None:
    """One step over all examples of a network without noise, by either loop."""
    models = [network(random=False) for _ in range(2)]
    history = tfbdl.train(models[0], X, Y, epochs=2, batch_size=N, verbose=0)
    expected = models[1].fit(X, Y, epochs=2, batch_size=N, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], expected["loss"], 1e-5)
    for a, b in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def methods() -> dict[str, Any]:
    def swag() -> Any:
        method = inference.SWAG(network(random=False), rank=2)
        return method.fit(X, Y, epochs=4, batch_size=N, verbose=0)

    def members() -> Any:
        method = inference.DeepEnsemble(network(random=False), 3)
        return method.fit(X, Y, epochs=1, batch_size=N, verbose=0)

    def chain() -> Any:
        method = inference.MCMC(
            network(random=False), 1.0, num_chains=2, num_warmup=5, num_samples=3
        )
        return method.fit(X, Y, verbose=0)

    def nn() -> Any:
        return inference.Laplace(network(random=False), pred_type="nn").fit(X, Y)

    return {"SWAG": swag, "DeepEnsemble": members, "MCMC": chain, "Laplace": nn}


@pytest.mark.parametrize("name", methods())
def test_posteriors(name: str) -> None:
    """The mean over the drawn networks, one by one, and the density of both outputs together."""
    posterior = methods()[name]()
    ensemble = posterior.ensemble(3, seed=1)
    got = tfbdl.predict(ensemble, X, 3, seed=2, return_samples=True, verbose=0)
    each = [head(ensemble.network, n) for n in LAWS]
    trainable = ensemble.network.trainable_variables
    outputs: dict[str, list[Any]] = {n: [] for n in LAWS}
    for theta in map(ensemble.theta, range(3)):
        for v, part in zip(
            trainable,
            np.split(theta, np.cumsum([int(np.prod(v.shape)) for v in trainable])[:-1]),
            strict=True,
        ):
            v.assign(part.reshape(v.shape))
        for n, one in zip(LAWS, each, strict=True):
            outputs[n].append(one(X).numpy())
    for n in LAWS:
        ours = np.sort(got[n].outputs, axis=0)
        np.testing.assert_allclose(ours, np.sort(outputs[n], axis=0), 1e-4, 1e-5)
    np.testing.assert_allclose(
        got["kind"].mean, np.mean(scipy.special.softmax(outputs["kind"], axis=-1), 0), 1e-4, 1e-5
    )
    logs = tfbdl.log_predictive_density(ensemble, X, Y, 3, seed=2)
    expected = scipy.special.logsumexp(log_probs(got), axis=0) - np.log(3)
    np.testing.assert_allclose(logs, expected, 1e-4)


def test_log_posterior() -> None:
    model = network(random=False)
    posterior = inference.LogPosterior(model, 1.0, X, Y, dtype="float64")
    expected = sum(WEIGHTS[n] * log_prob(n, Y[n], head(model, n)(X)).sum() for n in LAWS)
    np.testing.assert_allclose(posterior.log_likelihood(posterior.theta), expected, 1e-5)


def ggn(model: keras.Model) -> Any:
    """Sum of w J^T F J over the outputs, gradient by gradient, shape (D, D)."""
    total: Any = 0.0
    weights = [v.value for v in model.trainable_variables]
    for n in LAWS:
        with tf.GradientTape(persistent=True) as tape:
            f = head(model, n)(X)
            columns = tf.unstack(f, axis=1)
            numbers = [tf.unstack(column) for column in columns]
        j = np.array(
            [
                [
                    np.concatenate(
                        [
                            np.ravel(g)
                            for g in tape.gradient(
                                numbers[k][i], weights, unconnected_gradients="zero"
                            )
                        ]
                    )
                    for k in range(len(columns))
                ]
                for i in range(N)
            ],
            np.float64,
        )
        p = scipy.special.softmax(np.asarray(f, np.float64), axis=-1)
        fisher = np.eye(2)[None].repeat(N, 0) / 0.3**2
        if n == "kind":
            fisher = np.stack([np.diag(q) - np.outer(q, q) for q in p])
        total += WEIGHTS[n] * np.einsum("nki,nkl,nlj->ij", j, fisher, j)
    return total


def test_laplace() -> None:
    """Covariance of all weights; predictions by the linearised outputs' own blocks."""
    model = network(random=False)
    laplace = inference.Laplace(
        model, subset_of_weights="all", hessian_structure="full", prior_precision=2.0
    ).fit(X, Y, batch_size=4)
    h = ggn(model)
    precision = h + 2.0 * np.eye(len(h))
    draws = laplace.sample(20_000, seed=1)
    covariance = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        np.cov(draws.T) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=5 / np.sqrt(20_000)
    )
    logs = sum(WEIGHTS[n] * log_prob(n, Y[n], head(model, n)(X)).sum() for n in LAWS)
    theta = np.concatenate([np.ravel(w) for w in model.get_weights()])
    evidence = (
        logs
        - 0.5 * 2.0 * theta @ theta
        + 0.5 * len(h) * np.log(2.0)
        - 0.5 * np.linalg.slogdet(precision)[1]
    )
    np.testing.assert_allclose(laplace.log_marginal_likelihood(), evidence, 1e-4)
    got = tfbdl.predict(laplace, X, 50, seed=1, verbose=0)
    mean, covariances = laplace.function_moments(X)
    assert mean.shape == (N, 6)
    np.testing.assert_allclose(mean[:, 4:], head(model, "price")(X), 1e-4, 1e-5)
    variance = np.diagonal(covariances, axis1=1, axis2=2)[:, 4:]
    np.testing.assert_allclose(got["price"].epistemic_variance, variance, 1e-4)
    np.testing.assert_allclose(got["price"].mean, head(model, "price")(X), 1e-4, 1e-5)
    np.testing.assert_allclose(got["kind"].mean.sum(axis=-1), 1.0, 1e-5)


def fitted_and_validation_data() -> Any:
    """A network that has been trained, and data for which each output has its own best prior."""
    model, rng = network(random=False), np.random.default_rng(2)
    model.fit(X, Y, epochs=300, verbose=0)
    x = rng.normal(size=(200, 3)).astype("float32")
    f = {name: np.asarray(outputs) for name, outputs in model(x).items()}
    kinds = np.argmax(f["kind"] + rng.gumbel(size=(200, 4)), axis=-1)
    prices = (f["price"] + 0.6 * rng.normal(size=(200, 2))).astype("float32")
    return inference.Laplace(model).fit(X, Y), x, {"kind": kinds, "price": prices}


def test_the_prior_precision_of_the_likeliest_validation_data() -> None:
    """By the outputs' own mean log probabilities, weighted as their losses are."""
    laplace, x, y = fitted_and_validation_data()
    grid = list(np.logspace(-1, 2, 13))
    scores = []
    for delta in grid:
        laplace.prior_precision = delta
        kind, price = tfbdl.predict(laplace, x, 100, seed=0, verbose=0).values()
        log_p = np.log(kind.mean[np.arange(200), y["kind"]]).mean()
        scores.append([log_p, price.log_prob(y["price"]).mean()])
    best = {w: grid[int(np.argmax(np.dot(scores, w)))] for w in ((2, 0.5), (1, 1), (1, 0), (0, 1))}
    assert len(set(best.values())) == 4
    laplace.optimize_prior_precision("gridsearch", x=x, y=y, grid=grid)
    assert float(laplace.prior_precision) == best[2, 0.5]


def test_validation_data_of_another_structure() -> None:
    """In the order of their keys they would be taken for each other."""
    laplace = inference.Laplace(network(random=False)).fit(X, Y)
    kinds, prices = Y.values()
    message = r"^y is .*, and the likelihoods are a dictionary of 'kind', 'price'; give one for"
    for y in ([kinds, prices], {"kind": kinds, "cost": prices}, [kinds], kinds):
        with pytest.raises(ValueError, match=message):
            laplace.optimize_prior_precision("gridsearch", x=X, y=y)
    with pytest.raises(ValueError, match=r"^output 'kind': "):
        laplace.optimize_prior_precision("gridsearch", x=X, y={**Y, "kind": KINDS + 9})


def test_empirical_bayes() -> None:
    """Trains under delta / (2 N) |w|^2, as by a regulariser of that strength, and then searches."""
    model = network(random=False)
    laplace = inference.Laplace(model, subset_of_weights="all", prior_precision=30.0)
    callback = inference.EmpiricalBayes(laplace, X, Y, start=5, every=1, prior_structure="scalar")
    other = network(random=False)
    for weight in other.trainable_variables:
        weight.regularizer = keras.regularizers.L2(30.0 / (2 * N))
    model.fit(X, Y, epochs=6, batch_size=N, callbacks=[callback], verbose=0)
    other.fit(X, Y, epochs=6, batch_size=N, verbose=0)
    for own, expected in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(own, expected, 1e-5, 1e-6)
    assert list(callback.log_marginal_likelihood) == [6]
    again = inference.Laplace(model, subset_of_weights="all").fit(X, Y)
    again.optimize_prior_precision()
    np.testing.assert_allclose(laplace.prior_precision, again.prior_precision, 1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"likelihood": {"kind": Categorical(), "price": Normal(0.1)}},
        {"likelihood": Joint(LAWS)},
        {"likelihood": Joint({**LAWS, "price": Normal("predicted")}, WEIGHTS)},
    ],
)
def test_empirical_bayes_under_another_loss(given: Any) -> None:
    """Another noise, other weights, another law."""
    model = network(random=False)
    callback = inference.EmpiricalBayes(inference.Laplace(model, **given), X, Y)
    with pytest.raises(ValueError, match=r"^loss=.* is not that of laplace; compile the model"):
        model.fit(X, Y, epochs=1, callbacks=[callback], verbose=0)


def test_replicates() -> None:
    """Data sets of each output about the outputs of one and the same function."""
    kept = tfbdl.predict(network(), X, 3000, seed=3, return_samples=True, verbose=0)
    y = tfbdl.checking.replicate(kept, seed=1)
    assert list(y) == ["kind", "price"]
    p = kept["kind"].mean
    for label in range(4):
        error = 4 * np.sqrt(p[:, label] * (1 - p[:, label]) / 3000)
        assert (np.abs((y["kind"] == label).mean(axis=0) - p[:, label]) < error).all()
    noise = (y["price"] - kept["price"].outputs) / 0.3
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * noise.size)


def test_replicates_name_the_output() -> None:
    kept: Any = tfbdl.predict(network(), X, S, seed=3, return_samples=True, verbose=0)
    unknown = tfbdl.predict(network(compiled=False), X, S, return_samples=True, verbose=0)
    for prediction, message in (
        ({**kept, "price": unknown["price"]}, r"^output 'price': prediction has no likelihood"),
        ([], r"^prediction=\[\] is empty; give what tfbdl.predict gives"),
    ):
        with pytest.raises(ValueError, match=message):
            tfbdl.checking.replicate(prediction)


@pytest.mark.parametrize("link_approx", ["probit", "bridge"])
def test_one_link_is_not_for_all_outputs(link_approx: str) -> None:
    with pytest.raises(ValueError, match=f"^link_approx='{link_approx}' is not for all of several"):
        inference.Laplace(network(random=False), link_approx=link_approx)


def test_moments_of_each_output_have_no_joint_density() -> None:
    laplace = inference.Laplace(network(random=False)).fit(X, Y)
    with pytest.raises(ValueError, match=r"^pred_type='glm' knows moments of each output and no"):
        tfbdl.log_predictive_density(laplace, X, Y, S)


def test_the_last_layer_of_each_output() -> None:
    laplace = inference.Laplace(network(random=False)).fit(X, Y)
    assert laplace.paths == ["kind/kernel", "kind/bias", "price/kernel", "price/bias"]
    one = tfbdl.predict(laplace, X, S, seed=1, verbose=0)
    assert min(one[n].epistemic_variance.min() for n in LAWS) > 0


@pytest.mark.parametrize("structure", [list, tuple])
def test_losses_in_a_list(structure: Any) -> None:
    """Keras keeps lists that are given to `compile` in a class of its own."""
    model, other = network(structure=structure), network(structure=structure)
    loss = [keras.losses.SparseCategoricalCrossentropy(from_logits=True), LAWS["price"]]
    other.compile(keras.optimizers.SGD(0.01), loss, loss_weights=list(WEIGHTS.values()))
    y = structure(Y.values())
    for call in (
        lambda m: tfbdl.elbo(m, X, y, S, seed=0).log_likelihood,
        lambda m: tfbdl.train(m, X, y, epochs=2, batch_size=4, verbose=0)["loss"],
        lambda m: tfbdl.predict(m, X, S, seed=3, verbose=0)[1].mean,
        lambda m: inference.SWAG(tfbdl.to_deterministic(m)).fit(X, y, epochs=2, verbose=0).mean,
    ):
        np.testing.assert_allclose(call(other), call(model), 1e-5)


def prices(outputs: Any, loss: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    h = keras.layers.Dense(6, "tanh")(inputs)
    heads = [_dense(2, "one")(h), _dense(2, "two")(h)]
    model = keras.Model(inputs, outputs(*heads))
    model.compile("sgd", loss)
    return model


@pytest.mark.parametrize("structure", [lambda a, b: [a, b], lambda a, b: {"one": a, "two": b}])
@pytest.mark.parametrize("given", [None, "normal"])
def test_one_likelihood_is_that_of_each_output(structure: Any, given: Any) -> None:
    """As Keras takes one loss for several outputs."""
    model, y = prices(structure, Normal(1.0)), structure(PRICES, -PRICES)
    each = keras.tree.map_structure(lambda _: Normal(1.0), y)
    got, expected = (
        tfbdl.predict(inference.Laplace(model, likelihood).fit(X, y), X, S, verbose=0)
        for likelihood in (given, each)
    )
    keras.tree.assert_same_structure(got, expected)
    for one, other in zip(keras.tree.flatten(got), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(one.epistemic_variance, other.epistemic_variance)


def test_one_loss_is_that_of_each_output() -> None:
    """In the value of Keras' own `evaluate`, too."""
    y = {"one": PRICES, "two": -PRICES}
    model = prices(lambda a, b: {"one": a, "two": b}, Normal(0.3))
    each = prices(lambda a, b: {"one": a, "two": b}, {"one": Normal(0.3), "two": Normal(0.3)})
    bound = tfbdl.elbo(model, X, y, 1)
    losses = [m.evaluate(X, y, verbose=0)[0] for m in (model, each)]
    np.testing.assert_allclose([-bound.log_likelihood, losses[0]], losses[1], 1e-5)


def test_one_weight_is_that_of_each_loss() -> None:
    y = {"one": PRICES, "two": -PRICES}
    model = prices(lambda a, b: {"one": a, "two": b}, Normal(0.3))
    whole = tfbdl.elbo(model, X, y, 1).log_likelihood
    model.compile("sgd", Normal(0.3), loss_weights=0.5)
    np.testing.assert_allclose(tfbdl.elbo(model, X, y, 1).log_likelihood, whole / 2, 1e-6)
    np.testing.assert_allclose(-whole / 2, model.evaluate(X, y, verbose=0)[0], 1e-5)


class TwoOutputs(keras.Model):
    """A network that does not say what its outputs are before it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = [_dense(2, "one"), _dense(2, "two")]

    def call(self, x: Any) -> Any:
        return {head.name: head(x) for head in self.heads}


def test_a_subclassed_network_is_given_one_for_each() -> None:
    model = TwoOutputs()
    model.compile("sgd", Normal(0.3))
    with pytest.raises(ValueError, match="is one for 2 outputs of"):
        tfbdl.elbo(model, X, {"one": PRICES, "two": -PRICES}, 1)


@pytest.mark.parametrize(
    ("structure", "loss"),
    [
        (lambda a, _: a, {"one": Normal(0.3)}),
        (lambda a, _: a, [Normal(0.3)]),
        (lambda a, _: [a], {"one": Normal(0.3)}),
        (lambda a, _: [a], [Normal(0.3)]),
        (lambda a, _: [a], Normal(0.3)),
        (lambda a, _: {"one": a}, Normal(0.3)),
        (lambda a, _: {"one": a}, {"one": Normal(0.3)}),
    ],
)
def test_one_output_in_every_way(structure: Any, loss: Any) -> None:
    """As Keras' own `fit` takes its loss."""
    model, alone = prices(structure, loss), prices(lambda a, _: a, Normal(0.3))
    y = {"one": PRICES} if isinstance(model.output, dict) else PRICES
    model.fit(X, y, verbose=0)
    model.set_weights(alone.get_weights()[: len(model.weights)])
    got, expected = (
        tfbdl.predict(inference.Laplace(m).fit(X, targets), X, S, verbose=0)
        for m, targets in ((model, y), (alone, PRICES))
    )
    got = got["one"] if isinstance(got, dict) else got
    np.testing.assert_allclose(got.epistemic_variance, expected.epistemic_variance, 1e-6)
    losses = [
        tfbdl.train(m, X, targets, epochs=2, batch_size=4, verbose=0)["loss"]
        for m, targets in ((model, y), (alone, PRICES))
    ]
    np.testing.assert_allclose(*losses, 1e-5)


@pytest.mark.parametrize(
    ("y", "likelihood", "message"),
    [
        ({"kind": KINDS}, None, "^y is a dictionary of 'kind', and the .* are a dictionary of"),
        (KINDS, None, "^y is one array, and the "),
        ({**Y, "kind": KINDS + 1}, None, "^output 'kind': y has the label 4"),
        (Y, Categorical(), "^output 'price': y "),
        (Y, {"kind": "categorical", "cost": Normal()}, "^likelihood has the key 'cost'; the out"),
        (Y, [Categorical()], "^likelihood has 1 parts for 2 outputs; give one for each"),
        (Y, {"kind": "mse", "price": Normal()}, "^likelihood='mse' is a loss that gives y no"),
    ],
)
def test_refusals(y: Any, likelihood: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfbdl.elbo(network(), X, y, S, likelihood=likelihood)


@pytest.mark.parametrize(
    "y", [{"kind": KINDS}, KINDS, {**Y, "kind": KINDS + 1}, {**Y, "kind": KINDS[:5]}]
)
def test_refusals_of_training(y: Any) -> None:
    with pytest.raises(ValueError, match=r"^y |^output 'kind': y has the label 4"):
        tfbdl.train(network(), X, y, epochs=1, batch_size=4, verbose=0)
    with pytest.raises(ValueError, match=r"^y |^output 'kind': y has the label 4"):
        inference.Laplace(network(random=False)).fit(X, y)


@pytest.mark.parametrize(
    ("likelihoods", "weights", "message"),
    [
        (Normal(), None, "^likelihoods=.* must be a dictionary, list or tuple of objects"),
        ({"a": "normal"}, None, "^likelihoods=.* must be a dictionary, list or tuple of objects"),
        ({"a": Normal()}, {"a": -1.0}, "^weights=-1.0 must be not negative$"),
        ({"a": Normal()}, [1.0], "^weights is a list of 1, and the likelihoods are a dictionary"),
    ],
)
def test_joint_is_checked(likelihoods: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Joint(likelihoods, weights)


def test_joint_is_saved() -> None:
    joint = Joint({"a": [Normal(0.2), None], "b": Categorical()}, {"a": [1.0, 2.0], "b": 0.5})
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(joint))
    assert again.get_config() == joint.get_config()
    assert again.names == ["a_0", "a_1", "b"]
    same = Joint({"a": {"b_c": Normal()}, "a_b": {"c": Normal()}})
    assert same.names == ["a_b_c", "a_b_c_"]


def test_joint_moments() -> None:
    """Each output has its own, in their structure."""
    outputs = {"kind": RNG.normal(size=(N, 4)), "price": RNG.normal(size=(N, 2))}
    joint = Joint(LAWS)
    for moments in ("mean", "variance"):
        got = getattr(joint, moments)(outputs)
        for name, law in LAWS.items():
            np.testing.assert_array_equal(got[name], getattr(law, moments)(outputs[name]))
    with pytest.raises(ValueError, match=r"^likelihood of the output 'a' is not known; give one$"):
        Joint({"a": None}).mean({"a": X})


@pytest.mark.parametrize("structure", [dict, list])
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_of_raw_scales(structure: Any, weighted: bool) -> None:
    """Where one output holds them, Keras' own metrics of that output are refused, and no others."""
    inputs = keras.Input((3,))
    h = MCDropout(0.4)(inputs)
    heads = {"kind": _dense(4, "kind")(h), "price": _dense(4, "price")(h)}
    laws = {"kind": Categorical(), "price": Normal("predicted")}
    model = keras.Model(inputs, heads if structure is dict else list(heads.values()))
    key = "weighted_metrics" if weighted else "metrics"

    def ask(metrics: Any) -> Any:
        model.compile("sgd", laws, **{key: metrics})
        return tfbdl.predict(model, X, 2, verbose=0)

    ask({"kind": ["accuracy"]})
    ask({"price": [tfbdl.metrics.OfMean(keras.metrics.MeanSquaredError(), laws["price"])]})
    ask([["accuracy"], []])
    for wrong in ({"price": "mse"}, {"kind": "accuracy", "price": ["mae"]}, [[], ["mse"]], ["mae"]):
        with pytest.raises(ValueError, match=r"^metrics='m.e' would compare y with all outputs"):
            ask(wrong)
