"""Which weights share a scale: by counting, for every kind of group and shape of weight."""

from typing import Any

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.priors.groups import Groups


def members(groups: Any, shape: Any) -> Any:
    """The number of its group for each weight, by way of `replicas`."""
    of_groups = groups.shape(shape)
    numbers = np.arange(np.prod(of_groups)).reshape(of_groups)
    return np.broadcast_to(groups.broadcast(tf.constant(numbers), shape), shape)


class GroupsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(((3, 4),), ((2, 3, 5, 4),), ((4,),))
    def test_members(self, shape: Any) -> None:
        index = np.indices(shape)
        expected = {
            "weight": np.arange(np.prod(shape)).reshape(shape),
            "output": index[-1],
            "layer": np.zeros(shape),
            1: np.zeros(shape),
            2: index[-1] // 2,
            4: index[-1],
        }
        if len(shape) > 1:
            expected["input"] = index[-2]
        for groups, numbers in expected.items():
            self.assertAllEqual(members(Groups(groups), shape), numbers)
            count = len(np.unique(numbers))
            self.assertEqual(np.prod(Groups(groups).shape(shape)), count)
            self.assertEqual(Groups(groups).size(shape), np.prod(shape) // count)
            self.assertLen(Groups(groups).shape(shape), len(shape))

    def test_gates_of_recurrent_layers(self) -> None:
        """Keras has them side by side in the last axis; GRUs have biases of two rows."""
        self.assertAllEqual(members(Groups(4), (2, 12))[1], np.repeat(range(4), 3))
        self.assertAllEqual(members(Groups(3), (2, 6)), np.tile(np.repeat(range(3), 2), (2, 1)))

    def test_bias_has_no_inputs(self) -> None:
        with self.assertRaisesRegex(ValueError, r"^groups='input' .* shape \(3,\); use 'weight'"):
            Groups("input").shape((3,))

    def test_parts_must_be_equal(self) -> None:
        with self.assertRaisesRegex(ValueError, r"^groups=4 must divide .* shape \(3, 10\)$"):
            Groups(4).shape((3, 10))

    @parameterized.parameters("gate", "", None, 0, -1, 1.5, True)
    def test_what_is_no_group(self, wrong: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^groups={wrong!r} "):
            Groups(wrong)


if __name__ == "__main__":
    tf.test.main()
