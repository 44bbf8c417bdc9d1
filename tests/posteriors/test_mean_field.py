"""The mean-field normal: its parameters, where they start, its KL."""

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from posterior_families import KEY, SHAPE, make, softplus

from tfbdl import posteriors, priors

tfd = tfp.distributions


class MeanFieldTest(tf.test.TestCase):
    def test_sigma_is_the_softplus_of_rho(self) -> None:
        q = make("mean_field")
        self.assertAllClose(q.stddev, softplus(q.rho.numpy()), 1e-12)
        self.assertAllEqual(q.mean, q.mu.value)

    def test_rho_starts_between_minus_3_and_minus_2(self) -> None:
        q = posteriors.MeanFieldNormal().create(
            keras.layers.Layer(), "w", (100, 100), keras.initializers.Zeros(), priors.get(1.0)
        )
        rho = q.rho.numpy().ravel()
        uniform = scipy.stats.uniform(-3, 1)
        self.assertGreater(scipy.stats.kstest(rho, uniform.cdf, method="asymp").pvalue, 1e-5)
        self.assertAllEqual(q.mu.value, tf.zeros((100, 100)))

    def test_rho_starts_differently_for_kernel_and_bias(self) -> None:
        template, owner = posteriors.MeanFieldNormal(), keras.layers.Layer()
        a, b = (
            template.create(owner, name, (50,), keras.initializers.Zeros(), priors.get(1.0))
            for name in ("a", "b")
        )
        self.assertLess(abs(np.corrcoef(a.rho.numpy(), b.rho.numpy())[0, 1]), 5 / np.sqrt(50))

    def test_rho_initializer(self) -> None:
        for given in ("ones", keras.initializers.Ones()):
            template = posteriors.MeanFieldNormal(given)
            again = posteriors.get(keras.saving.serialize_keras_object(template))
            for family in (template, again):
                q = family.create(
                    keras.layers.Layer(), "w", SHAPE, keras.initializers.Zeros(), priors.get(1.0)
                )
                self.assertAllEqual(q.rho.value, tf.ones(SHAPE))

    def test_kl(self) -> None:
        q = make("mean_field", prior=2.0)
        p = tfd.Normal(tf.constant(0.0, tf.float64), 2.0)
        expected = tf.reduce_sum(tfd.kl_divergence(tfd.Normal(q.mean, q.stddev), p))
        self.assertAllClose(q.kl(KEY), expected, 1e-12)

    def test_gradient_of_a_sample(self) -> None:
        """dw/dmu = 1 and dw/drho = e sigmoid(rho), with the e that made w."""
        q = make("mean_field")
        with tf.GradientTape() as tape:
            w = q.sample(KEY)
        mu, rho = q.mu.numpy(), q.rho.numpy()
        e = (w - mu) / softplus(rho)
        gradients = tape.gradient(w, (q.mu.value, q.rho.value))
        self.assertAllClose(gradients, (np.ones(SHAPE), e / (1 + np.exp(-rho))), 1e-10)


if __name__ == "__main__":
    tf.test.main()
