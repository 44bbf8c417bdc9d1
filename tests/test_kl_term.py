"""KL / N enters the losses, once, with the right weight, and by name."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import kl_term, layers
from tfbdl.kl_term import KLTerm


class Costly(keras.layers.Layer):
    def __init__(self, cost: Any, num_data: int = 10, names: Any = ("kl",)) -> None:
        super().__init__()
        self.cost = cost
        self.kl_term = KLTerm(num_data, names)

    def call(self, x: Any, training: bool = False) -> Any:
        self.kl_term.add(
            tf.constant(float(sum(self.cost))),
            training,
            **dict(zip(self.kl_term.names, map(tf.constant, self.cost), strict=True)),
        )
        return x


class ComplexityTest(tf.test.TestCase, parameterized.TestCase):
    def test_loss_is_weight_times_cost_over_num_data(self) -> None:
        layer = Costly([30.0], num_data=120)
        layer(tf.ones([7, 1]))
        self.assertAllClose(layer.losses, [0.25])
        layer.kl_term.weight.assign(0.1)
        layer(tf.ones([3, 1]))
        self.assertAllClose(layer.losses, [0.025])

    def test_weight_is_no_trainable_variable_and_one_at_first(self) -> None:
        cost = KLTerm(10)
        self.assertEmpty(cost.trainable_variables)
        self.assertAllEqual(cost.weight.value, 1.0)

    def test_terms_are_summed_by_name_over_layers(self) -> None:
        model = keras.Sequential(
            [
                keras.Input((2,)),
                Costly([3.0]),
                Costly([5.0], 20),
                keras.Sequential([Costly([7.0, -2.0], names=("wd", "ent"))]),
            ]
        )
        model(tf.ones([1, 2]))
        got = {name: float(value) for name, value in kl_term.terms(model).items()}
        self.assertEqual(got, {"kl": 8.0, "wd": 7.0, "ent": -2.0})
        self.assertEqual(kl_term.term_names(model), ["kl", "wd", "ent"])
        self.assertAllClose(sum(model.losses), 0.3 + 0.25 + 0.5)

    def test_observer_gets_the_terms_of_training_steps(self) -> None:
        layer, seen = Costly([3.0]), list[Any]()
        layer.kl_term.observe = seen.append
        layer(tf.ones([1, 2]), training=True)
        layer(tf.ones([1, 2]), training=False)
        layer.kl_term.weight.assign(0.5)
        layer(tf.ones([1, 2]), training=True)
        terms = [{name: float(value) for name, value in step.items()} for step in seen]
        expected = {"kl": 3.0, "cost": 0.3}
        self.assertAllClose(terms, [{**expected, "loss": 0.3}, {**expected, "loss": 0.15}])

    def test_weight_is_saved_with_the_model(self) -> None:
        model = keras.Sequential([keras.Input((2,)), layers.BayesDense(1, num_data=5)])
        model.layers[0].kl_term.weight.assign(0.25)
        path = f"{self.get_temp_dir()}/m.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAllEqual(loaded.layers[0].kl_term.weight.value, 0.25)

    @parameterized.parameters(1, 60_000, np.int64(7), np.uint8(200))
    def test_num_data_is_any_positive_integer(self, num_data: int) -> None:
        self.assertEqual(KLTerm(num_data).num_data, int(num_data))

    @parameterized.parameters(0, -1, 10.0, True, np.True_, None, "10", np.float32(3), ([10],))
    def test_num_data_is_checked(self, num_data: int) -> None:
        with self.assertRaisesRegex(ValueError, "^num_data=.* positive integer.*examples$"):
            KLTerm(num_data)

    def test_config(self) -> None:
        cost = KLTerm(7, names=("wd", "ent"))
        again = KLTerm.from_config(cost.get_config())
        self.assertEqual((again.num_data, again.names), (7, ("wd", "ent")))


if __name__ == "__main__":
    tf.test.main()
