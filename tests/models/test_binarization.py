"""How images are made black and white for a VAE."""

from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl.models import VAE


class BinarizeTest(tf.test.TestCase):
    LEVELS = np.array([0.0, 0.05, 0.5, 0.9, 1.0], "float32")

    def bits(self, model: Any) -> Any:
        """What the model was asked to explain, from log likelihoods x b - softplus(b)."""
        return model.bound.log_likelihood.numpy() + np.logaddexp(0, 1.0)

    def model(self, binarize: str = "dynamic") -> Any:
        model = VAE(1, (), binarize=binarize, seed=1)
        model.build((None, 1))
        model.outputs_layer.kernel.assign([[0.0]])
        model.outputs_layer.bias.assign([1.0])
        model.mu.kernel.assign([[2.0]])
        model.sigma.kernel.assign([[0.0]])
        return model

    def test_statistics(self) -> None:
        n = 20_000
        model = self.model()
        for level in self.LEVELS:
            x = np.full((n, 1), level)
            steps = []
            for _ in range(2):
                model(x, training=True)
                bits = self.bits(model)
                self.assertAllClose(bits, np.round(bits), atol=1e-5)
                error = np.sqrt(level * (1 - level) / n)
                self.assertLessEqual(abs(np.round(bits).mean() - level), 5 * error + 1e-9)
                steps.append(np.round(bits))
            if 0 < level < 1:
                self.assertLess(abs(np.corrcoef(*steps)[0, 1]), 5 / np.sqrt(n))
                self.assertLess(abs(np.corrcoef(steps[0][1:], steps[0][:-1])[0, 1]), 5 / np.sqrt(n))

    def test_the_encoder_sees_the_same_bits(self) -> None:
        """mu = 2 x for x in {0, 1}, so the KL tells x too."""
        model = self.model()
        model(np.full((100, 1), 0.5, "float32"), training=True)
        bits, kl = np.round(self.bits(model)), model.bound.kl.numpy()
        self.assertAllClose(kl - kl.min(), 2.0 * bits, 1e-5)

    def test_fixed_outside_training(self) -> None:
        model, x = self.model(), np.full((1000, 1), 0.5, "float32")
        seen = []
        for _ in range(2):
            model(x)
            seen.append(self.bits(model))
        self.assertAllEqual(*seen)
        self.assertLess(abs(np.mean(seen[0]) - 0.5), 5 * 0.5 / np.sqrt(1000))
        self.assertAllEqual(model.elbo(x), model.elbo(x))

    def test_bits_and_latent_noise_are_independent(self) -> None:
        """One training step: the mean of p(x | z) moves with z alone."""
        model, n = self.model(), 20_000
        model.outputs_layer.kernel.assign([[1.0]])
        model.mu.kernel.assign([[0.0]])
        y = model(np.full((n, 1), 0.5, "float32"), training=True).numpy()[:, 0]
        p = np.exp(model.bound.log_likelihood.numpy())
        bits = np.abs(p - y) < np.abs(p - (1 - y))
        logits = scipy.special.logit(y.astype(np.float64))
        self.assertLess(abs(np.corrcoef(bits, logits)[0, 1]), 5 / np.sqrt(n))

    def test_none_leaves_x_alone(self) -> None:
        model = self.model(binarize=None)
        model(np.full((5, 1), 0.3, "float32"), training=True)
        self.assertAllClose(self.bits(model), np.full(5, 0.3), 1e-5)


if __name__ == "__main__":
    tf.test.main()
