"""S samples a training step: the mean of S losses, by brute force; the KL once."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.layers import BayesDense, MCDropout
from tfbdl.models import VAE
from tfbdl.posteriors import MeanFieldNormal

N, B, S = 60, 8, 5


def bayes(estimator: str = "reparameterization", rho: Any = -1.0, seed: int = 0) -> Any:
    keras.utils.set_random_seed(seed)
    of = {
        "num_data": N,
        "estimator": estimator,
        "posterior": MeanFieldNormal(keras.initializers.Constant(rho)),
        "bias_posterior": MeanFieldNormal(keras.initializers.Constant(rho)),
    }
    layers = [BayesDense(6, "tanh", seed=1, **of), BayesDense(3, seed=2, **of)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.SGD(0.1), cross_entropy())
    return model


def cross_entropy() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def dropout() -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(6, "tanh"), MCDropout(0.5, seed=1), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.SGD(0.1), cross_entropy())
    return model


def vae() -> Any:
    keras.utils.set_random_seed(0)
    model = VAE(2, (6,), seed=1)
    model.compile(keras.optimizers.SGD(0.1))
    return model


def batch(model: Any) -> Any:
    x = np.random.default_rng(0).random((B, 4)).astype("float32")
    return (x,) if isinstance(model, VAE) else (x, np.arange(B) % 3)


def step(model: Any, *data: Any) -> Any:
    """What one step of SGD adds to the weights."""
    before = [v.numpy() for v in model.trainable_variables]
    model.fit(*data, batch_size=B, epochs=1, shuffle=False, verbose=0)
    return [v.numpy() - w for v, w in zip(model.trainable_variables, before, strict=True)]


def loss_at(model: Any, x: Any, y: Any = None) -> Any:
    """One loss by hand, and its gradient."""
    with tf.GradientTape() as tape:
        f = model(x, training=True)
        if isinstance(model, VAE):
            loss = sum(model.losses) - tf.reduce_mean(model.bound.log_likelihood)
        else:
            loss = cross_entropy()(y, f) + sum(model.losses)
    return loss, tape.gradient(loss, [v.value for v in model.trainable_variables])


class NumSamplesTest(tf.test.TestCase):
    def models(self) -> Any:
        return {
            **{f"bayes, {e}": lambda e=e: bayes(e) for e in ("reparameterization", "flipout")},
            "dropout": dropout,
            "vae": vae,
        }

    def test_step_is_the_mean_of_as_many_gradients(self) -> None:
        """The same noise is drawn by hand, one sample after the other."""
        for name, make in self.models().items():
            model, by_hand = make(), make()
            data = batch(model)
            for m in (model, by_hand):
                m.train_on_batch(*data)
            by_hand.set_weights(model.get_weights())
            tfbdl.set_num_samples(model, S)
            moved = step(model, *data)
            gradients = [loss_at(by_hand, *data)[1] for _ in range(S)]
            for change, *of_samples in zip(moved, *gradients, strict=True):
                expected = -0.1 * np.mean(of_samples, axis=0)
                self.assertAllClose(change, expected, rtol=2e-4, atol=1e-6, msg=name)

    def test_kl_counts_once(self) -> None:
        """Where q is nearly a point, the loss of S samples is that of one."""
        x, y = batch(bayes())
        losses = []
        for samples in (1, S):
            model = bayes(rho=-18.0)
            tfbdl.set_num_samples(model, samples)
            losses.append(model.fit(x, y, batch_size=B, verbose=0).history["loss"][0])
        self.assertGreater(losses[0], 5.0)  # mostly KL
        self.assertAllClose(losses[0], losses[1], rtol=1e-5)

    def test_unbiased_and_of_less_variance(self) -> None:
        steps = {}
        for samples in (1, 8):
            model = bayes()
            data = batch(model)
            model.train_on_batch(*data)
            start = model.trainable_variables[0].numpy()
            tfbdl.set_num_samples(model, samples)
            drawn = []
            for _ in range(200):
                model.trainable_variables[0].assign(start)
                rest = [v.numpy() for v in model.trainable_variables]
                model.train_on_batch(*data)
                drawn.append(model.trainable_variables[0].numpy() - start)
                for v, value in zip(model.trainable_variables, rest, strict=True):
                    v.assign(value)
            steps[samples] = np.array(drawn)
        one, eight = steps[1], steps[8]
        error = np.sqrt(one.var(0) / 200 + eight.var(0) / 200)
        self.assertLess(np.max(np.abs(one.mean(0) - eight.mean(0)) / error), 4.5)
        ratio = one.var(0, ddof=1).mean() / eight.var(0, ddof=1).mean()
        self.assertBetween(ratio, 6.0, 10.5)

    def test_train_takes_it_too(self) -> None:
        """`tfbdl.train` and `fit` make the same step of it."""
        results = []
        for own_loop in (True, False):
            model = bayes()
            x, y = batch(model)
            tfbdl.set_num_samples(model, S)
            if own_loop:
                tfbdl.train(model, x, y, epochs=1, batch_size=B, verbose=0)
            else:
                model.fit(x, y, batch_size=B, shuffle=False, verbose=0)
            results.append(model.get_weights())
        for a, b in zip(*results, strict=True):
            self.assertAllClose(a, b, rtol=1e-4, atol=1e-6)

    def test_evaluation_has_one_loss(self) -> None:
        model = bayes()
        x, y = batch(model)
        before = model.evaluate(x, y, verbose=0)
        tfbdl.set_num_samples(model, S)
        self.assertAllClose(model.evaluate(x, y, verbose=0), before)

    def test_back_to_one(self) -> None:
        model, plain = bayes(), bayes()
        x, y = batch(model)
        tfbdl.set_num_samples(model, S)
        tfbdl.set_num_samples(model, 1)
        self.assertNotIn("compute_loss", vars(model))
        for a, b in zip(step(model, x, y), step(plain, x, y), strict=True):
            self.assertAllClose(a, b)

    def test_a_resumed_run_has_the_same(self) -> None:
        folder = self.get_temp_dir()
        for samples, refused in ((S, False), (1, True)):
            model = bayes()
            x, y = batch(model)
            tfbdl.set_num_samples(model, samples)
            arguments = {"epochs": 1, "savedir": folder, "verbose": 0}
            if refused:
                with self.assertRaisesRegex(ValueError, "loss.num_samples"):
                    tfbdl.train(model, x, y, **arguments)
            else:
                tfbdl.train(model, x, y, **arguments)

    def test_refusals(self) -> None:
        class OwnStep(keras.Model):
            def train_step(self, data: Any) -> Any:
                return {}

        class OldLoss(keras.Model):
            def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
                return 0.0

        for model, samples, words in (
            (bayes(), 0, "num_samples=0"),
            (OwnStep(), 2, "train_step of its own"),
            (OldLoss(), 2, "compute_loss take `training`"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                tfbdl.set_num_samples(model, samples)


if __name__ == "__main__":
    tf.test.main()
