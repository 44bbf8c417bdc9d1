"""The base of all methods of inference: configured, fitted to data, asked, saved."""

from __future__ import annotations

import abc
import os
from typing import Any

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import optional, positive_integer, shown
from tfbdl.as_call import arguments_of, as_call
from tfbdl.configs import lambda_of
from tfbdl.inference.last_asked import LastAsked
from tfbdl.keras_private import walk
from tfbdl.keras_private_graphs import check_files_hold
from tfbdl.lora import is_factor, lora_of, read_factors, set_lora, write_factors
from tfbdl.model_arguments import symbolic_inputs
from tfbdl.models import WeightEnsemble
from tfbdl.npz_file import FORMAT, check_format
from tfbdl.predictive import Prediction, predict
from tfbdl.predictive.predict import Request
from tfbdl.sources import Source


class NotFittedError(ValueError):
    """A method is asked before `fit`."""


class Method(keras.layers.Layer, abc.ABC):
    """A posterior over the weights of a network, and how it is found.

    The constructor checks its arguments and remembers them; it computes nothing and changes
    nothing. `fit` takes the data and finds the posterior, which is then asked:

        posterior = Laplace(model).fit(x, y)
        prediction = tfbdl.predict(posterior, x_test)
        posterior.sample(100), posterior.ensemble(100), posterior.summary()
        posterior.save("posterior.keras")
        posterior = tfbdl.load("posterior.keras")

    A subclass keeps each argument of its constructor under the argument's own name, and by
    `_keep` what `fit` finds; it defines `fit`, `sample`, `ensemble` and `summary`, and says by
    `fitted_arrays` and `restore` what a file has to hold. It is a Keras layer so that Keras saves,
    pickles and copies it.
    """

    def __init__(self, *, name: str | None = None, dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.built = True
        self._result: Any = None
        self.__dict__["_result_of"] = []  # no part of a file

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has found a posterior."""
        return self._result is not None

    @property
    def _saved_network(self) -> Any:
        """The network; None of a method of densities."""
        return getattr(self, "model", None)

    @property
    def input(self) -> Any:
        """The symbolic inputs of the network, in their structure."""
        return symbolic_inputs(self.model)

    @abc.abstractmethod
    def sample(self, num_samples: int = 100, *, seed: int = 0) -> np.ndarray:
        """Samples of the weights, shape (num_samples, P), in the order of `trainable_variables`.

        P is D, the number of all weights. `Laplace` and `NeuralLinear` alone give samples of the
        weights that have a posterior, by default the last layer's; `ensemble` has all weights.

        Some posteriors have only so many, such as the members of a `DeepEnsemble`, the states of
        chains, or the one mode of `MAP`. They give all that they have, here and in `ensemble`, if
        more are asked for.
        """

    @abc.abstractmethod
    def ensemble(self, num_samples: int = 100, *, seed: int = 0) -> WeightEnsemble:
        """The same draws as one Keras model, whose functions `tfbdl.predict` draws."""

    @abc.abstractmethod
    def summary(self) -> Any:
        """A summary of the posterior; printed, a table."""

    def functions(self, num_samples: int, seed: int) -> keras.Model:
        """The functions by which `tfbdl.predict` and `tfbdl.export` answer: an ensemble.

        Raises:
            ValueError: if the posterior answers in another way.
        """
        self._fitted("export")
        return self.ensemble(num_samples, seed=seed)

    def predictive(self, x: Source, request: Request) -> Prediction:
        """The predictive distribution of this posterior, for `tfbdl.predict`."""
        self._fitted("predict")
        drawn = self.functions(request.num_samples, request.seed)
        last = self.__dict__.setdefault("_last_asked", LastAsked())  # no part of a file
        with last.like(drawn) as functions:
            return predict(functions, x, **request._asdict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.keras` file, which `tfbdl.load` and `keras.models.load_model` read.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if `path` does not end in `.keras`, or an argument of the constructor cannot
                be saved, such as a function, or a network that has a lambda in it.
            FileExistsError: if `path` exists.
        """
        self._fitted("save")
        path = arguments.path("path", path)
        if path.suffix != ".keras":
            raise ValueError(f"path={str(path)!r} must end in .keras")
        if path.exists():
            raise FileExistsError(f"path={str(path)!r} exists; name another, or remove it first")
        self.get_config()  # refuses before a file is begun
        keras.saving.save_model(self, path)

    @abc.abstractmethod
    def fitted_arrays(self) -> dict[str, np.ndarray]:
        """The arrays that `fit` has found, by name; the network saves itself."""

    @abc.abstractmethod
    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores the state from `fitted_arrays`."""

    def save_own_variables(self, store: Any) -> None:
        if self.is_fitted:  # copies of methods that are not come here too
            for name, array in self.fitted_arrays().items():
                store[name.replace("/", "|")] = array
            if isinstance(self._saved_network, keras.Model):
                write_factors(self._saved_network, store)

    def load_own_variables(self, store: Any) -> None:
        if isinstance(self._saved_network, keras.Model):
            read_factors(self._saved_network, store)
        names = [name for name in store.keys() if not is_factor(name)]  # noqa: SIM118
        if names:
            self.restore({name.replace("|", "/"): np.asarray(store[name]) for name in names})

    def get_config(self) -> dict[str, Any]:
        return self._config_but()

    def _config_but(self, *names: str, **others: Any) -> dict[str, Any]:
        """The arguments of the constructor, but for those named, as files hold them.

        Args:
            names: arguments to leave out.
            others: what files hold in place of the attributes of these names.
        """
        kept = {name: getattr(self, name) for name in arguments_of(type(self)) if name not in names}
        config = {name: self._serialized(name, v) for name, v in {**kept, **others}.items()}
        if isinstance(self._saved_network, keras.Model):  # its layers forget their factors' scale
            config["lora"] = [lora_of(layer) for layer in walk(self._saved_network)]
        return {"format": FORMAT, "name": self.name, **config}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Method:
        config = dict(config)
        check_format(config.pop("format", FORMAT))
        deserialize = keras.saving.deserialize_keras_object
        factors = config.pop("lora", [])
        made = {
            name: deserialize(value) if isinstance(value, dict) else value
            for name, value in config.items()
        }
        for layer, lora in zip(walk(made["model"]) if factors else (), factors, strict=True):
            set_lora(layer, *lora)
        return cls(**made)

    def __repr__(self) -> str:
        return f"{as_call(self)}{'' if self.is_fitted else ', not fitted'}"

    def _serialized(self, name: str, value: Any) -> Any:
        if callable(value) and not hasattr(value, "get_config"):
            raise ValueError(
                f"{name}={value!r} is a function, which no file can hold; keep sample() or "
                "ensemble() of what is fitted"
            )
        if isinstance(value, keras.Model):
            check_files_hold(name, value)
            for layer in walk(value):
                odd = lambda_of(layer)
                if odd is not None:
                    raise ValueError(
                        f"{name}={value.name!r}: {odd} of layer {layer.name!r} is a lambda, which "
                        "files give back in no safe mode; take a registered function, or keep "
                        "sample() of what is fitted"
                    )
        try:
            return keras.saving.serialize_keras_object(value)
        except NotImplementedError as error:  # Keras' words, with an example
            reason = " ".join(str(error).partition("Example:")[0].split())
            raise ValueError(f"{name}={shown(value)} cannot be saved: {reason}") from None

    def _keep(self, result: Any) -> None:
        """Keeps what `fit` has found about the weights that the network trains now."""
        self._result = result
        self.__dict__["_result_of"] = self._trained_weights()

    def _fitted(self, what: str) -> Any:
        """The result of `fit`.

        Raises:
            NotFittedError: before `fit`; `what` is what was asked for.
            ValueError: if the network trains other weights than those that have the posterior.
        """
        if not self.is_fitted:
            raise NotFittedError(f"{what} needs a fitted {type(self).__name__}; call fit first")
        if self._trained_weights() != self.__dict__["_result_of"]:
            raise ValueError(
                f"{what}: model={self._saved_network.name!r} has other trainable weights than at "
                "fit; make them trainable as they were, or call fit again"
            )
        return self._result

    def _trained_weights(self) -> list[int]:
        """The weights of the network that are trained, as objects."""
        network = self._saved_network
        known = network.trainable_variables if isinstance(network, keras.Model) else []
        return [id(variable) for variable in known]


def at_most(number: int, num_samples: int | None) -> int:
    """The number of samples to take of `number` where `num_samples` are asked for; all for None.

    All, too, where more are asked for: one number then goes for all posteriors, and the share of
    each member is the same, which is not so where some are given twice.

    Raises:
        ValueError: if `num_samples` is not a positive integer.
    """
    return min(optional(positive_integer, "num_samples", num_samples) or number, number)
