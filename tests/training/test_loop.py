"""`tfbdl.train` against a hand-written eager loop, and what it tells the user."""

import contextlib
import io
import math
import multiprocessing
import os
import sys
import tempfile
import time
import unittest
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tutorials.classifiers import compiled

# Processes are forked off one that has TensorFlow imported but not started.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])

N, BATCH, SEED = 50, 16, 7
STEPS = N // BATCH
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)
PIXELS = (RNG.random((N, 6)) < 0.4).astype("float32")


def classifier(*layers: Any, optimizer: Any = None, kind: str = "sequential") -> Any:
    layers = (*layers, keras.layers.Dense(3))
    if kind == "sequential":
        model = keras.Sequential([keras.Input((4,)), *layers])
    elif kind == "unbuilt":
        model = keras.Sequential(layers)
    elif kind == "functional":
        h = inputs = keras.Input((4,))
        for layer in layers:
            h = layer(h)
        model = keras.Model(inputs, h)
    else:
        model = Subclassed(layers)
    return compiled(model, optimizer or keras.optimizers.Adam(0.01))


class Subclassed(keras.Model):
    def __init__(self, stack: Any) -> None:
        super().__init__()
        self.stack = stack

    def call(self, x: Any) -> Any:
        for layer in self.stack:
            x = layer(x)
        return x


class Recorder(keras.Model):
    """Learns nothing; remembers the examples of each batch it is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Any] = []
        self.dense = keras.layers.Dense(1)

    def train_step(self, data: Any) -> Any:
        def remember(x: Any) -> Any:
            self.batches.append(x.numpy()[:, 0].tolist())
            return np.int32(0)

        tf.py_function(remember, [data[0]], tf.int32)
        return super().train_step(data)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def epochs(self) -> Any:
        return [self.batches[i : i + STEPS] for i in range(0, len(self.batches), STEPS)]


def recorded(epochs: int = 2, **kwargs: Any) -> Any:
    model = Recorder()
    model.compile("sgd", "mse")
    x = np.arange(N, dtype="float32")[:, None]
    arguments = {"epochs": epochs, "batch_size": BATCH, "seed": SEED, "verbose": 0, **kwargs}
    tfbdl.train(model, x, 0.0 * x, jit_compile=False, **arguments)
    return model.epochs()


def dense() -> Any:
    return keras.layers.Dense(8, "tanh", kernel_initializer=keras.initializers.GlorotUniform(1))


def train(model: Any, x: Any = X, y: Any = Y, **kwargs: Any) -> Any:
    arguments = {"epochs": 3, "batch_size": BATCH, "seed": SEED, "verbose": 0, **kwargs}
    return tfbdl.train(model, x, y, **arguments)


def eager(
    model: Any,
    terms: Any = lambda model: {},
    epochs: int = 3,
    batch_size: Any = BATCH,
    rate: Any = None,
) -> Any:
    """Means over the batches of each epoch, by a loop in eager mode written out here."""
    history: dict[Any, Any] = {}
    steps = len(X) // batch_size
    for epoch in range(1, epochs + 1):
        if rate is not None:
            model.optimizer.learning_rate = rate(epoch)
        order = tf.random.experimental.stateless_shuffle(tf.range(len(X)), seed=(SEED, epoch))
        rows = []
        for batch in order.numpy()[: steps * batch_size].reshape(steps, batch_size):
            row = terms(model)
            with tf.GradientTape() as tape:
                logits = model(X[batch], training=True)
                log_p = tf.nn.log_softmax(logits)
                cent = -tf.reduce_mean(tf.gather(log_p, Y[batch], batch_dims=1))
                loss = cent + tf.add_n([tf.zeros([]), *model.losses])
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            hits = np.argmax(logits, axis=1) == Y[batch]
            rows.append({"loss": loss, "cent": cent, "acc": hits.mean(), **row})
        for name in rows[0]:
            history.setdefault(name, []).append(float(np.mean([row[name] for row in rows])))
    return history


def built(model: Any) -> Any:
    model(X[:1])
    return model


def same_start(make: Any) -> Any:
    """Two models with the same weights and the same random state."""
    keras.utils.set_random_seed(3)
    first = make()
    keras.utils.set_random_seed(3)
    return first, make()


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(np.asarray(x, np.float64)))


def kl_by_hand(layer: Any, scale: float = 1.0) -> Any:
    """KL(N(mu, sigma^2) || N(0, scale^2)) of kernel and bias in float64."""
    total = 0.0
    for q in (layer.kernel, layer.bias):
        mu, sigma = np.asarray(q.mu.value, np.float64), softplus(q.rho.value)
        ratio = (mu**2 + sigma**2) / scale**2
        total += 0.5 * np.sum(ratio - 1.0 - 2.0 * np.log(sigma / scale))
    return total


class LoopTest(tf.test.TestCase):
    def assert_history(
        self, got: Any, expected: Any, tolerance: float = 1e-5, exactly: bool = True
    ) -> None:
        if exactly:
            self.assertEqual(set(got), set(expected))
        for name, values in expected.items():
            self.assertEqual(len(got[name]), len(values))
            np.testing.assert_allclose(
                got[name], values, rtol=tolerance, atol=tolerance, err_msg=name
            )


class SameAsEagerTest(LoopTest):
    def check(
        self, make: Any, terms: Any = lambda model: {}, tolerance: float = 1e-5, **kwargs: Any
    ) -> None:
        ours, theirs = same_start(make)
        history = train(ours, **kwargs)
        self.assert_history(history, eager(theirs, terms), tolerance)
        for a, b in zip(ours.trainable_variables, theirs.trainable_variables, strict=True):
            self.assertAllClose(a.value, b.value, 1e-4, 1e-4)

    def test_adam_compiled(self) -> None:
        self.check(lambda: classifier(dense()), jit_compile=True)

    def test_adam_not_compiled(self) -> None:
        self.check(lambda: classifier(dense()), jit_compile=False)

    def test_optimizers(self) -> None:
        optimizers = {
            "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
            "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
            "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
        }
        for name, optimizer in optimizers.items():
            with self.subTest(name):
                self.check(
                    lambda make=optimizer: classifier(dense(), optimizer=make()),
                    jit_compile=False,
                )

    def test_kinds_of_model(self) -> None:
        for kind in ("functional", "subclassed"):
            with self.subTest(kind):
                self.check(lambda k=kind: built(classifier(dense(), kind=k)), jit_compile=False)

    def test_models_without_weights_yet(self) -> None:
        for kind in ("unbuilt", "subclassed"):
            with self.subTest(kind):
                keras.utils.set_random_seed(3)
                ours = classifier(dense(), kind=kind)
                history = train(ours, jit_compile=False)
                keras.utils.set_random_seed(3)
                self.assert_history(history, eager(built(classifier(dense(), kind=kind))))

    def test_batch_normalization_is_in_training_mode(self) -> None:
        self.check(
            lambda: classifier(dense(), keras.layers.BatchNormalization(momentum=0.5)),
            jit_compile=False,
            tolerance=1e-4,
        )

    def test_many_steps_between_two_looks(self) -> None:
        """250 steps of one example: the epoch is cut into several calls of the graph."""
        x, y = np.repeat(X, 5, axis=0), np.repeat(Y, 5)
        ours, theirs = same_start(
            lambda: classifier(
                keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2(0.1)),
                optimizer=keras.optimizers.SGD(0.01),
            )
        )
        history = train(ours, x, y, epochs=1, batch_size=1, jit_compile=False)
        order = tf.random.experimental.stateless_shuffle(tf.range(250), seed=(SEED, 1)).numpy()
        rows = []

        @tf.function
        def step(one: Any, label: Any) -> Any:
            decay = 0.1 * tf.reduce_sum(tf.square(theirs.layers[0].kernel.value))
            with tf.GradientTape() as tape:
                log_p = tf.nn.log_softmax(theirs(one, training=True))[0]
                cent = -log_p[label]
                loss = cent + sum(theirs.losses)
            theirs.optimizer.apply(
                tape.gradient(loss, theirs.trainable_variables), theirs.trainable_variables
            )
            return loss, cent, decay

        for i in order:
            rows.append([float(v) for v in step(tf.constant(x[i : i + 1]), tf.constant(y[i]))])
        loss, cent, decay = np.mean(rows, axis=0)
        self.assert_history(
            {name: history[name] for name in ("loss", "cent", "wd")},
            {"loss": [loss], "cent": [cent], "wd": [decay]},
        )


class TermsTest(LoopTest):
    """The logs' terms are means over the batches of what stood in the loss."""

    def test_kl(self) -> None:
        def make() -> Any:
            return classifier(tfbdl.layers.BayesDense(8, "tanh", num_data=N, prior=0.5, seed=5))

        ours, theirs = same_start(make)
        expected = eager(theirs, lambda m: {"kl": kl_by_hand(m.layers[0], 0.5)})
        self.assert_history(train(ours, jit_compile=True), expected)
        ours, _ = same_start(make)
        self.assert_history(train(ours, jit_compile=False), expected)

    def test_kl_counts_once(self) -> None:
        """Keras' loss is the negative ELBO per example: cent + KL / N, and every layer once."""
        keras.utils.set_random_seed(3)
        inner = keras.Sequential([tfbdl.layers.BayesDense(8, "tanh", num_data=37, seed=1)])
        model = classifier(
            inner,
            tfbdl.layers.BayesDense(8, "tanh", num_data=37, seed=2),
            optimizer=keras.optimizers.SGD(0.0),
        )
        history = train(model, epochs=1, jit_compile=False)
        kl = sum(kl_by_hand(layer) for layer in (inner.layers[0], model.layers[1]))
        self.assertAllClose(history["kl"], [kl], 1e-5)
        loss, cent = history["loss"][0], history["cent"][0]
        self.assertAllClose(loss - cent, kl / 37, 1e-5)

    def test_concrete_dropout(self) -> None:
        ours, theirs = same_start(
            lambda: classifier(
                tfbdl.layers.ConcreteDropout(
                    keras.layers.Dense(8, "tanh"),
                    num_data=N,
                    lengthscale=2.0,
                    per_unit=True,
                    logit_scale=10.0,
                    seed=5,
                )
            )
        )

        def terms(model: Any) -> Any:
            layer = model.layers[0]
            k = 1.0 / (1.0 + np.exp(-10.0 * np.asarray(layer.scaled_logit.value, np.float64)))
            kernel = np.asarray(layer.layer.kernel.value, np.float64)
            wd = np.sum(0.5 * 2.0**2 * np.sum(kernel**2, axis=1) / k)
            ent = -np.sum(k * np.log(k) + (1 - k) * np.log1p(-k))
            return {"wd": wd, "ent": ent}

        history = train(ours, jit_compile=False)
        self.assert_history(history, eager(theirs, terms))
        loss, cent, wd, ent = (np.array(history[k]) for k in ("loss", "cent", "wd", "ent"))
        self.assertAllClose(loss - cent, (wd - ent) / N, 1e-4, 1e-5)

    def test_keras_regularizers_are_wd(self) -> None:
        def make() -> Any:
            l2 = keras.regularizers.L2(0.02)
            l1 = keras.regularizers.L1(0.01)
            return classifier(
                keras.layers.Dense(8, "tanh", kernel_regularizer=l2, bias_regularizer=l1)
            )

        def terms(model: Any) -> Any:
            kernel, bias = (np.asarray(v.value, np.float64) for v in model.layers[0].variables)
            return {"wd": 0.02 * np.sum(kernel**2) + 0.01 * np.sum(np.abs(bias))}

        for jit in (False, True):
            with self.subTest(jit_compile=jit):
                ours, theirs = same_start(make)
                history = train(ours, jit_compile=jit)
                self.assert_history(history, eager(theirs, terms))
                loss, cent, wd = (np.array(history[k]) for k in ("loss", "cent", "wd"))
                self.assertAllClose(loss - cent, wd, 1e-5, 1e-5)

    def test_dropout_noise_is_the_same_compiled_and_not(self) -> None:
        ours, theirs = same_start(lambda: classifier(dense(), tfbdl.layers.MCDropout(0.5, seed=1)))
        one, other = train(ours, jit_compile=True), train(theirs, jit_compile=False)
        self.assert_history(one, other)

    def test_vae(self) -> None:
        ours, theirs = same_start(lambda: tfbdl.models.VAE(2, (8,), seed=3))
        for model in (ours, theirs):
            model.build(PIXELS.shape)
        for model in (ours, theirs):
            for i, v in enumerate(model.trainable_variables):
                v.assign(tf.random.stateless_normal(v.shape, [1, i], stddev=0.3))
            model.compile(keras.optimizers.Adam(0.01))
            model.optimizer.build(model.trainable_variables)
        history = tfbdl.train(
            ours,
            PIXELS,
            epochs=3,
            batch_size=BATCH,
            seed=SEED,
            columns=["elbo"],
            jit_compile=False,
            verbose=0,
        )
        self.assertEqual(list(history), ["elbo"])
        expected = []
        for epoch in (1, 2, 3):
            order = tf.random.experimental.stateless_shuffle(tf.range(N), seed=(SEED, epoch))
            bounds = []
            for batch in order.numpy()[: STEPS * BATCH].reshape(STEPS, BATCH):
                with tf.GradientTape() as tape:
                    theirs(PIXELS[batch], training=True)
                    elbo = tf.reduce_mean(theirs.bound.log_likelihood - theirs.bound.kl)
                    loss = -elbo
                gradients = tape.gradient(loss, theirs.trainable_variables)
                theirs.optimizer.apply(gradients, theirs.trainable_variables)
                bounds.append(float(elbo))
            expected.append(np.mean(bounds))
        self.assertAllClose(history["elbo"], expected, 1e-5, 1e-5)

    def test_vae_improves_and_reports_its_parts(self) -> None:
        keras.utils.set_random_seed(3)
        vae = tfbdl.models.VAE(2, (8,), seed=3)
        vae.compile(keras.optimizers.Adam(0.01))
        history = tfbdl.train(
            vae, PIXELS, epochs=30, batch_size=BATCH, jit_compile=False, verbose=0
        )
        elbo, ll, kl, loss = (
            np.array(history[k]) for k in ("elbo", "log_likelihood", "kl", "loss")
        )
        self.assertAllClose(elbo, ll - kl, 1e-5, 1e-5)
        self.assertAllClose(loss, -elbo, 1e-5, 1e-5)
        self.assertGreater(elbo[-1], elbo[0] + 0.05)


class BatchesTest(unittest.TestCase):
    def test_an_epoch_is_full_batches_without_repetition(self) -> None:
        for epoch in recorded():
            seen = [i for batch in epoch for i in batch]
            self.assertEqual([len(batch) for batch in epoch], [BATCH] * STEPS)
            self.assertEqual(len(set(seen)), STEPS * BATCH)
            self.assertLessEqual(set(seen), set(range(N)))

    def test_other_examples_are_left_out_each_epoch(self) -> None:
        left_out = [frozenset(range(N)) - {i for b in e for i in b} for e in recorded(4)]
        self.assertGreater(len(set(left_out)), 1)
        self.assertTrue(all(len(examples) == N % BATCH for examples in left_out))

    def test_order_is_that_of_seed_and_epoch(self) -> None:
        first, again, other = recorded(), recorded(), recorded(seed=8)
        self.assertEqual(first, again)
        self.assertNotEqual(first[0], other[0])
        self.assertNotEqual(first[0], first[1])
        for epoch, batches in enumerate(first, start=1):
            order = tf.random.experimental.stateless_shuffle(tf.range(N), seed=(SEED, epoch))
            expected = order.numpy()[: STEPS * BATCH].reshape(STEPS, BATCH).tolist()
            self.assertEqual(batches, expected)

    def test_labels_go_with_their_examples(self) -> None:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Rescaling(1.0)])
        model.add(keras.layers.Dense(1, kernel_initializer="ones", trainable=False))
        model.add(keras.layers.Dense(1, kernel_initializer="ones"))
        model.compile(keras.optimizers.SGD(0.0), "mse")
        x = np.arange(N, dtype="float32")[:, None]
        history = tfbdl.train(model, x, x, epochs=2, batch_size=BATCH, verbose=0, jit_compile=False)
        self.assertEqual(history["loss"], [0.0, 0.0])

    def test_batch_larger_than_the_data(self) -> None:
        keras.utils.set_random_seed(3)
        big = train(classifier(dense()), batch_size=1000, jit_compile=False)
        keras.utils.set_random_seed(3)
        exact = train(classifier(dense()), batch_size=N, jit_compile=False)
        self.assertEqual(big, exact)

    def test_unusual_seeds(self) -> None:
        for seed in (-1, 2**31 - 1, 2**40, np.int64(3)):
            with self.subTest(seed=seed):
                self.assertEqual(len({i for batch in recorded(1, seed=seed)[0] for i in batch}), 48)


class LearningRateTest(LoopTest):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def test_schedule(self) -> None:
        def make() -> Any:
            rate = keras.optimizers.schedules.PiecewiseConstantDecay([5], [0.01, 0.001])
            return classifier(dense(), optimizer=keras.optimizers.Adam(rate))

        ours, theirs = same_start(make)
        history = train(ours, savedir=self.folder, epochs=4, jit_compile=False)
        log = tfbdl.read_log(self.folder / "train.log")
        # Epoch 3 starts after 6 steps, and the rate drops behind step 5.
        self.assertEqual(log.learning_rates.tolist(), [0.01, 0.01, 0.001, 0.001])
        self.assert_history(history, eager(theirs, epochs=4))

    def test_learning_rate_scheduler(self) -> None:
        ours, theirs = same_start(lambda: classifier(dense()))
        scheduler = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 / (epoch + 1))
        history = train(ours, savedir=self.folder, callbacks=[scheduler], jit_compile=False)
        log = tfbdl.read_log(self.folder / "train.log")
        self.assertEqual(log.learning_rates.tolist(), [0.02, 0.01, 0.006667])
        self.assert_history(history, eager(theirs, rate=lambda epoch: 0.02 / epoch))

    def test_reduce_on_plateau(self) -> None:
        model = classifier(dense(), optimizer=keras.optimizers.SGD(0.125))
        plateau = keras.callbacks.ReduceLROnPlateau(
            monitor="loss", factor=0.5, patience=1, min_delta=1e9
        )
        train(model, savedir=self.folder, callbacks=[plateau], epochs=4, jit_compile=False)
        log = tfbdl.read_log(self.folder / "train.log")
        self.assertEqual(log.learning_rates.tolist(), [0.125, 0.125, 0.0625, 0.03125])


class Events(keras.callbacks.Callback):
    def __init__(self, name: str = "", events: Any = None, stop_at: Any = None) -> None:
        super().__init__()
        self.name = name
        self.events = [] if events is None else events
        self.stop_at = stop_at

    def on_train_begin(self, logs: Any = None) -> None:
        self.events.append(f"{self.name}begin")

    def on_train_end(self, logs: Any = None) -> None:
        self.events.append(f"{self.name}end")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.events.append(f"{self.name}epoch {epoch} begin")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.events.append(f"{self.name}epoch {epoch} end")
        self.last_logs = dict(logs)
        if epoch == self.stop_at:
            self.model.stop_training = True


class CallbackTest(LoopTest):
    def test_order(self) -> None:
        events: list[Any] = []
        model = classifier(dense())
        callbacks = (Events("a ", events), Events("b ", events))
        train(model, epochs=2, callbacks=callbacks, jit_compile=False)
        names = ["begin", "epoch 0 begin", "epoch 0 end", "epoch 1 begin", "epoch 1 end", "end"]
        self.assertEqual(events, [f"{c} {name}" for name in names for c in "ab"])
        self.assertIs(callbacks[0].model, model)
        self.assertEqual(callbacks[0].params["epochs"], 2)

    def test_logs_are_the_epochs(self) -> None:
        events = Events()
        history = train(classifier(dense()), callbacks=[events], jit_compile=False)
        self.assertEqual({k: v[-1] for k, v in history.items()}, events.last_logs)

    def test_columns_do_not_take_logs_from_callbacks(self) -> None:
        events = Events()
        history = train(
            classifier(dense()), columns=["cent"], callbacks=[events], jit_compile=False
        )
        self.assertEqual(list(history), ["cent"])
        self.assertEqual(set(events.last_logs), {"loss", "cent", "acc"})

    def test_stop_training(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            events = Events(stop_at=1)
            history = train(
                classifier(dense()),
                epochs=5,
                callbacks=[events],
                savedir=folder,
                jit_compile=False,
            )
            self.assertEqual(len(history["loss"]), 2)
            self.assertEqual(events.events[-2:], ["epoch 1 end", "end"])
            log = tfbdl.read_log(Path(folder) / "train.log")
            self.assertEqual(log.epochs.tolist(), [1, 2])

    def test_a_stop_holds_for_one_call(self) -> None:
        """As in `fit`: a model that was stopped once can be trained again."""
        model = classifier(dense())
        train(model, epochs=5, callbacks=[Events(stop_at=0)], jit_compile=False)
        history = train(model, epochs=3, jit_compile=False)
        self.assertEqual(len(history["loss"]), 3)

    def test_early_stopping_restores_the_best_weights(self) -> None:
        model = classifier(dense(), optimizer=keras.optimizers.SGD(0.01))
        early = keras.callbacks.EarlyStopping(
            monitor="loss", patience=2, mode="max", restore_best_weights=True
        )
        seen = []
        keep = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append(model.get_weights())
        )
        history = train(model, epochs=20, callbacks=[keep, early], jit_compile=False)
        best = int(np.argmax(history["loss"]))
        self.assertEqual(len(history["loss"]), best + 3)
        for a, b in zip(model.get_weights(), seen[best], strict=True):
            self.assertAllEqual(a, b)

    def test_an_exception_in_a_callback_leaves_whole_epochs(self) -> None:
        def fail(epoch: int, logs: Any) -> None:
            if epoch == 2:
                raise RuntimeError("mine")

        for when in ("on_epoch_begin", "on_epoch_end"):
            with self.subTest(when), tempfile.TemporaryDirectory() as folder:
                callback = keras.callbacks.LambdaCallback(**{when: fail})
                with self.assertRaisesRegex(RuntimeError, "^mine$"):
                    train(
                        classifier(dense()),
                        epochs=5,
                        callbacks=[callback],
                        savedir=folder,
                        jit_compile=False,
                    )
                text = (Path(folder) / "train.log").read_text()
                self.assertEqual(text.count("Epoch"), 2)
                self.assertRegex(text, r"train: epoch 2, .*\n\Z")

    def test_kl_annealing(self) -> None:
        """The KL's weight is 0, 0, 1/2, 1 in epochs 1 to 4; the log has the KL itself."""
        model = classifier(
            tfbdl.layers.BayesDense(8, num_data=N, seed=1), optimizer=keras.optimizers.SGD(0.0)
        )
        annealing = tfbdl.KLAnnealing(2, 4)
        history = train(model, epochs=4, callbacks=[annealing], jit_compile=False)
        kl = kl_by_hand(model.layers[0])
        self.assertAllClose(history["kl"], [kl] * 4, 1e-5)
        penalty = np.subtract(history["loss"], history["cent"])
        self.assertAllClose(penalty, np.array([0, 0, 0.5, 1.0]) * kl / N, 1e-5, 1e-5)


class OutputTest(LoopTest):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def screen(self, *args: Any, **kwargs: Any) -> Any:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            history = train(*args, jit_compile=False, **kwargs)
        self.assertEqual(err.getvalue(), "")
        return out.getvalue(), history

    def test_silence(self) -> None:
        self.assertEqual(self.screen(classifier(dense()), savedir=self.folder)[0], "")

    def test_screen_is_the_log(self) -> None:
        out, _ = self.screen(classifier(dense()), verbose=1, savedir=self.folder)
        self.assertEqual(out, (self.folder / "train.log").read_text())

    def test_screen_without_a_folder(self) -> None:
        out, history = self.screen(classifier(dense()), verbose=1)
        path = self.folder / "seen.log"
        path.write_text(out)
        log = tfbdl.read_log(path)
        self.assertEqual(log.epochs.tolist(), [1, 2, 3])
        self.assertEqual(list(log.metrics), list(history))

    def test_long_lines_are_not_folded(self) -> None:
        self.check_names([f"a_metric_with_the_long_name_{i}" for i in range(12)])

    def test_names_are_no_markup(self) -> None:
        self.check_names(["[red]x[/red]", ":smile:"])

    def check_names(self, names: Any) -> None:
        model = classifier(dense())
        model.compile(
            "sgd",
            "sparse_categorical_crossentropy",
            metrics=[keras.metrics.SparseCategoricalAccuracy(name=name) for name in names],
        )
        out, _ = self.screen(model, verbose=1, savedir=self.folder)
        self.assertEqual(out, (self.folder / "train.log").read_text())
        self.assertEqual(len(out.splitlines()), 9)

    def test_log_is_the_history(self) -> None:
        model = classifier(
            keras.layers.Dense(8, kernel_regularizer="l2"), tfbdl.layers.MCDropout(0.1)
        )
        history = train(model, savedir=self.folder, jit_compile=False)
        log = tfbdl.read_log(self.folder / "train.log")
        self.assertCountEqual(log.metrics, ["loss", "cent", "acc", "wd"])
        self.assertEqual(list(history), list(log.metrics))
        for name, values in history.items():
            self.assertTrue(all(isinstance(v, float) for v in values))
            self.assertAllClose(log.metrics[name], values, 0, 0.5000001e-6)
        self.assertTrue(np.all(log.seconds >= 0))

    def test_format_to_the_character(self) -> None:
        model = classifier(dense())
        train(model, savedir=self.folder, columns=["acc", "cent"], jit_compile=False)
        number = r"\d+\.\d{6}"
        epochs = "".join(
            rf"\nEpoch {i} start, learning rate 0\.010000\n"
            rf"train: epoch {i}, \(\d+\.\d{{3}} secs\), acc {number}, cent {number}\n"
            for i in (1, 2, 3)
        )
        self.assertRegex((self.folder / "train.log").read_text(), rf"\A{epochs}\Z")

    def test_unknown_column(self) -> None:
        with self.assertRaisesRegex(ValueError, "columns.*'elbo'") as caught:
            train(
                classifier(dense()),
                columns=["cent", "elbo"],
                savedir=self.folder / "run",
                jit_compile=False,
            )
        self.assertNotIn("\n", str(caught.exception))

    def test_seconds_are_wall_time_of_the_epochs(self) -> None:
        slow = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: time.sleep(0.5))
        started = time.perf_counter()
        train(classifier(dense()), savedir=self.folder, callbacks=[slow], jit_compile=False)
        total = time.perf_counter() - started
        log = tfbdl.read_log(self.folder / "train.log")
        self.assertLess(log.seconds.sum(), total - 1.4)
        self.assertLess(log.seconds[2], 0.45)

    def test_a_pipe_gets_the_lines_of_the_log(self) -> None:
        """A process whose output is redirected, with the width and kind of a terminal set."""
        reading, writing = os.pipe()
        process = CONTEXT.Process(target=train_into, args=(Pipe(writing), str(self.folder)))
        process.start()
        os.close(writing)
        with open(reading, encoding="utf-8") as pipe:
            text = pipe.read()
        process.join()
        self.assertEqual(process.exitcode, 0)
        self.assertEqual(text.count("train:"), 2)
        self.assertEqual(text, (self.folder / "train.log").read_text())


class Pipe:
    """The writing end of a pipe, on its way to another process."""

    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor

    def __getstate__(self) -> Any:
        return reduction.DupFd(self.descriptor)

    def __setstate__(self, duplicate: Any) -> None:
        self.descriptor = duplicate.detach()


def train_into(pipe: Any, folder: Any) -> None:
    os.environ.update(COLUMNS="40", TERM="xterm")
    os.dup2(pipe.descriptor, 1)
    os.close(pipe.descriptor)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    metrics = [
        keras.metrics.SparseCategoricalAccuracy(name="a_long_name_" * 4 + str(i)) for i in range(4)
    ]
    model = classifier(dense())
    model.compile("sgd", model.loss, metrics=metrics)
    train(model, epochs=2, verbose=1, savedir=folder, jit_compile=False)
    sys.stdout.flush()


class MixedPrecisionTest(LoopTest):
    def test_float16(self) -> None:
        """Mixed precision: the terms stay in float32 and the loss is scaled back."""
        keras.utils.set_random_seed(3)
        keras.config.set_dtype_policy("mixed_float16")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        layer = tfbdl.layers.BayesDense(8, "tanh", num_data=N, seed=1)
        model = compiled(
            keras.Sequential([keras.Input((4,)), layer, keras.layers.Dense(3, dtype="float32")]),
            keras.optimizers.SGD(0.0),
        )
        history = train(model, epochs=1, jit_compile=False)
        kl = kl_by_hand(layer)
        self.assertAllClose(history["kl"], [kl], 1e-5)
        self.assertAllClose(history["loss"][0] - history["cent"][0], kl / N, 1e-4)

    def test_float16_learns(self) -> None:
        keras.utils.set_random_seed(3)
        keras.config.set_dtype_policy("mixed_float16")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        model = compiled(
            keras.Sequential([keras.Input((4,)), dense(), keras.layers.Dense(3, dtype="float32")]),
            keras.optimizers.Adam(0.03),
        )
        history = train(model, epochs=15, jit_compile=False)
        self.assertLess(history["loss"][-1], 0.7 * history["loss"][0])
        self.assertTrue(math.isfinite(history["loss"][-1]))


if __name__ == "__main__":
    tf.test.main()
