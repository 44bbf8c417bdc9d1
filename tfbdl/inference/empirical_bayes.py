"""Prior and noise chosen while the weights train, by the marginal likelihood."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.arguments import instance, integer, option, positive_integer, shown
from tfbdl.as_call import as_call
from tfbdl.inference import prior_precision as prior
from tfbdl.inference.laplace import Laplace
from tfbdl.likelihoods import Joint, Likelihood, Normal
from tfbdl.sources import GENERATOR, NO_TARGETS, Source, kind_of
from tfbdl.training.steps_of_fit import StepsOfFit


class EmpiricalBayes(keras.callbacks.Callback):
    """Trains under the prior of a `Laplace`, and maximises its marginal likelihood on the way.

    After every `every`-th epoch behind `start` the curvature is gathered anew, and prior precision
    and noise go to where the marginal likelihood is largest (Immer et al. 2021, "Scalable marginal
    likelihood estimation for model selection in deep learning", algorithm 1). It is a callback for
    `fit` and for `tfbdl.train`. While they train, the weights have the prior as their Keras
    regulariser, delta / (2 N) |w|^2, times T (sigma / s)^2 at a temperature T and beside a loss
    whose noise s is not sigma. What has been chosen lies in `laplace` and in the checkpoints of
    `tfbdl.train`, which go on with it; with `fit`, save `get_state()` beside your own checkpoints.

    Args:
        laplace: the posterior of the model that trains. Its `prior_precision` and `sigma_noise` are
            where the search starts; after training it is the posterior around the last weights.
        x: training inputs, shape (N, ...), or batches (x, y) or (x, y, weights): a
            `tf.data.Dataset` or a `keras.utils.PyDataset`.
        y: targets, shape (N, ...); None if x has them.
        sample_weight: the weights of the examples, as in `Laplace.fit` and beside Keras' loss.
        class_weight: weights by class in their place, as in Keras' `fit`.
        steps: the number of batches to take of a data set; None for all.
        prior_structure: "scalar", "layerwise" or "diag", as in `optimize_prior_precision`.
        start: epochs without a search at the beginning, in which the weights find their place.
        every: epochs between two searches.

    Attributes:
        log_marginal_likelihood: the evidence found by each search, in nats for the whole data set,
            by epoch from 1.

    Raises:
        ValueError: if an argument is out of its range; in training if a weight has a regulariser of
            its own, another model is trained or by another loss, or `fit` goes on behind a search
            of which the callback does not know.
    """

    def __init__(
        self,
        laplace: Laplace,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        steps: int | None = None,
        prior_structure: str = "layerwise",
        start: int = 10,
        every: int = 10,
    ) -> None:
        super().__init__()
        self.laplace = instance("laplace", laplace, Laplace, "a tfbdl.inference.Laplace")
        self.prior_structure = option("prior_structure", prior_structure, prior.PRIOR_STRUCTURES)
        self.start = integer("start", start, least=0)
        self.every = positive_integer("every", every)
        self.log_marginal_likelihood: dict[int, float] = {}
        weights = {"sample_weight": sample_weight, "class_weight": class_weight}
        self._data: dict[str, Any] = {"x": x, "y": y, **weights, "steps": steps}
        if y is None and kind_of(x) is None:
            raise ValueError(NO_TARGETS)
        if kind_of(x) == GENERATOR:
            raise ValueError(
                "x is a generator, which gives its batches once, and each search needs them; give "
                "arrays, a tf.data.Dataset or a keras.utils.PyDataset"
            )

    def __repr__(self) -> str:
        return as_call(self, self._data)

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        likelihoods.check_metrics(model)
        likelihoods.check_is_mean(model, "the prior's part")
        if model is not self.laplace.model:
            raise ValueError(f"laplace is of model={self.laplace.model.name!r}; train that one")
        self._noise_of_loss = _noise(model, self.laplace)
        data = Source(**self._data, model=model)
        self._num_data = sum(element.size for element in data.elements())
        self._is_training = tf.Variable(0.0, trainable=False)
        weights = self.laplace.weights_with_posterior
        self._penalties = [_Penalty(weight, self._is_training) for weight in weights]
        model.train_function = None  # it may have been traced without the penalties

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._is_current = False
        self._set_penalties()
        if self.model.train_function is None:
            self._is_training.assign(1.0)  # by `tfbdl.train`, which calls `on_train_error`
            return
        self.model.make_test_function()
        for function in ("train_function", "test_function"):
            StepsOfFit(self.model, self._penalized, function)

    def on_train_error(self) -> None:
        """Leaves the weights without the prior, where an error has ended `tfbdl.train`."""
        self._remove_penalties()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        last = epoch - (epoch - self.start) % self.every
        if last > self.start and last not in self.log_marginal_likelihood:
            raise ValueError(
                f"initial_epoch={epoch} is behind the search after epoch {last}; set_state to what "
                f"get_state was then, or search anew from start={epoch}"
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        behind = epoch + 1 - self.start
        self._is_current = behind > 0 and behind % self.every == 0
        if self._is_current:
            self.laplace.fit(**self._data).optimize_prior_precision(
                prior_structure=self.prior_structure, with_noise=self._noise_of_loss is not None
            )
            self.log_marginal_likelihood[epoch + 1] = float(self.laplace.log_marginal_likelihood())
            self._set_penalties()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if not self._is_current:
            self.laplace.fit(**self._data)
        self._remove_penalties()

    def get_state(self) -> dict[str, np.ndarray]:
        """The hyperparameters chosen so far, and the `log_marginal_likelihood` of each."""
        return {
            "prior_precision": self.laplace.prior_precision.numpy(),
            "sigma_noise": np.array(self.laplace.sigma_noise or 1.0),
            "epochs": np.array(list(self.log_marginal_likelihood), int),
            "log_marginal_likelihood": np.array(list(self.log_marginal_likelihood.values())),
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `get_state`, before training goes on."""
        self.laplace.prior_precision = state["prior_precision"]
        self.laplace.sigma_noise = float(state["sigma_noise"])
        values = zip(state["epochs"], state["log_marginal_likelihood"], strict=True)
        self.log_marginal_likelihood = {int(epoch): float(value) for epoch, value in values}

    @contextmanager
    def _penalized(self, iterator: Any) -> Iterator[None]:
        """Has a step of `fit` count the prior."""
        self._is_training.assign(1.0)
        try:
            yield
        finally:
            self._is_training.assign(0.0)

    def _remove_penalties(self) -> None:
        for penalty in self._penalties:
            penalty.remove()
        self.model.train_function = self.model.test_function = None

    def _set_penalties(self) -> None:
        sizes = [penalty.size for penalty in self._penalties]
        delta = prior.of_each_weight(self.laplace.prior_precision, sizes)
        relative_noise = (self.laplace.sigma_noise or 1.0) / (self._noise_of_loss or 1.0)
        strength = self.laplace.temperature * delta * relative_noise**2 / self._num_data
        for penalty, part in zip(self._penalties, tf.split(strength, sizes), strict=True):
            penalty.assign(part)


class _Penalty(keras.regularizers.Regularizer):
    """c / 2 |w|^2 of a weight, as its Keras regulariser.

    It is 0 outside of training: one that an interrupted `fit` leaves behind changes nothing.

    Args:
        weight: without a regulariser of its own.
        is_training: a variable of all penalties, 0 or 1.
    """

    def __init__(self, weight: keras.Variable, is_training: tf.Variable) -> None:
        if weight.regularizer is not None and not isinstance(weight.regularizer, _Penalty):
            raise ValueError(
                f"weight={weight.path!r} has a regulariser, and the prior would count twice; "
                "leave it out"
            )
        self._weight, self._is_training = weight, is_training
        self.size = math.prod(weight.shape)
        self._strength = tf.Variable(tf.zeros(weight.shape, weight.dtype), trainable=False)
        weight.regularizer = self

    def __call__(self, w: tf.Tensor) -> tf.Tensor:
        penalty = 0.5 * tf.reduce_sum(self._strength * tf.convert_to_tensor(w) ** 2)
        return tf.cast(self._is_training, penalty.dtype) * penalty

    def remove(self) -> None:
        """Leaves the weight without a regulariser, as it was."""
        self._weight.regularizer = None

    def assign(self, strength: tf.Tensor) -> None:
        """Sets c, shape (size,)."""
        shape, dtype = self._strength.shape, self._strength.dtype
        self._strength.assign(tf.cast(tf.reshape(strength, shape), dtype))


def _noise(model: keras.Model, laplace: Laplace) -> float | None:
    """The noise in the loss that a model trains by; None where there is none to choose."""
    loss = likelihoods.of_model(model, None)
    likelihood = laplace.likelihood or loss
    chosen = isinstance(loss, Normal) and loss.scale != "predicted"
    if loss is None or _law(loss) != _law(likelihood):
        raise ValueError(
            f"loss={shown(model.loss)} is not that of laplace; compile the model with its "
            "likelihood"
        )
    return float(loss.scale) if chosen else None


def _law(likelihood: Likelihood | None, noise_is_chosen: bool = True) -> Any:
    """What makes a likelihood another: all but names, and a noise that is chosen by the data."""
    if isinstance(likelihood, Joint):
        parts = [_law(part, noise_is_chosen=False) for part in likelihood.parts]
        return likelihood.names, parts, keras.tree.flatten(likelihood.weights)
    if likelihood is None:
        return None
    config = likelihood.get_config()
    if noise_is_chosen and isinstance(likelihood, Normal) and likelihood.scale != "predicted":
        config["scale"] = None
    own = {name: value for name, value in config.items() if name not in ("name", "reduction")}
    return type(likelihood), keras.saving.serialize_keras_object(own)
