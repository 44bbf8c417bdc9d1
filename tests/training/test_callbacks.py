"""`TrainLogger` under `model.fit` writes the log of `tfbdl.train`."""

import contextlib
import gc
import io
import resource
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl import kl_term
from tfbdl.kl_term import KLTerm

N, BATCH = 40, 16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)
OTHER = (10.0 * X[:20], Y[:20])


def classifier(*makers: Any, rate: float = 0.1, **kwargs: Any) -> Any:
    keras.utils.set_random_seed(3)
    layers = [make() for make in makers]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    model.compile(
        keras.optimizers.SGD(rate, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
            keras.metrics.SparseCategoricalAccuracy(name="acc"),
        ],
        **kwargs,
    )
    return model


@keras.saving.register_keras_serializable("tests")
class Toy(keras.layers.Dense):
    """A layer with a KL that is quick to compile: "kl" is 1/2 ||W||^2."""

    def __init__(self, units: int, activation: str = "tanh", **kwargs: Any) -> None:
        super().__init__(units, activation, **kwargs)
        self.kl_term = KLTerm(N)

    def call(self, x: Any, training: bool = False) -> Any:
        kl = 0.5 * tf.reduce_sum(tf.square(self.kernel))
        self.kl_term.add(kl, training, kl=kl)
        return super().call(x)


def toy(**kwargs: Any) -> Any:
    return classifier(lambda: Toy(8), **kwargs)


def toy_kl(layer: Any) -> Any:
    return 0.5 * np.sum(np.square(np.asarray(layer.kernel, np.float64)))


def first_toy(model: Any) -> Any:
    return toy_kl(model.layers[0])


def bayes(**kwargs: Any) -> Any:
    return classifier(lambda: tfbdl.layers.BayesDense(8, "tanh", num_data=N, seed=1), **kwargs)


def concrete(**kwargs: Any) -> Any:
    return classifier(
        lambda: tfbdl.layers.ConcreteDropout(
            keras.layers.Dense(8, "tanh"),
            num_data=N,
            lengthscale=1.0,
            logit_scale=10.0,
            seed=1,
        ),
        **kwargs,
    )


def kl_by_hand(layer: Any) -> Any:
    total = 0.0
    for q in (layer.kernel, layer.bias):
        mu, rho = (np.asarray(v.value, np.float64) for v in (q.mu, q.rho))
        sigma = np.log1p(np.exp(rho))
        total += 0.5 * np.sum(mu**2 + sigma**2 - 1.0 - 2.0 * np.log(sigma))
    return total


class AtBatches(keras.callbacks.Callback):
    """Measures something before each training batch; its means over the epochs' batches."""

    def __init__(self, measure: Any) -> None:
        super().__init__()
        self.measure = measure
        self.means: list[Any] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.values: list[Any] = []

    def on_train_batch_begin(self, batch: Any, logs: Any = None) -> None:
        self.values.append(self.measure(self.model))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.means.append(np.mean(self.values))


class CallbackCase(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.path = self.folder / "train.log"

    def fit(
        self,
        model: Any,
        x: Any = X,
        y: Any = Y,
        epochs: int = 3,
        callbacks: Any = (),
        **kwargs: Any,
    ) -> Any:
        arguments = {"batch_size": BATCH, "verbose": 0, "shuffle": False, **kwargs}
        return model.fit(x, y, epochs=epochs, callbacks=list(callbacks), **arguments).history

    def log(self, model: Any, columns: Any = None, callbacks: Any = (), **kwargs: Any) -> Any:
        logger = tfbdl.TrainLogger(self.path, columns)
        history = self.fit(model, callbacks=[logger, *callbacks], **kwargs)
        return tfbdl.read_log(self.path), history


class TrainLoggerTest(CallbackCase):
    def test_format_to_the_character(self) -> None:
        self.log(toy(), ["cent", "kl", "acc"])
        number = r"\d+\.\d{6}"
        epochs = "".join(
            rf"\nEpoch {i} start, learning rate 0\.100000\n"
            rf"train: epoch {i}, \(\d+\.\d{{3}} secs\), "
            rf"cent {number}, kl {number}, acc {number}\n"
            for i in (1, 2, 3)
        )
        self.assertRegex(self.path.read_text(), rf"\A{epochs}\Z")

    def test_kl_is_the_mean_over_batches(self) -> None:
        for kwargs in ({}, {"jit_compile": True}, {"run_eagerly": True}):
            with self.subTest(kwargs):
                model = toy(**kwargs)
                hand = AtBatches(first_toy)
                log, history = self.log(model, callbacks=[hand])
                self.assertAllClose(log.metrics["kl"], hand.means, 1e-5)
                self.assertAllClose(history["kl"], hand.means, 1e-5)
                self.assertGreater(np.ptp(hand.means), 1e-3 * hand.means[0])
                self.path.unlink()

    def test_several_steps_per_execution(self) -> None:
        """All three batches of an epoch run in one call of the graph."""
        log, _ = self.log(toy())
        self.path.unlink()
        several, _ = self.log(toy(steps_per_execution=3))
        for name in log.metrics:
            self.assertAllClose(log.metrics[name], several.metrics[name], 1e-5, 1e-5)

    def test_concrete_dropout(self) -> None:
        def weight_term(model: Any) -> Any:
            layer = model.layers[0]
            k = 1.0 / (1.0 + np.exp(-10.0 * float(layer.scaled_logit.numpy())))
            return 0.5 * np.sum(np.square(layer.layer.kernel.numpy())) / k

        def entropy_term(model: Any) -> Any:
            k = 1.0 / (1.0 + np.exp(-10.0 * float(model.layers[0].scaled_logit.numpy())))
            return -4 * (k * np.log(k) + (1 - k) * np.log1p(-k))

        wd, ent = AtBatches(weight_term), AtBatches(entropy_term)
        log, _ = self.log(concrete(), callbacks=[wd, ent])
        self.assertAllClose(log.metrics["wd"], wd.means, 1e-5)
        self.assertAllClose(log.metrics["ent"], ent.means, 1e-5)

    def test_weight_decay_of_keras(self) -> None:
        """It has the column of `tfbdl.train`, whatever compiles the steps, and leaves no trace."""
        decay = keras.regularizers.L2(0.1)

        def decayed(**kwargs: Any) -> Any:
            return classifier(lambda: keras.layers.Dense(8, kernel_regularizer=decay), **kwargs)

        def by_hand(model: Any) -> Any:
            return 0.1 * np.sum(np.square(model.layers[0].kernel.numpy()))

        for kwargs in ({}, {"jit_compile": True}, {"run_eagerly": True}):
            with self.subTest(kwargs):
                model, hand = decayed(**kwargs), AtBatches(by_hand)
                log, _ = self.log(model, callbacks=[hand, tfbdl.ELBOLogger()])
                self.assertAllClose(log.metrics["wd"], hand.means, 1e-5)
                self.assertGreater(np.ptp(hand.means), 1e-3 * hand.means[0])
                self.assertNotIn("train_step", vars(model))
                self.path.unlink()
        log, _ = self.log(decayed(steps_per_execution=3), shuffle=True)
        history = tfbdl.train(decayed(), X, Y, epochs=3, batch_size=BATCH, verbose=0)
        self.assertEqual(set(log.metrics), set(history))

    def test_norm_of_the_gradient(self) -> None:
        """How far plain descent moves, by its rate; in `fit` and in `tfbdl.train`."""

        class Moved(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                self.before = self.model.get_weights()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                pairs = zip(self.model.get_weights(), self.before, strict=True)
                norms.append(np.sqrt(sum(np.sum((a - b) ** 2) for a, b in pairs)) / 0.1)

        columns, scaled = ["loss", "grad_norm"], keras.optimizers.LossScaleOptimizer
        for scale in (False, True):
            for jit_compile in (False, True):
                with self.subTest(scale=scale, jit_compile=jit_compile):
                    models = toy(), toy()
                    for model in models:
                        sgd = keras.optimizers.SGD(0.1)
                        sgd = scaled(sgd, initial_scale=64.0) if scale else sgd
                        model.compile(sgd, model.loss, jit_compile=jit_compile)
                    norms: list[Any] = []
                    log, _ = self.log(models[0], columns, callbacks=[Moved()], batch_size=N)
                    self.path.unlink()
                    self.assertAllClose(log.metrics["grad_norm"], norms, 1e-4)
                    given = {"callbacks": [Moved()], "batch_size": N, "jit_compile": jit_compile}
                    norms.clear()
                    history = tfbdl.train(
                        models[1], X, Y, epochs=3, columns=columns, verbose=0, **given
                    )
                    self.assertAllClose(history["grad_norm"], norms, 1e-4)
                    self.assertNotIn("apply", vars(models[1].optimizer))

    def test_layers_are_summed(self) -> None:
        model = classifier(lambda: Toy(8), lambda: keras.Sequential([Toy(5)]))
        layers = (model.layers[0], model.layers[1].layers[0])
        hand = AtBatches(lambda m: sum(toy_kl(layer) for layer in layers))
        log, _ = self.log(model, callbacks=[hand])
        self.assertAllClose(log.metrics["kl"], hand.means, 1e-5)

    def test_subclassed_models(self) -> None:
        """They are built by fit; Keras does not tell a model without `training` that it trains."""

        class Late(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.toy = Toy(3, None)

            def call(self, x: Any, training: bool = False) -> Any:
                return self.toy(x)

        keras.utils.set_random_seed(1)
        model = Late()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        by_hand = AtBatches(lambda m: toy_kl(m.toy))
        self.fit(model, epochs=1)
        log, _ = self.log(model, callbacks=[by_hand])
        self.assertEqual(list(log.metrics), ["loss", "kl"])
        self.assertAllClose(log.metrics["kl"], by_hand.means, 1e-5)

    def test_models_that_do_not_hear_of_training_are_refused(self) -> None:
        """Keras would run their layers in inference mode: trained without any noise."""

        class Unaware(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.dropout = tfbdl.layers.MCDropout(0.5)
                self.dense = keras.layers.Dense(3)

            def call(self, x: Any) -> Any:
                return self.dense(self.dropout(x))

        model = Unaware()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        message = "^model=unaware\\S* never tells .* let Unaware.call take `training`"
        with self.assertRaisesRegex(ValueError, message):
            self.log(model)
        with self.assertRaisesRegex(ValueError, message):
            tfbdl.train(model, X, Y, epochs=1, savedir=self.folder, verbose=0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_same_as_the_loop(self) -> None:
        """Both start from one state, with one batch an epoch (the order does not matter)."""
        by_hand = AtBatches(lambda m: kl_by_hand(m.layers[0]))
        log, history = self.log(bayes(), callbacks=[by_hand], batch_size=N)
        self.assertAllClose(log.metrics["kl"], by_hand.means, 1e-5)
        self.assertGreater(np.ptp(by_hand.means), 1e-3 * by_hand.means[0])
        ours = tfbdl.train(
            bayes(),
            X,
            Y,
            epochs=3,
            batch_size=N,
            savedir=self.folder / "loop",
            jit_compile=False,
            verbose=0,
        )
        theirs = tfbdl.read_log(self.folder / "loop" / "train.log")
        self.assertEqual(set(theirs.metrics), set(log.metrics))
        self.assertEqual(theirs.epochs.tolist(), log.epochs.tolist())
        for name in ("loss", "cent", "acc", "kl"):
            self.assertAllClose(ours[name], history[name], 1e-5, 1e-5)
            self.assertAllClose(log.metrics[name], theirs.metrics[name], 1e-5, 1e-5)

    def test_same_terms_of_dropout_as_the_loop(self) -> None:
        """Masks belong to rows, and the order is another: the first epoch has the same terms."""
        _, history = self.log(concrete(), batch_size=N, epochs=1)
        ours = tfbdl.train(concrete(), X, Y, epochs=1, batch_size=N, jit_compile=False, verbose=0)
        for name in ("wd", "ent"):
            self.assertAllClose(ours[name], history[name], 1e-6)

    def test_validation_does_not_count(self) -> None:
        """Validation has the KL of after the epoch; the log has the means of training."""
        hand = AtBatches(first_toy)
        columns = ["loss", "cent", "acc", "kl"]
        log, history = self.log(toy(), columns, callbacks=[hand], validation_data=OTHER)
        self.path.unlink()
        without, _ = self.log(toy(), columns)
        self.assertAllClose(log.metrics["kl"], hand.means, 1e-5)
        for name in columns:
            self.assertAllEqual(log.metrics[name], without.metrics[name])
        self.assertIn("val_cent", history)

    def test_validation_columns_can_be_asked_for(self) -> None:
        log, history = self.log(toy(), ["cent", "val_cent"], validation_data=OTHER)
        self.assertAllClose(log.metrics["val_cent"], history["val_cent"], 0, 1e-6)

    def test_seconds_leave_validation_out(self) -> None:
        """The clock is one that only validation moves."""
        now = [0.0]

        def validate(batch: Any, logs: Any = None) -> None:
            now[0] += 100.0

        slow = keras.callbacks.LambdaCallback()
        slow.on_test_batch_begin = validate
        clock = "tfbdl.training.train_logger.time.perf_counter"
        with mock.patch(clock, side_effect=lambda: now[0]):
            log, _ = self.log(toy(), callbacks=[slow], validation_data=OTHER, epochs=2)
        self.assertAllEqual(log.seconds, [0.0, 0.0])
        self.assertGreater(now[0], 0.0)

    def test_it_changes_nothing_in_training(self) -> None:
        alone = self.fit(toy())
        _, history = self.log(toy())
        for name, values in alone.items():
            self.assertAllClose(values, history[name], 1e-6, 1e-6)

    def test_second_fit_without_and_with(self) -> None:
        model = toy()
        reference = toy()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.log(model)
        self.assertEqual(out.getvalue(), "")
        self.fit(reference)
        plain, expected = self.fit(model), self.fit(reference)
        self.assertNotIn("kl", plain)
        self.assertAllClose(plain["loss"], expected["loss"], 1e-5)
        text = self.path.read_text()
        again = self.folder / "again.log"
        hand = AtBatches(first_toy)
        self.fit(model, callbacks=[tfbdl.TrainLogger(again), hand])
        self.assertAllClose(tfbdl.read_log(again).metrics["kl"], hand.means, 1e-5)
        self.assertEqual(self.path.read_text(), text)

    def test_evaluate_between(self) -> None:
        model = toy()
        logger = tfbdl.TrainLogger(self.path)
        hand = AtBatches(first_toy)
        evaluate = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: model.evaluate(*OTHER, verbose=0)
        )
        self.fit(model, callbacks=[evaluate, logger, hand])
        self.assertAllClose(tfbdl.read_log(self.path).metrics["kl"], hand.means, 1e-5)

    def test_an_existing_log_is_never_written_over(self) -> None:
        self.log(toy())
        text = self.path.read_text()
        with self.assertRaisesRegex(ValueError, "already has a log") as caught:
            self.log(toy())
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(self.path.read_text(), text)

    def test_a_path_that_cannot_be_written(self) -> None:
        for path in (self.folder / "missing" / "train.log", self.folder, Path("/proc/train.log")):
            with self.subTest(path=path), self.assertRaisesRegex(OSError, str(path)) as caught:
                self.fit(toy(), callbacks=[tfbdl.TrainLogger(path)])
            self.assertNotIn("\n", str(caught.exception))

    def test_unknown_column(self) -> None:
        with self.assertRaisesRegex(ValueError, "columns has 'elbo'; fit reports .*kl") as caught:
            self.log(toy(), ["cent", "elbo"])
        self.assertNotIn("\n", str(caught.exception))

    def test_initial_epoch(self) -> None:
        log, _ = self.log(toy(), initial_epoch=3, epochs=5)
        self.assertEqual(log.epochs.tolist(), [4, 5])

    def test_schedule(self) -> None:
        model = toy()
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([5], [0.01, 0.001])
        model.compile(keras.optimizers.Adam(rate), model.loss)
        log, _ = self.log(model)
        self.assertEqual(log.learning_rates.tolist(), [0.01, 0.01, 0.001])

    def test_learning_rate_scheduler(self) -> None:
        scheduler = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 / (epoch + 1))
        logger = tfbdl.TrainLogger(self.path)
        self.fit(toy(), callbacks=[scheduler, logger])
        log = tfbdl.read_log(self.path)
        self.assertEqual(log.learning_rates.tolist(), [0.02, 0.01, 0.006667])

    def test_vae(self) -> None:
        keras.utils.set_random_seed(1)
        vae = tfbdl.models.VAE(1, (4,), seed=3)
        vae.compile("sgd")
        log, history = self.log(vae, ["elbo"], x=(X > 0).astype("float32"), y=None)
        self.assertEqual(list(log.metrics), ["elbo"])
        self.assertAllClose(log.metrics["elbo"], history["elbo"], 0, 1e-6)

    def test_verbose_prints_the_log(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.fit(toy(), callbacks=[tfbdl.TrainLogger(self.path, verbose=1)])
        self.assertEqual(out.getvalue(), self.path.read_text())

    def test_later_callbacks_see_the_terms(self) -> None:
        seen = []
        later = keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: seen.append(logs["kl"]))
        log, _ = self.log(toy(), callbacks=[later])
        self.assertAllClose(log.metrics["kl"], seen, 0, 1e-6)

    def test_early_stopping_on_a_term(self) -> None:
        early = keras.callbacks.EarlyStopping(monitor="kl", mode="max", patience=1)
        log, _ = self.log(toy(), callbacks=[early], epochs=20)
        self.assertEqual(len(log.epochs), 2)

    def test_a_fit_that_fails(self) -> None:
        """The log stays readable, is closed, and the model trains on."""

        def fail(epoch: int, logs: Any) -> None:
            if epoch == 2:
                raise RuntimeError("mine")

        model = toy()
        with self.assertRaisesRegex(RuntimeError, "mine"):
            self.log(model, callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=fail)])
        gc.collect()
        self.assertEqual(tfbdl.read_log(self.path).epochs.tolist(), [1, 2])
        self.assertNotIn("kl", self.fit(model))
        hand = AtBatches(first_toy)
        again = self.folder / "again.log"
        self.fit(model, callbacks=[tfbdl.TrainLogger(again), hand])
        self.assertAllClose(tfbdl.read_log(again).metrics["kl"], hand.means, 1e-5)

    def test_nothing_of_it_is_left_on_the_model(self) -> None:
        """However a training ends, at its beginning, in a step, or after an epoch."""

        def fail(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        moments = ("train_begin", "epoch_begin", "train_batch_end", "epoch_end", "train_end")
        model = bayes()
        for i, moment in enumerate(moments):
            failing = keras.callbacks.Callback()
            setattr(failing, f"on_{moment}", fail)
            logger = tfbdl.TrainLogger(self.folder / f"{i}.log")
            for callbacks in (
                [tfbdl.ELBOLogger(), logger, failing],
                [tfbdl.ELBOLogger(), failing, logger],
            ):
                with self.subTest(moment), self.assertRaises(KeyboardInterrupt):
                    self.fit(model, callbacks=callbacks)
                self.assertEqual([cost.observe for cost in kl_term.loss_terms(model)], [None])
                self.assertNotIn("kl", self.fit(model, epochs=1))
                (self.folder / f"{i}.log").unlink(missing_ok=True)

    def test_the_loop_has_the_terms_by_itself(self) -> None:
        """Observers see `fit` alone: in the loop they would report a KL of 0."""
        for callback in (tfbdl.ELBOLogger(), tfbdl.TrainLogger(self.path)):
            name = type(callback).__name__
            message = f"callbacks has {name}, which is for model.fit; tfbdl.train.* by itself"
            with self.assertRaisesRegex(ValueError, message):
                tfbdl.train(bayes(), X, Y, epochs=1, callbacks=[callback], verbose=0)

    def test_no_package_layers(self) -> None:
        log, _ = self.log(classifier())
        self.assertEqual(set(log.metrics), {"loss", "cent", "acc"})

    def test_the_model_can_be_saved_meanwhile(self) -> None:
        path = self.folder / "model.keras"
        model = toy()
        self.log(model, callbacks=[keras.callbacks.ModelCheckpoint(path)])
        loaded = keras.models.load_model(path)
        self.assertAllClose(loaded.predict(X, verbose=0), model.predict(X, verbose=0), 1e-6, 1e-6)


class BoundTest(CallbackCase):
    def test_parts_of_the_bound(self) -> None:
        """The loss is nll + weight * KL / N, and the elbo counts the whole KL."""
        for weight in (1.0, 0.25):
            model = toy(rate=0.0)
            model.layers[0].kl_term.weight.assign(weight)
            kl = first_toy(model) / N
            history = self.fit(model, callbacks=[tfbdl.ELBOLogger()], epochs=2, batch_size=N)
            nll = history["cent"]
            self.assertAllClose(history["nll"], nll, 1e-5)
            self.assertAllClose(history["kl_per_example"], [kl, kl], 1e-5)
            self.assertAllClose(history["elbo"], -(np.array(nll) + kl), 1e-5)
            self.assertAllClose(history["loss"], np.array(nll) + weight * kl, 1e-5)

    def test_beside_a_logger(self) -> None:
        history = self.fit(
            bayes(), callbacks=[tfbdl.ELBOLogger(), tfbdl.TrainLogger(self.path, ["elbo", "kl"])]
        )
        log = tfbdl.read_log(self.path)
        self.assertAllClose(log.metrics["elbo"], history["elbo"], 0, 1e-6)
        self.assertAllClose(log.metrics["kl"] / N, history["kl_per_example"], 1e-5)

    def test_models_without_random_weights(self) -> None:
        history = self.fit(classifier(), callbacks=[tfbdl.ELBOLogger()], epochs=1)
        self.assertAllClose(history["nll"], history["loss"])
        self.assertEqual(history["kl_per_example"], [0.0])


class PosteriorTensorBoardTest(CallbackCase):
    def events(self) -> Any:
        """What was written: values by name and step; histograms as their counts and bounds."""
        actual = {}
        for path in self.folder.rglob("events*"):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    actual[value.tag, event.step] = tf.make_ndarray(value.tensor)
        return actual

    def test_scalars_and_histograms(self) -> None:
        model = classifier(
            lambda: tfbdl.layers.ConcreteDropout(
                keras.layers.Dense(8, "tanh"), num_data=N, name="drop"
            ),
            lambda: tfbdl.layers.BayesDense(6, num_data=N, name="bayes"),
        )
        history = self.fit(
            model, callbacks=[tfbdl.PosteriorTensorBoard(self.folder / "board")], epochs=2
        )
        actual = self.events()
        for name in ("elbo", "nll", "kl_per_example", "acc"):
            self.assertAllClose([actual[name, 1], actual[name, 2]], history[name], 1e-5)
        self.assertAllClose(actual["drop/keep", 2], model.layers[0].keep_prob, 1e-6)
        kernel = model.layers[1].kernel
        for name, values in (("mu", kernel.mean), ("sigma", kernel.stddev)):
            buckets = actual[f"bayes/kernel/{name}", 2]
            self.assertAllClose(buckets[[0, -1], [0, 1]], [np.min(values), np.max(values)], 1e-5)
            self.assertEqual(buckets[:, 2].sum(), 48)
        self.assertIn(("bayes/kernel/signal_to_noise_db", 1), actual)

    def test_a_log_dir_that_cannot_be_written(self) -> None:
        """TensorFlow has errors of its own, and of several lines."""
        file = self.folder / "file"
        file.touch()
        message = r"^log_dir=[^\n{]* cannot be written \([^\n{]+\); name another$"
        with self.assertRaisesRegex(OSError, message):
            self.fit(bayes(), epochs=1, callbacks=[tfbdl.PosteriorTensorBoard(file / "board")])
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            with self.assertRaisesRegex(OSError, message):
                self.fit(
                    bayes(), epochs=1, callbacks=[tfbdl.PosteriorTensorBoard(self.folder / "board")]
                )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def test_a_spread_that_is_not_known_is_left_out(self) -> None:
        model = classifier(
            lambda: tfbdl.layers.BayesDense(6, num_data=N, posterior="prior", name="bayes")
        )
        self.fit(model, callbacks=[tfbdl.PosteriorTensorBoard(self.folder / "board")], epochs=1)
        actual = self.events()
        self.assertIn(("bayes/kernel/mu", 1), actual)
        self.assertNotIn(("bayes/kernel/sigma", 1), actual)


if __name__ == "__main__":
    tf.test.main()
