"""What `predict`, `elbo` and a `Prediction` refuse, in one line that says what to do."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers, likelihoods

RNG = np.random.default_rng(0)
N, D, C = 23, 4, 3
X = RNG.normal(size=(N, D)).astype("float32")
LABELS = RNG.integers(0, C, N)
ONE_HOT = np.eye(C)[LABELS]


def dataset(*arrays: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(7)


def classifier(activation: Any = None, units: Any = C) -> Any:
    model = keras.Sequential(
        [keras.Input((D,)), layers.MCDropout(0.5), keras.layers.Dense(units, activation)]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(activation is None))
    return model


class RefusalTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (-1, "^num_samples=-1 must be at least 0$"),
        (2.5, "^num_samples=2.5 must be an integer$"),
        (None, "^num_samples=None must be an integer$"),
    )
    def test_num_samples(self, num_samples: int, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            tfbdl.predict(classifier(), X, num_samples)

    def test_nothing_random(self) -> None:
        model = keras.Sequential([keras.Input((D,)), keras.layers.Dropout(0.5)], name="plain")
        with self.assertRaisesRegex(ValueError, "^model=plain has no random layer"):
            tfbdl.predict(model, X)
        self.assertAllClose(tfbdl.predict(model, X, 0).mean, X)

    @parameterized.parameters(
        (X[:0], r"^x has shape \(0, 4\); give at least one example$"),
        (np.where(X > 2, np.nan, X), "^x is not finite in example"),
        (np.where(X > 2, np.inf, X), "^x is not finite in example"),
        (X[:, :2], r"^x has examples of shape \(2,\), which model=.* does not take: .*4"),
        (np.array([["a"]]), r"^x has examples of text of shape \(1,\), which model=.* not take: "),
        (np.array(["a", 1], object), "^x holds 1 in example 1; give numbers or strings, or a tf"),
        (None, "^x=None is no array; give numbers or strings, or a tf.data.Dataset as x$"),
        (np.float32(1.0), "^x=1.0 is one value; give an array of examples$"),
        ([[1.0, 2.0], [3.0]], "^x has rows of different lengths; give one array$"),
        ([], "^x holds no array; give at least one$"),
        ([X, X[:3]], r"^x has arrays of \[3, 23\] examples; give equally many of each$"),
        (X[0], "^x has no axis of examples, where model=.* takes batches; give .*x.None"),
        (dataset(X).unbatch(), r"^x has no axis of examples, .* give data_set.batch\(100\)"),
        (dataset(X, LABELS).unbatch(), r"^x has no axis of examples, .* give data_set.batch"),
        (dataset(np.where(X > 2, np.nan, X)), "^x of batch 2 is not finite in example 5"),
    )
    def test_inputs(self, x: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message) as caught:
            tfbdl.predict(classifier(), x, 3)
        self.assertNotIn("\n", str(caught.exception))

    def test_empty_data_set(self) -> None:
        with self.assertRaisesRegex(ValueError, "^x has no batches"):
            tfbdl.predict(classifier(), tf.data.Dataset.from_tensor_slices(X).batch(3).take(0), 3)

    def test_batch_size(self) -> None:
        for wrong in (0, -1, 1.5):
            with self.assertRaisesRegex(ValueError, "^batch_size=.* positive integer$"):
                tfbdl.predict(classifier(), X, 3, batch_size=wrong)
        dataset = tf.data.Dataset.from_tensor_slices(X).batch(3)
        with self.assertRaisesRegex(ValueError, "^batch_size=5 is for arrays"):
            tfbdl.predict(classifier(), dataset, 3, batch_size=5)

    def test_logits_given_for_probabilities(self) -> None:
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy")
        with self.assertRaisesRegex(ValueError, "^outputs .* logits; use from_logits=True$"):
            tfbdl.predict(model, X, 3)

    @parameterized.parameters("model.keras", None, keras.layers.Dense(2))
    def test_no_model(self, model: Any) -> None:
        for function in (tfbdl.predict, tfbdl.elbo, tfbdl.log_predictive_density):
            with self.assertRaisesRegex(ValueError, "^model=.* is no keras.Model; give one"):
                function(model, X)

    @parameterized.parameters("gauss", "mse", keras.losses.MeanSquaredError())
    def test_no_likelihood(self, likelihood: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^likelihood=.* one of"):
            tfbdl.predict(classifier(), X, 3, likelihood=likelihood)

    @parameterized.parameters("softmax", "sigmoid")
    def test_probabilities_given_for_logits(self, activation: Any) -> None:
        family = {"softmax": likelihoods.Categorical, "sigmoid": likelihoods.Bernoulli}[activation]
        model = classifier(activation)
        if activation == "sigmoid":
            model.compile("sgd", "binary_crossentropy")
        with self.assertRaisesRegex(ValueError, "probabilities; use from_logits=False$") as caught:
            tfbdl.predict(model, X, 3, likelihood=family())
        self.assertNotIn("\n", str(caught.exception))
        prediction = tfbdl.predict(model, X, 3, seed=0, likelihood=family(from_logits=False))
        self.assertAllClose(prediction.mean, tfbdl.predict(model, X, 3, seed=0).mean, 1e-5)

    def test_outputs_that_cannot_be_halved(self) -> None:
        with self.assertRaisesRegex(ValueError, r"^outputs has shape .*; Normal\('predicted'\)"):
            tfbdl.predict(classifier(), X, 3, likelihood=likelihoods.Normal("predicted"))

    def test_a_model_that_has_diverged(self) -> None:
        model = classifier()
        model.layers[-1].bias.assign([0.0, np.nan, 0.0])
        with self.assertRaisesRegex(ValueError, "^model=.* has outputs that are NaN"):
            tfbdl.predict(model, X, 3)


TARGETS = (
    (
        likelihoods.Categorical(),
        LABELS + 1,
        "^y has the label 3; outputs of 3 classes need lab.*2$",
    ),
    (likelihoods.Categorical(), LABELS - 1, "^y has the label -1; outputs of 3 classes need lab"),
    (likelihoods.Categorical(), LABELS + 0.5, r"^y has the label \d.5; outputs of 3 classes need"),
    (
        likelihoods.Categorical(),
        2 * ONE_HOT - 1,
        "^y has the row .*; give one-hot labels, which sum to one$",
    ),
    (
        likelihoods.Categorical(),
        0.5 * ONE_HOT,
        "^y has the row .*; give one-hot labels, which sum to one$",
    ),
    (likelihoods.Categorical(), ONE_HOT[:, :2], r"^y has shape .*; outputs of shape \(2, 3\) need"),
    (likelihoods.Bernoulli(), 2 * ONE_HOT, r"^y has the value 2; give values in \[0, 1\]$"),
    (likelihoods.ContinuousBernoulli(), -ONE_HOT, r"^y has the value -1; give values in \[0, 1\]$"),
    (likelihoods.Poisson(), ONE_HOT - 1, "^y has the value -1; give counts 0, 1, ...$"),
    (likelihoods.Poisson(), ONE_HOT / 2, "^y has the value 0.5; give counts 0, 1, ...$"),
    (likelihoods.Normal(), X, r"^y has shape \(2, 4\); these outputs describe \(2, 3\)$"),
)


class TargetsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*TARGETS)
    def test_what_cannot_be_observed(self, likelihood: Any, y: Any, message: str) -> None:
        """XLA would compute with it: a label that is no class has the probability of another."""
        model = classifier()
        kept = tfbdl.predict(model, X, 2, likelihood=likelihood, return_samples=True)
        for call in (
            lambda: tfbdl.elbo(model, X, y, 2, likelihood=likelihood),
            lambda: tfbdl.log_predictive_density(model, dataset(X, y), likelihood=likelihood),
            lambda: kept.log_prob(y),
        ):
            with self.assertRaisesRegex(ValueError, message.replace("2, ", r"\d+, ")) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))

    @parameterized.parameters(
        (LABELS[:5], "^y has 5 examples and x has 23; give one y for each$"),
        (np.where(LABELS > 1, np.nan, 0.0), "^y is not finite in example"),
        (None, "^y=None: give targets"),
        ("a", "^y has dtype <U1; give numbers"),
        (1, "^y=1 is one value; give an array of examples$"),
        (LABELS[:0], r"^y has shape \(0,\); give at least one example$"),
    )
    def test_arrays(self, y: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            tfbdl.elbo(classifier(), X, y)
        with self.assertRaisesRegex(ValueError, "^y[ =]"):
            tfbdl.predict(classifier(), X, 2, return_samples=True).log_prob(y)

    def test_data_sets(self) -> None:
        model = classifier()
        expected = tfbdl.elbo(model, X, LABELS, 5, seed=1)
        self.assertAllClose(tfbdl.elbo(model, dataset(X, LABELS), None, 5, seed=1), expected, 1e-5)
        logs = tfbdl.log_predictive_density(model, dataset(X, LABELS), num_samples=5, seed=1)
        self.assertAllClose(logs, tfbdl.log_predictive_density(model, X, LABELS, 5, seed=1), 1e-5)
        for x, y, message in (
            (dataset(X), None, "^y=None: give targets"),
            (dataset(X, LABELS), LABELS, "^y is given, but x is a tf.data.Dataset"),
            (dataset(X, LABELS).take(0), None, "^x has no batches"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                tfbdl.elbo(model, x, y)


if __name__ == "__main__":
    tf.test.main()
