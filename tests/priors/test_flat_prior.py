"""The flat prior pulls nowhere."""

import tensorflow as tf

from tfbdl import priors


class FlatTest(tf.test.TestCase):
    def test_log_prob_is_level(self) -> None:
        w = tf.constant([-100.0, 0.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(w)
            log_prob = priors.Flat().log_prob(w)
        self.assertAllEqual(log_prob, tf.zeros_like(w))
        self.assertAllEqual(
            tape.gradient(log_prob, w, unconnected_gradients="zero"), tf.zeros_like(w)
        )

    def test_cannot_be_drawn_from(self) -> None:
        with self.assertRaisesRegex(ValueError, "improper"):
            priors.Flat().sample(tf.constant(0, tf.int64), (2,))

    def test_no_closed_form(self) -> None:
        self.assertIsNone(priors.Flat().kl_from_normal(tf.zeros([2]), tf.ones([2])))


if __name__ == "__main__":
    tf.test.main()
