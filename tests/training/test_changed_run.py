"""A folder that holds the run of another model, loss or optimizer: what was changed is named."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from absl.testing import parameterized
from test_resume import BATCH, N, ResumeCase, contents, plain, train

import tfbdl
from tfbdl import kl_term
from tfbdl.training import checkpoint

BASE = {"units": 8, "activation": "tanh", "scale": 1.0, "rate": 0.2, "temperature": 0.1, "seed": 0}


def of_many_parts(
    *,
    optimizer: Any = None,
    loss: Any = None,
    before: bool = False,
    loss_weights: Any = None,
    **changes: Any,
) -> Any:
    """A network with a setting of every kind that leaves all shapes alone."""
    settings = {**BASE, **changes}
    keras.utils.set_random_seed(0)
    x = keras.Input((4,))
    prior = tfbdl.priors.Normal(settings["scale"])
    a = tfbdl.layers.BayesDense(
        settings["units"], settings["activation"], num_data=settings.get("num_data", N), prior=prior
    )(x)
    b = keras.layers.Dense(8, kernel_regularizer=settings.get("decay"))(x)
    c = keras.layers.Dense(8)(a)
    both = [c, b] if settings.get("turned") else [b, c]
    joined = keras.layers.Add()([a, keras.layers.Subtract()(both)])
    joined = keras.layers.Dropout(settings["rate"], seed=settings["seed"])(joined)
    layer = keras.layers.Dense(3, trainable=settings.get("trainable", True))
    concrete = tfbdl.layers.ConcreteDropout(
        layer,
        num_data=N,
        lengthscale=settings.get("lengthscale", 1.0),
        temperature=settings["temperature"],
    )
    model = keras.Model(x, concrete(joined))
    tfbdl.set_kl_weight(model, settings.get("kl_weight", 1.0))
    loss = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss, loss_weights=loss_weights)
    return model


CHANGES = {
    "activation": ({"activation": "relu"}, r'BayesDense\[\d+\].activation="tanh", not "relu"'),
    "prior": ({"scale": 0.5}, r"BayesDense\[\d+\].prior.config.scale=1.0, not 0.5"),
    "num_data": ({"num_data": N + 1}, r"num_data=50, not 51"),
    "weight of the KL": ({"kl_weight": 0.5}, r"kl_weight=\[1.0, 1.0\], not \[0.5, 0.5\]"),
    "rate": ({"rate": 0.3}, r"Dropout\[\d+\].rate=0.2, not 0.3"),
    "noise": ({"seed": 1}, r"Dropout\[\d+\].seed=0, not 1"),
    "regularizer": ({"decay": "l2"}, r"Dense\[\d+\].kernel_regularizer"),
    "temperature": ({"temperature": 0.5}, r"temperature=0.1, not 0.5"),
    "lengthscale": ({"lengthscale": 2.0}, r"lengthscale=1.0, not 2.0"),
    "frozen": ({"trainable": False}, r"trainable=true, not false"),
    "graph": ({"turned": True}, r"connections"),
    "optimizer": ({"optimizer": keras.optimizers.AdamW}, r'optimizer.class="Adam", not "AdamW"'),
    "rate of learning": (
        {"optimizer": lambda: keras.optimizers.Adam(0.5)},
        r"optimizer.learning_rate=0.01, not 0.5",
    ),
    "schedule": (
        {
            "optimizer": lambda: keras.optimizers.Adam(
                keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.5)
            )
        },
        "optimizer.learning_rate",
    ),
    "momentum": ({"optimizer": lambda: keras.optimizers.Adam(0.01, 0.5)}, "beta_1=0.9, not 0.5"),
    "loss": ({"loss": tfbdl.likelihoods.Categorical}, "loss.loss"),
    "setting of the loss": (
        {"loss": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=False)},
        "loss.loss.from_logits=true, not false",
    ),
    "weight of the loss": ({"loss_weights": [2.0]}, r"loss.weights=null, not \[2.0\]"),
}


def made(arguments: Any) -> Any:
    return of_many_parts(**{k: v() if callable(v) else v for k, v in arguments.items()})


class ChangedRunTest(ResumeCase, parameterized.TestCase):
    """What was changed is named, unless it was on purpose; what was not goes on."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.begun = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        train(of_many_parts(), cls.begun / "run", 1)

    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(self.begun / "run", self.folder, dirs_exist_ok=True)

    @parameterized.named_parameters((name, *change) for name, change in CHANGES.items())
    def test_change(self, arguments: Any, pattern: str) -> None:
        model = made(arguments)
        before, files = model.get_weights(), contents(self.folder)
        with self.assertRaisesRegex(ValueError, f"holds a run with .*{pattern}") as caught:
            train(model, self.folder, 2)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(contents(self.folder), files)
        self.assert_same_state(model.get_weights(), before)

    def test_no_change(self) -> None:
        keras.layers.Dense(1)  # whose name makes those of the next ones others
        history = train(of_many_parts(), self.folder, 2)
        self.assertLen(history["loss"], 1)

    def test_on_purpose(self) -> None:
        """Weights are kept, and an optimizer begins anew; later runs know what has changed."""
        model = made({"optimizer": lambda: keras.optimizers.SGD(0.0), "rate": 0.5})
        train(model, self.folder, 2, changed=["optimizer", "model"])
        self.assertEqual(int(model.optimizer.iterations), N // BATCH)
        kept = of_many_parts()
        checkpoint.restore(self.begun / "run" / "checkpoint.npz", kept, optimizer=False)
        for a, b in zip(kept.trainable_variables, model.trainable_variables, strict=True):
            self.assertAllEqual(a, b)
        with self.assertRaisesRegex(ValueError, 'optimizer.class="SGD", not "Adam"'):
            train(of_many_parts(rate=0.5), self.folder, 3)

    def test_the_rate_of_the_new_optimizer_holds(self) -> None:
        model = made({"optimizer": lambda: keras.optimizers.Adam(0.5)})
        train(model, self.folder, 2, changed="optimizer")
        self.assertAllClose(tfbdl.read_log(self.folder / "train.log").learning_rates, [0.01, 0.5])

    def test_the_new_weight_of_the_kl_holds(self) -> None:
        model = made({"kl_weight": 0.5})
        train(model, self.folder, 2, changed="model")
        for weight in kl_term.weights(model):
            self.assertEqual(float(weight), 0.5)

    def test_a_rate_that_a_callback_has_changed(self) -> None:
        """The same object comes back in a notebook with the rate that the callback left."""
        halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        model = plain()
        folder = self.folder.parent / "halved"
        for epochs in (2, 3):
            train(model, folder, epochs, callbacks=[halve])
        rates = tfbdl.read_log(folder / "train.log").learning_rates
        self.assertAllClose(rates, [0.005, 0.0025, 0.00125])
        model.optimizer.learning_rate = 0.3
        with self.assertRaisesRegex(ValueError, "optimizer.learning_rate=0.01, not 0.3"):
            train(model, folder, 4, callbacks=[halve])

    def test_models_without_a_config(self) -> None:
        class Own(keras.Model):
            def __init__(self, activation: Any, network: Any) -> None:
                super().__init__()
                self.inner = keras.layers.Dense(3, activation)
                self.network = network

            def call(self, x: Any, training: bool = False) -> Any:
                return self.inner(x)

        def own(activation: Any) -> Any:
            model = Own(activation, lambda x: x)
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            return model

        folder = self.folder.parent / "own"
        train(own("tanh"), folder, 1)
        train(own("tanh"), folder, 2)
        with self.assertRaisesRegex(ValueError, 'activation="tanh", not "relu"'):
            train(own("relu"), folder, 3)


if __name__ == "__main__":
    tf.test.main()
