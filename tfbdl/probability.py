"""TensorFlow Probability as `tfp`, loaded where it is first used.

Its import takes as long as that of all the rest of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

__all__ = ["tfp"]


class _LoadedLater:
    """The package, whose parts are imported as they are asked for."""

    def __getattr__(self, name: str) -> Any:
        with tf.init_scope():  # a function may be traced just now, and keeps no constants of it
            import tensorflow_probability  # noqa: PLC0415

            return getattr(tensorflow_probability, name)


if TYPE_CHECKING:
    import tensorflow_probability as tfp
else:
    tfp = _LoadedLater()
