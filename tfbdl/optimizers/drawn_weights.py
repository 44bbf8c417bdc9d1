"""Training steps at drawn weights, for Keras' own `fit`."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras

from tfbdl.keras_private_training import inner_optimizer
from tfbdl.optimizers.ivon import IVON


class DrawnWeights(keras.callbacks.Callback):
    """Lets `model.fit` take its gradients at the weights that `IVON` draws.

        model.compile(tfbdl.optimizers.IVON(0.1, num_data=len(x)), loss)
        model.fit(x, y, callbacks=[tfbdl.optimizers.DrawnWeights()])

    `tfbdl.train` needs no such callback.

    Raises:
        ValueError: when training begins, if the model is compiled with another optimizer.
    """

    def set_model(self, model: keras.Model) -> None:
        optimizer = inner_optimizer(getattr(model, "optimizer", None))
        if not isinstance(optimizer, IVON):
            raise ValueError(
                f"model={model.name} is compiled with {type(optimizer).__name__}; DrawnWeights is "
                "for tfbdl.optimizers.IVON"
            )
        super().set_model(model)

        def train_step(data: Any) -> Any:
            return optimizer.train_step(model, partial(type(model).train_step, model, data))

        model.__dict__["train_step"] = train_step
        model.train_function = None  # it may have been made with another train_step

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.model.__dict__.pop("train_step", None)
        self.model.train_function = None
