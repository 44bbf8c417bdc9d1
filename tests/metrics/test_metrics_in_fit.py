"""All metrics in `compile`, `fit`, and `evaluate`, in graphs."""

import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import metrics

RNG = np.random.default_rng(0)
X = RNG.normal(size=(203, 5)).astype(np.float32)
Y = np.argmax(X[:, :3] + RNG.normal(size=(203, 3)), axis=1)

FUNCTIONS = {
    "negative_log_likelihood": metrics.negative_log_likelihood,
    "brier_score": metrics.brier_score,
    "expected_calibration_error": metrics.expected_calibration_error,
    "maximum_calibration_error": metrics.maximum_calibration_error,
    "adaptive_calibration_error": metrics.adaptive_calibration_error,
    "error_auroc": lambda y, p: metrics.error_auroc(y, p, -p.max(axis=1)),
    "error_aupr": lambda y, p: metrics.error_aupr(y, p, -p.max(axis=1)),
    "area_under_risk_coverage": lambda y, p: metrics.area_under_risk_coverage(y, p, -p.max(axis=1)),
}


def of_sums(from_logits: bool = False) -> Any:
    return [
        metrics.NegativeLogLikelihood(from_logits),
        metrics.BrierScore(from_logits),
        metrics.ExpectedCalibrationError(from_logits=from_logits),
        metrics.MaximumCalibrationError(from_logits=from_logits),
    ]


def of_ranks(from_logits: bool = False) -> Any:
    return [
        metrics.AdaptiveCalibrationError(from_logits=from_logits),
        metrics.ErrorAUROC(from_logits),
        metrics.ErrorAUPR(from_logits),
        metrics.AreaUnderRiskCoverage(from_logits),
    ]


def classifier(activation: str = "softmax", rate: float = 0.0, **compiled: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, activation)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=activation is None)
    model.compile(keras.optimizers.SGD(rate), loss, **compiled)
    return model


class FitTest(tf.test.TestCase, parameterized.TestCase):
    def check(self, logs: Any, p: Any, names: Any, prefix: str = "") -> None:
        for name in names:
            expected = FUNCTIONS[name](Y, p)
            self.assertAllClose(logs[prefix + name], expected, 1e-6, 1e-6, msg=name)

    @parameterized.parameters(1, 3)
    def test_fit_and_evaluate(self, steps_per_execution: Any) -> None:
        """The learning rate is 0, so that an epoch's values are those of one model."""
        model = classifier(
            metrics=of_sums() + of_ranks(),
            jit_compile=False,
            steps_per_execution=steps_per_execution,
        )
        p = model.predict(X, verbose=0)
        history = model.fit(
            X, Y, batch_size=32, epochs=2, validation_data=(X, Y), verbose=0
        ).history
        for epoch in range(2):
            logs = {name: values[epoch] for name, values in history.items()}
            self.check(logs, p, FUNCTIONS)
            self.check(logs, p, FUNCTIONS, "val_")
        logs = model.evaluate(X, Y, batch_size=50, return_dict=True, verbose=0)
        self.check(logs, p, FUNCTIONS)

    def test_each_step_knows_the_batches_so_far(self) -> None:
        model = classifier(metrics=of_ranks(), jit_compile=False)
        p = model.predict(X, verbose=0)
        seen = []
        callback = keras.callbacks.LambdaCallback(
            on_test_batch_end=lambda batch, logs: seen.append(float(logs["error_auroc"]))
        )
        model.evaluate(X, Y, batch_size=50, callbacks=[callback], verbose=0)
        for value, stop in zip(seen, (50, 100, 150, 200, 203), strict=True):
            expected = FUNCTIONS["error_auroc"](Y[:stop], p[:stop])
            self.assertAllClose(value, expected, 1e-6)

    def test_logits_and_xla(self) -> None:
        model = classifier(None, metrics=of_sums(from_logits=True), jit_compile=True)
        p = metrics.apply_temperature(model.predict(X, verbose=0), 1.0)
        logs = model.evaluate(X, Y, batch_size=64, return_dict=True, verbose=0)
        self.check(logs, p, [metric.name for metric in of_sums()])

    def test_ranks_of_logits_and_a_model_that_learns(self) -> None:
        model = classifier(None, 0.5, metrics=of_ranks(from_logits=True), jit_compile=False)
        history = model.fit(X, Y, batch_size=32, epochs=3, verbose=0).history
        self.assertLess(
            history["area_under_risk_coverage"][-1], history["area_under_risk_coverage"][0]
        )
        p = metrics.apply_temperature(model.predict(X, verbose=0), 1.0)
        logs = model.evaluate(X, Y, batch_size=64, return_dict=True, verbose=0)
        self.check(logs, p, [metric.name for metric in of_ranks()])

    def test_weighted_metrics(self) -> None:
        model = classifier(weighted_metrics=of_sums(), jit_compile=False)
        p = model.predict(X, verbose=0)
        weights = np.arange(len(Y)) % 3
        logs = model.evaluate(X, Y, 64, sample_weight=weights, return_dict=True, verbose=0)
        for metric in of_sums():
            expected = FUNCTIONS[metric.name](np.repeat(Y, weights), np.repeat(p, weights, axis=0))
            self.assertAllClose(logs[metric.name], expected, 1e-6)

    def test_logits_taken_for_probabilities_are_refused(self) -> None:
        model = classifier(None, metrics=[metrics.BrierScore()], jit_compile=False)
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "looks like logits"):
            model.evaluate(10 * X, Y, verbose=0)

    def test_saved_with_the_model(self) -> None:
        model = classifier(metrics=[metrics.ExpectedCalibrationError(7)], jit_compile=False)
        expected = model.evaluate(X, Y, return_dict=True, verbose=0)
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/model.keras"
            model.save(path)
            again = keras.models.load_model(path).evaluate(X, Y, return_dict=True, verbose=0)
        self.assertAllClose(
            again["expected_calibration_error"], expected["expected_calibration_error"]
        )

    def test_references_and_intervals(self) -> None:
        reference = metrics.apply_temperature(RNG.normal(size=(203, 3)), 1.0)
        model = classifier(jit_compile=False)
        model.compile(loss="kl_divergence", metrics=[metrics.Agreement(), metrics.TotalVariation()])
        p = model.predict(X, verbose=0)
        logs = model.evaluate(X, reference, batch_size=64, return_dict=True, verbose=0)
        self.assertAllClose(logs["agreement"], metrics.agreement(p, reference), 1e-6)
        self.assertAllClose(logs["total_variation"], metrics.total_variation(p, reference), 1e-6)

    def test_normal_predictions(self) -> None:
        y = X[:, 0] + RNG.normal(size=203)
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
        model.compile(
            keras.optimizers.Adam(0.1),
            tfbdl.likelihoods.Normal("predicted"),
            metrics=[metrics.NormalCRPS(from_raw=True)],
        )
        history = model.fit(X, y, batch_size=32, epochs=2, verbose=0).history["normal_crps"]
        self.assertLess(history[1], history[0])
        mean, raw = model.predict(X, verbose=0).astype(np.float64).T
        expected = metrics.crps_normal(y, mean, np.logaddexp(0, raw) + 1e-6)
        logs = model.evaluate(X, y, batch_size=64, return_dict=True, verbose=0)
        self.assertAllClose(logs["normal_crps"], expected, 1e-6)

    def test_in_the_loop_of_tfbdl(self) -> None:
        model = classifier(rate=0.1, metrics=of_sums())
        columns = tfbdl.train(model, X[:64], Y[:64], epochs=1, batch_size=32, verbose=0)
        for metric in of_sums():
            self.assertTrue(np.isfinite(columns[metric.name]).all())

    def test_several_values_of_one_metric_in_the_loop_of_tfbdl(self) -> None:
        model = classifier(metrics=[metrics.BrierDecomposition(3)])
        columns = tfbdl.train(model, X[:64], Y[:64], epochs=1, batch_size=32, verbose=0)
        expected = metrics.brier_decomposition(Y[:64], model.predict(X[:64], verbose=0))
        self.assertAllClose(columns["brier_reliability"], [expected.reliability], 1e-5)
        self.assertAllClose(columns["brier_uncertainty"], [expected.uncertainty], 1e-5)


if __name__ == "__main__":
    tf.test.main()
