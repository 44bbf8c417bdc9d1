"""`tfbdl.train` under `tf.distribute`: two logical CPUs, in a process of their own."""

import functools
import multiprocessing
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest
from output_metrics import Moments

import tfbdl

N, BATCH = 40, 16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])


def two_devices() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@functools.cache
def strategy(name: str) -> Any:
    """One object of each kind in a process: a second one would take the first one's collectives."""
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    if name == "mirrored on one":
        return tf.distribute.MirroredStrategy(["CPU:0"])
    if name == "one device":
        return tf.distribute.OneDeviceStrategy("CPU:0")
    return tf.distribute.get_strategy()


def model(kind: Any, name: str, rate: float = 0.05) -> Any:
    with strategy(name).scope():
        keras.utils.set_random_seed(3)
        hidden = {
            "dense": lambda: keras.layers.Dense(8, "tanh", kernel_regularizer="l2"),
            "bayes": lambda: tfbdl.layers.BayesDense(8, "tanh", num_data=N, use_bias=False, seed=1),
            "concrete": lambda: tfbdl.layers.ConcreteDropout(
                keras.layers.Dense(8), num_data=N, lengthscale=2.0, seed=1
            ),
            "dropout": lambda: tfbdl.layers.MCDropout(0.5, seed=1),
            "unbuilt": lambda: keras.layers.Dense(8, "tanh", kernel_regularizer="l2"),
        }[kind]()
        inputs = [] if kind == "unbuilt" else [keras.Input((4,))]
        result = keras.Sequential([*inputs, hidden, keras.layers.Dense(3)])
        result.compile(
            keras.optimizers.Adam(rate),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=[
                keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
                keras.metrics.SparseCategoricalAccuracy(name="acc"),
            ],
        )
    return result


def train(subject: Any, **kwargs: Any) -> Any:
    arguments = {
        "epochs": 3,
        "batch_size": BATCH,
        "seed": 7,
        "verbose": 0,
        "jit_compile": False,
        **kwargs,
    }
    x, y = arguments.pop("x", X), arguments.pop("y", Y)
    return tfbdl.train(subject, x, y, **arguments)


def weights(subject: Any) -> Any:
    return [np.array(w) for w in subject.get_weights()]


def trained(kind: Any, name: str, rate: float = 0.05, **kwargs: Any) -> Any:
    """History and weights of a training run."""
    subject = model(kind, name, rate)
    return train(subject, **kwargs), weights(subject)


def resumed(folder: Any) -> Any:
    """Three epochs in one part and in two, the second by a model that starts with other weights.

    Returns history, log and the values of all variables on all replicas, for either run.
    """
    runs = []
    for name, parts in (("whole", [3]), ("parts", [2, 3])):
        for epochs in parts:
            subject = model("dropout", "mirrored")
            if epochs != parts[0]:
                for weight in subject.weights:
                    weight.assign(weight.value * 0 + tf.cast(5, weight.dtype))
            history = train(subject, savedir=Path(folder) / name, epochs=epochs)
        values = [
            [np.array(part) for part in strategy("mirrored").experimental_local_results(v.value)]
            for v in (*subject.variables, *subject.optimizer.variables)
        ]
        log = (Path(folder) / name / "train.log").read_text()
        runs.append((history, re.sub(r"\(.* secs\)", "", log), values))
    return runs


def output_variance(name: str) -> Any:
    """Variance of the outputs over one global batch of equal rows, per epoch of one step."""
    with strategy(name).scope():
        keras.utils.set_random_seed(3)
        layer = tfbdl.layers.BayesDense(1, num_data=N, seed=1)
        subject = keras.Sequential([keras.Input((4,)), layer])
        subject.compile(
            keras.optimizers.SGD(0.0),
            "mse",
            metrics=[Moments(1, "first"), Moments(2, "second")],
        )
    history = train(
        subject, x=np.ones((8, 4), "float32"), y=np.zeros((8, 1)), epochs=5, batch_size=8
    )
    return np.subtract(history["second"], np.square(history["first"])), history


def refused(batch_size: Any, folder: Any, x: Any = X, y: Any = Y) -> Any:
    subject = model("dense", "mirrored")
    try:
        train(subject, batch_size=batch_size, savedir=folder, x=x, y=y)
    except Exception as error:
        return type(error), str(error)
    return None


def poisoned() -> Any:
    x = X.copy()
    x[:] = 3e38
    subject = model("dropout", "mirrored")
    subject.layers[-1].kernel.assign(np.full((4, 3), 5.0))
    try:
        train(subject, x=x)
    except tfbdl.TrainingError as error:
        return str(error)
    return None


def logged_by_fit(path: Any) -> Any:
    """The log that `TrainLogger` writes, and the KL by hand before each batch."""
    subject = model("bayes", "mirrored")
    layer, seen = subject.layers[0], []

    def kl(batch: Any, logs: Any) -> None:
        mu, rho = (np.asarray(v.value, np.float64) for v in (layer.kernel.mu, layer.kernel.rho))
        sigma = np.log1p(np.exp(rho))
        seen.append(0.5 * np.sum(mu**2 + sigma**2 - 1.0 - 2.0 * np.log(sigma)))

    subject.fit(
        X[:32],
        Y[:32],
        batch_size=16,
        epochs=2,
        verbose=0,
        callbacks=[
            keras.callbacks.LambdaCallback(on_train_batch_begin=kl),
            tfbdl.TrainLogger(path),
        ],
    )
    return tfbdl.read_log(path).metrics, np.reshape(seen, (2, 2)).mean(axis=1)


class StrategyTest(absltest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.pool = cls.enter_context(
            ProcessPoolExecutor(2, mp_context=CONTEXT, initializer=two_devices)
        )

    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def both(self, *calls: Any) -> Any:
        """Results of calls, run beside one another."""
        futures = [self.pool.submit(*call[:-1], **call[-1]) for call in calls]
        return [future.result(timeout=120) for future in futures]

    def assert_same(self, got: Any, expected: Any, tolerance: float = 1e-5) -> None:
        self.assertEqual(set(got[0]), set(expected[0]))
        for name, values in expected[0].items():
            np.testing.assert_allclose(
                got[0][name], values, rtol=tolerance, atol=tolerance, err_msg=name
            )
        for a, b in zip(got[1], expected[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

    def test_two_replicas_train_as_one_device(self) -> None:
        two, one = self.both((trained, "dense", "mirrored", {}), (trained, "dense", "none", {}))
        self.assertIn("wd", two[0])
        self.assert_same(two, one)

    def test_model_without_weights_yet(self) -> None:
        """They are made in the scope of the model's strategy, on either replica."""
        two, one = self.both((trained, "unbuilt", "mirrored", {}), (trained, "dense", "none", {}))
        self.assert_same(two, one)

    def test_strategies_of_one_replica(self) -> None:
        """Compiled as well: there is only one device."""
        *runs, plain = self.both(
            *(
                (trained, "dropout", name, {"jit_compile": True})
                for name in ("mirrored on one", "one device", "none")
            )
        )
        for run in runs:
            self.assert_same(run, plain)

    def test_kl_counts_once(self) -> None:
        """loss = cent + KL / N, and so in the gradient.

        The data are 0, where the weights of the first layer have no likelihood: the KL alone moves
        them, by the same steps on two replicas as on one.
        """
        zeros = {"x": 0.0 * X}
        two, one = self.both(
            (trained, "bayes", "mirrored", zeros), (trained, "bayes", "none", zeros)
        )
        for history, _ in (two, one):
            kl = np.array(history["kl"])
            penalty = np.subtract(history["loss"], history["cent"])
            np.testing.assert_allclose(penalty, kl / N, rtol=1e-4)
        np.testing.assert_allclose(two[0]["kl"], one[0]["kl"], rtol=1e-5)
        self.assertLess(one[0]["kl"][2], 0.99 * one[0]["kl"][0])
        kernels = [i for i, w in enumerate(one[1]) if w.shape == (4, 8)]
        self.assertEqual(len(kernels), 2)
        for i in kernels:
            np.testing.assert_allclose(two[1][i], one[1][i], rtol=1e-4, atol=1e-5)

    def test_learned_dropout_counts_once(self) -> None:
        ((history, _),) = self.both((trained, "concrete", "mirrored", {}))
        loss, cent, wd, ent = (np.array(history[k]) for k in ("loss", "cent", "wd", "ent"))
        np.testing.assert_allclose(loss - cent, (wd - ent) / N, rtol=1e-3, atol=1e-5)

    def test_replicas_have_noise_of_their_own(self) -> None:
        """Equal rows and one weight sample a replica: outputs vary iff it differs."""
        (two, moments), (one, _) = self.both(
            (output_variance, "mirrored", {}), (output_variance, "none", {})
        )
        np.testing.assert_allclose(one, 0.0, atol=1e-6)
        self.assertGreater(np.mean(two), 1e-3)
        self.assertGreater(np.ptp(moments["first"]), 1e-3)

    def test_batch_that_cannot_be_shared(self) -> None:
        run = str(self.folder / "run")
        for arguments in ({"batch_size": 15}, {"batch_size": 100, "x": X[:7], "y": Y[:7]}):
            ((kind, message),) = self.both((refused, arguments.pop("batch_size"), run, arguments))
            self.assertIs(kind, ValueError)
            self.assertRegex(message, "^batch_size=.* 2 replicas")
            self.assertNotIn("\n", message)
            self.assertFalse(Path(run).exists())

    def test_resume(self) -> None:
        """Bitwise the same, on either replica."""
        ((whole, parts),) = self.both((resumed, str(self.folder), {}))
        self.assertEqual(parts[0], {name: values[2:] for name, values in whole[0].items()})
        self.assertEqual(parts[1], whole[1])
        self.assertEqual(parts[1].count("train:"), 3)
        for a, b in zip(parts[2], whole[2], strict=True):
            self.assertEqual(len(a), 2)
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y)

    def test_not_finite(self) -> None:
        (message,) = self.both((poisoned, {}))
        self.assertIsNotNone(message, "no TrainingError")
        self.assertIn("epoch 1, step 1;", message)

    def test_train_logger_under_fit(self) -> None:
        ((metrics, by_hand),) = self.both((logged_by_fit, str(self.folder / "two.log"), {}))
        np.testing.assert_allclose(metrics["kl"], by_hand, rtol=1e-5)


if __name__ == "__main__":
    absltest.main()
