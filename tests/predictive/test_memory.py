"""Statistics of the draws are what `predict` keeps, and not the draws."""

import tracemalloc
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.layers import MCDropout
from tfbdl.predictive import functions as drawn
from tfbdl.predictive.functions import Functions

N, D, C = 1000, 4, 10
X = np.random.default_rng(0).normal(size=(N, D)).astype("float32")


def network() -> Any:
    model = keras.Sequential([keras.Input((D,)), MCDropout(0.5), keras.layers.Dense(C)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class MemoryTest(tf.test.TestCase):
    def peak(self, model: Any, num_samples: int) -> Any:
        """The peak of the arrays on the host while `predict` runs, in bytes."""
        tracemalloc.start()
        try:
            tfbdl.predict(model, X, num_samples, seed=0, verbose=0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def stacks(self, function: Any, *static: Any) -> Any:
        """What is in its graph that grows with the draws."""
        compiled = tf.function(lambda *args: function(*args, *static), autograph=False)
        arguments = (tf.constant(X), tf.constant(0), tf.constant([[0, 100]]))
        graph = compiled.get_concrete_function(*arguments).graph.as_graph_def()
        nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
        return [node.name for node in nodes if node.op.startswith("TensorList")]

    def test_the_host_keeps_the_moments_alone(self) -> None:
        """A part is 0.25 MB: all 200 of them would be 50 MB, and three are alive at a time."""
        model = network()
        with mock.patch.object(drawn, "DRAWS_PER_CALL", 2):
            self.peak(model, 4)  # what is compiled once
            few, many = self.peak(model, 4), self.peak(model, 400)
        self.assertLess(many, few + 1e6)

    def test_the_device_gives_back_the_moments_alone(self) -> None:
        functions = Functions.of(network(), tfbdl.likelihoods.Categorical())
        few, many = (next(functions.moments(tf.constant(X), 0, s)) for s in (1, 100))
        self.assertEqual([v.shape for v in many], [v.shape for v in few])
        self.assertEqual([v.shape for v in many], [(), (N, C), (N, C), (N, C), (N,)])
        self.assertFalse(self.stacks(functions._moments))

    def test_kept_draws_are_seen_by_this_test(self) -> None:
        functions = Functions.of(network(), None)
        self.assertTrue(self.stacks(functions._moments_and_outputs, 100))


if __name__ == "__main__":
    tf.test.main()
