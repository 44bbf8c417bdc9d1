"""Pruning by signal to noise: which weights go, in which models, and what is left of them."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.layers import BayesDense, VariationalDropout

X = np.random.default_rng(0).normal(size=(6, 5)).astype("float32")


def network(posterior: str = "mean_field", prior: float = 1.0) -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [
        BayesDense(units, act, num_data=9, posterior=posterior, prior=prior)
        for units, act in ((8, "tanh"), (3, None))
    ]
    return keras.Sequential([keras.Input((5,)), *layers])


def weights(model: Any) -> Any:
    """Means and ratios |mu| / sigma of all random weights in one vector, layer by layer."""
    qs = [q for layer in model.layers for q in (layer.kernel, layer.bias)]
    mu = np.concatenate([np.ravel(q.mean) for q in qs])
    sigma = np.concatenate([np.ravel(q.stddev) for q in qs])
    return mu, sigma


class PruneTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        posterior=("mean_field", "laplace", "logistic"), fraction=(0.0, 0.25, 0.5, 0.98)
    )
    def test_the_least_ratios_go(self, posterior: Any, fraction: Any) -> None:
        model = network(posterior)
        rng = np.random.default_rng(1)
        for variable in model.trainable_variables:
            variable.assign(variable + rng.normal(0, 0.5, variable.shape))
        mu, sigma = weights(model)
        pruned_mu, pruned_sigma = weights(tfbdl.prune(model, fraction))
        gone = np.argsort(np.abs(mu) / sigma)[: round(fraction * len(mu))]
        kept = np.setdiff1d(np.arange(len(mu)), gone)
        self.assertAllEqual(pruned_mu[gone], np.zeros(len(gone)))
        self.assertLess(np.max(pruned_sigma[gone], initial=0.0), 1e-9)
        self.assertAllEqual(pruned_mu[kept], mu[kept])
        self.assertAllEqual(pruned_sigma[kept], sigma[kept])

    def test_the_model_itself_stays(self) -> None:
        model = network()
        before = model.get_weights()
        pruned = tfbdl.prune(model, 0.9)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        self.assertNotAllClose(model(X), pruned(X))

    def test_nothing_removed_is_the_same_function(self) -> None:
        model = network()
        a, b = (tfbdl.predict(m, X, 5, seed=1) for m in (model, tfbdl.prune(model, 0.0)))
        self.assertAllClose(a.mean, b.mean, 1e-6)
        self.assertAllClose(a.epistemic_stddev, b.epistemic_stddev, 1e-6)

    def test_removed_weights_are_zero_in_drawn_functions(self) -> None:
        """A unit all of whose inputs are removed says nothing in any draw."""
        model = network()
        kernel = model.layers[0].kernel
        kernel.mu.assign(tf.where(tf.range(8) < 2, 1e-6, kernel.mu))
        model.layers[0].bias.mu.assign(tf.where(tf.range(8) < 2, 0.0, 0.5))
        model.layers[1].bias.mu.assign([0.5] * 3)
        pruned = tfbdl.prune(model, 12 / (5 * 8 + 8 + 8 * 3 + 3))
        first = keras.Sequential([keras.Input((5,)), pruned.layers[0]])
        prediction = tfbdl.predict(first, X, 20, return_samples=True).samples
        self.assertAllClose(prediction[..., :2], np.zeros((20, 6, 2)), atol=1e-8)
        self.assertGreater(prediction[..., 2:].std(axis=0).min(), 1e-3)

    def test_losses_and_training_stay_finite(self) -> None:
        pruned = tfbdl.prune(network(), 0.5)
        pruned.compile("adam", "mse")
        self.assertTrue(np.isfinite(pruned.evaluate(X, np.zeros((6, 3)), verbose=0)))
        pruned.fit(X, np.zeros((6, 3)), verbose=0)
        self.assertTrue(all(np.isfinite(w).all() for w in pruned.get_weights()))

    def test_weights_without_noise_go_last(self) -> None:
        """Without noise a weight's ratio is infinite; weights that are zero already go first."""
        model = network("point")
        model.layers[0].kernel.mu.assign(tf.ones((5, 8)))
        model.layers[1].kernel.mu.assign(tf.zeros((8, 3)))
        mu, _ = weights(tfbdl.prune(model, 0.4))
        self.assertAllEqual(mu[:40], np.ones(40))

    def test_variational_dropout(self) -> None:
        model = keras.Sequential([keras.Input((5,)), VariationalDropout(3, num_data=9)])
        pruned = tfbdl.prune(model, 0.5)
        self.assertAllClose(np.mean(np.asarray(pruned.layers[0].kernel.mean) == 0), 0.5, atol=0.1)

    def test_refusals(self) -> None:
        for fraction in (-0.1, 1.0, None, "half"):
            with self.assertRaisesRegex(ValueError, r"^fraction=.* must be in \[0, 1\)$"):
                tfbdl.prune(network(), fraction)
        plain = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)], name="plain")
        with self.assertRaisesRegex(ValueError, "^model='plain' has no layer with random weights"):
            tfbdl.prune(plain, 0.5)
        for posterior in ("full_covariance", "matrix_normal", "low_rank"):
            with self.assertRaisesRegex(ValueError, "^posterior=.* ties weights together"):
                tfbdl.prune(network(posterior), 0.5)


if __name__ == "__main__":
    tf.test.main()
