"""The base of metrics that pass on to another what they make of labels and outputs."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.arguments import instance, text


class OfMetric(keras.metrics.Metric):
    """A metric whose state, result and name are those of `metric`, which it holds.

    Args:
        metric: the metric that is given what `update_state` of a subclass makes.
        name: the name in logs; that of `metric` if None.
        example: one that would do, for the message of the error.

    Raises:
        ValueError: if `metric` is no metric.
    """

    def __init__(self, metric: keras.metrics.Metric, name: str | None, example: str) -> None:
        instance("metric", metric, keras.metrics.Metric, f"an object, such as {example}")
        name = metric.name if name is None else text("name", name)
        super().__init__(name=name, dtype=metric.dtype)
        self.metric = metric

    def result(self) -> Any:
        return self.metric.result()

    def reset_state(self) -> None:
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        return {"metric": keras.saving.serialize_keras_object(self.metric), "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> OfMetric:
        """The metric of a config, as `get_config` gives it."""
        return cls(**keras.saving.deserialize_keras_object(config))
