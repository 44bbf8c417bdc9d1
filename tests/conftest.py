"""Two logical CPU devices for the whole session, so that `MirroredStrategy` has two replicas.

They must be configured before TensorFlow starts; nothing is placed on the second one otherwise.
"""

import gc
import os
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Without it some processors convolve no images whose channels are first.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

# Graphs are many objects that stay, and looking through them all takes much of the time.
gc.set_threshold(20_000, 20, 50)

THIRD_PARTY = (
    # TensorFlow Probability's layers, which a page sets beside ours, use Keras 2 in the old way.
    "ignore:`layer.add_variable` is deprecated:UserWarning",
    "ignore:The initializer RandomNormal is unseeded:UserWarning",
    # TensorFlow Probability compares TensorFlow's version in the old way.
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
    # Keras' own layer test trains on a generator, and layers without weights.
    "ignore:`shuffle=True` was passed, but will be ignored:UserWarning",
    "ignore:The model does not have any trainable weights:UserWarning",
)


def pytest_configure(config):
    for line in THIRD_PARTY:
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture
def without_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts whose parts are compiled in other tests take half of the time."""
    function = tf.function

    def plain(*args: Any, jit_compile: object = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    monkeypatch.setattr(tf, "function", plain)
