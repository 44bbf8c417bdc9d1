"""What of a model is laid out once, what for each draw, and what is stored."""

from collections import Counter
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl import layers
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.serving.stored_draws import StoredDraws

N, D, S = 9, 4, 5
X = tf.constant(np.random.default_rng(0).normal(size=(N, D)), tf.float32)


def graph_of(model: keras.Model, seed: int = 3) -> Any:
    """The S functions of a model, in a graph."""
    sampler = DrawnModel(model)
    spec = tf.TensorSpec((None, D), name="x")
    functions = StoredDraws(lambda x, draw: sampler(x, draw=draw), [spec], seed, S, "model")
    traced = tf.function(functions, autograph=False, input_signature=[spec])
    return traced.get_concrete_function()


def constants(function: Any) -> list[tuple[int, ...]]:
    """The shapes of the constants that are no scalars."""
    ops = [op for op in function.graph.get_operations() if op.type == "Const"]
    return sorted(tuple(op.outputs[0].shape) for op in ops if op.outputs[0].shape.rank)


class StoredDrawsTest(tf.test.TestCase):
    def test_functions_are_those_of_the_draws(self) -> None:
        model = keras.Sequential(
            [keras.Input((D,)), layers.BayesDense(3, "relu", num_data=N), layers.MCDropout(0.4)]
        )
        outputs = graph_of(model)(X)
        for s, output in enumerate(outputs):
            (kernel, bias), _ = model.layers[0].weights_at(make_draw(3, s))
            mask = model.layers[1](tf.ones([1, 3]), draw=make_draw(3, s))
            self.assertAllClose(output, tf.nn.relu(X @ kernel + bias) * mask, 1e-6, 1e-6)
        self.assertEqual(len(outputs), S)

    def test_what_no_draw_changes_is_there_once(self) -> None:
        before = [keras.layers.Dense(7, "relu"), keras.layers.Dense(6, "relu")]
        after = [layers.MCDropout(0.4), keras.layers.Dense(3)]
        function = graph_of(keras.Sequential([keras.Input((D,)), *before, *after]))
        kinds = Counter(op.type for op in function.graph.get_operations())
        self.assertEqual(kinds["MatMul"], 2 + S)
        self.assertEqual(kinds["BitwiseXor"], 0)
        weights = [(D, 7), (7,), (7, 6), (6,), (6, 3), (3,)]
        self.assertEqual(constants(function), sorted([*weights, *S * [(1, 6)]]))

    def test_weights_that_members_share_are_there_once(self) -> None:
        network = keras.Sequential([keras.Input((D,)), keras.layers.Dense(3)])
        members = np.tile(np.arange(D * 3 + 3.0), (S, 1))
        members[:, -3:] += np.arange(S)[:, None]  # biases of their own
        function = graph_of(tfbdl.models.WeightEnsemble(network, members))
        self.assertEqual(constants(function), sorted([(D, 3), *S * [(3,)]]))

    def test_models_that_are_random_by_name_only(self) -> None:
        model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(2), layers.MCDropout(0.0)])
        for output in graph_of(model)(X):
            self.assertAllClose(output, model(X), 1e-6, 1e-6)


if __name__ == "__main__":
    tf.test.main()
