"""Models of x alone, trained and evaluated by Keras without targets."""

from __future__ import annotations

import abc
from typing import Any

import keras

from tfbdl.likelihoods import Likelihood
from tfbdl.models import vae_data


class WithoutTargets(keras.Model):
    """A model of p(x): `fit` and `evaluate` take x, which its likelihood has to have."""

    likelihood: Likelihood

    @property
    @abc.abstractmethod
    def _known_shape(self) -> tuple[int, ...] | None:
        """The shape of one x; None before it is known."""

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int | str = "auto",
        *,
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
    ) -> keras.callbacks.History:
        """Trains as `keras.Model.fit`, without targets.

        Args:
            x: examples, shape (N, ...), or batches of them, as Keras takes both.
            y: targets, which nothing looks at; leave them out.
            batch_size: as in Keras.
            epochs: as in Keras.
            verbose: as in Keras.
            callbacks: as in Keras.
            validation_split: as in Keras.
            validation_data: x, or (x,), to evaluate on after each epoch.
            shuffle: as in Keras.
            sample_weight: the weight of each example's whole bound, shape (N,), at least 0.
            initial_epoch: as in Keras.
            steps_per_epoch: as in Keras.
            validation_steps: as in Keras.
            validation_batch_size: as in Keras.
            validation_freq: as in Keras.

        Raises:
            ValueError: if x is not what the model takes, or weights are not one for each example.
        """
        held_out = validation_data[0] if isinstance(validation_data, tuple) else validation_data
        for data in (x,) if held_out is None else (x, held_out):
            vae_data.check_fed(data, self.likelihood, self._known_shape)
        y, sample_weight = vae_data.with_weights(x, y, sample_weight)
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_split=validation_split,
            validation_data=validation_data,
            shuffle=shuffle,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
            validation_freq=validation_freq,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int | str = "auto",
        *,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Evaluates as `keras.Model.evaluate`, without targets.

        Args:
            x: as in `fit`.
            y: as in `fit`.
            batch_size: as in Keras.
            verbose: as in Keras.
            sample_weight: as in `fit`.
            steps: as in Keras.
            callbacks: as in Keras.
            return_dict: as in Keras.
            **kwargs: what Keras' own `fit` passes on; nothing for users.

        Raises:
            ValueError: as in `fit`.
        """
        vae_data.check_fed(x, self.likelihood, self._known_shape)
        y, sample_weight = vae_data.with_weights(x, y, sample_weight)
        return super().evaluate(
            x,
            y,
            batch_size=batch_size,
            verbose=verbose,
            sample_weight=sample_weight,
            steps=steps,
            callbacks=callbacks,
            return_dict=return_dict,
            **kwargs,
        )
