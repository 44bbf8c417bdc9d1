"""What models that hold weights for one network have in common: their files."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.models import NormalWeights, WeightEnsemble, reweighted


def network() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


class FormatTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        lambda: WeightEnsemble(network(), np.arange(6.0).reshape(2, 3)),
        lambda: NormalWeights(network(), np.zeros(3), np.ones(3)),
    )
    def test_a_newer_file_is_refused_in_one_line(self, make: Callable[[], keras.Model]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            now, newer = Path(folder) / "now.keras", Path(folder) / "newer.keras"
            make().save(now)
            with mock.patch.object(reweighted, "FORMAT", 99):
                make().save(newer)
            self.assertIsInstance(tfbdl.load(now), type(make()))
            with self.assertRaisesRegex(
                ValueError, "format 99 is of a newer tfbdl.*update"
            ) as caught:
                tfbdl.load(newer)
            with self.assertRaisesRegex(ValueError, "format 99 is of a newer tfbdl"):
                keras.models.load_model(newer)
        self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    tf.test.main()
