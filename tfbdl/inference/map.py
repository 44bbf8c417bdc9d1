"""The mode of the posterior: maximum a posteriori."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import boolean, optional, positive, positive_integer, shown
from tfbdl.flat_model import FlatModel
from tfbdl.inference.initial_points import initial_points
from tfbdl.inference.method import Method
from tfbdl.inference.mode_search import Mode, Search
from tfbdl.inference.target import Prior, Target, TargetMethod
from tfbdl.inference.weight_table import WeightTable
from tfbdl.likelihoods import LikelihoodLike
from tfbdl.models import WeightEnsemble


@keras.saving.register_keras_serializable(package="tfbdl")
class MAP(TargetMethod):
    """The weights with the highest posterior density: argmax log p(y | x, theta) + log p(theta).

    Under a normal prior of scale s it is what weight decay finds: the minimum of Keras' mean loss
    with the regulariser `L2(1 / (2 N s^2))` on all weights. It is one function and no posterior,
    the cheapest start for a posterior (`Laplace`), and as a set of weights it may look unlike any
    sample: the mode of a Laplace prior is sparse, its samples are not (Bishop 2006, section 1.2.5).

    Args:
        model: a built `keras.Model`, or a log density, as in `MCMC`.
        prior: p(w) of a network's weights, as in `MCMC`; None beside a log density.
        likelihood: p(y | f(x)) of a network, as `tfbdl.likelihoods.get` takes it; by default that
            of the loss it was compiled with.
        optimizer: "lbfgs", or a Keras optimizer, its learning rate counted on the log posterior of
            all the data, such as `keras.optimizers.Adam(1e-2)`.
        max_iterations: the most iterations of the optimizer.
        tolerance: the search ends where the largest absolute element of the gradient is less than
            this, in nats per unit of a weight; or where it is at most five times the change that
            rounding the weights makes in it, which in float32 may be far more.
        initial: the start of the search: "model" at the weights that the model has, "prior" at a
            draw from it; or theta, shape (D,), which a log density needs.
        seed: the seed of a draw from the prior.
        dtype: "float64", or "float32" for large networks, where the search may end before the mode,
            by the rounding of the density, and says so. A log density is computed in the type of
            `initial`.
        jit_compile: whether XLA compiles the search, as in `MCMC`.

    Attributes:
        theta: the mode, shape (D,).
        log_prob: the log density at the mode, in nats.
        gradient_norm: the largest absolute element of the gradient at the mode.
        num_iterations: the number of iterations taken.

    Raises:
        ValueError: if an argument is out of its range or does not go with the others.
    """

    _result: Mode | None

    def __init__(
        self,
        model: Target,
        prior: Prior = None,
        *,
        likelihood: LikelihoodLike | None = None,
        optimizer: str | keras.optimizers.Optimizer = "lbfgs",
        max_iterations: int = 5000,
        tolerance: float = 1e-3,
        initial: Any = "model",
        seed: int = 0,
        dtype: str = "float64",
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(model, prior, likelihood, dtype=dtype, name=name)
        is_name = isinstance(optimizer, str) and optimizer == "lbfgs"
        if not is_name and not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(f"optimizer={shown(optimizer)} must be 'lbfgs' or a keras optimizer")
        self.optimizer = optimizer
        self.max_iterations = positive_integer("max_iterations", max_iterations)
        self.tolerance = positive("tolerance", tolerance, "a positive finite number")
        if isinstance(initial, Method):
            raise ValueError(f"initial={initial!r} is a posterior; give theta, as one of its draws")
        self.initial = initial
        self.seed = arguments.seed("seed", seed)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
    ) -> MAP:
        """Searches; a second call begins at `initial` again. Returns the object itself.

        Args:
            x: inputs of the network, shape (N, ...), or batches (x, y) or (x, y, weights), read
                into memory: a `tf.data.Dataset`, a `keras.utils.PyDataset`, a generator. None for a
                log density.
            y: targets, shape (N, ...); None if x has them.
            sample_weight: the weights w_n of the examples, shape (N,): the likelihood is the
                product of p(y_n | f(x_n))^w_n.
            class_weight: weights by class in their place, as in Keras' `fit`.
            batch_size: examples at a time, to bound the memory; None takes all at once.
            steps: the number of batches to take of a data set; None for all.

        Raises:
            ValueError: if x and y do not fit the network, its likelihood or each other, the prior
                is discrete, or the density at the start is not finite.

        Warns:
            UserWarning: if the search ended before it came to the mode.
        """
        weights = {"sample_weight": sample_weight, "class_weight": class_weight}
        target = self._density(x, y, **weights, batch_size=batch_size, steps=steps)
        if any(p.discrete for p in getattr(target, "priors", None) or ()):
            raise ValueError("prior is discrete, which has no gradient to follow to a mode")
        theta = initial_points(target, self.initial, 1, 0.0, self.seed)[0]
        search = Search(target, self.jit_compile, self.tolerance, self.max_iterations)
        start = search.at(theta, 0)
        if not np.isfinite(start.log_prob):
            raise ValueError(f"initial has a log density of {start.log_prob}; start elsewhere")
        if isinstance(self.optimizer, str):
            mode = search.follow_curvature(start)
        else:
            mode = search.descend(start, self.optimizer)
        if not search.at_mode(mode):
            warnings.warn(
                f"no mode after {mode.num_iterations} iterations: the gradient is "
                f"{mode.gradient_norm:.2g}; {self._advice(mode)}",
                stacklevel=2,
            )
        self._keep(mode)
        self._hold(target)
        return self

    def _advice(self, mode: Mode) -> str:
        if mode.num_iterations >= self.max_iterations:
            return "raise max_iterations, or take another optimizer"
        if mode.theta.dtype == np.float32:
            return "steps gain nothing in float32; give dtype='float64'"
        return "steps gain nothing; take another optimizer"

    @property
    def theta(self) -> np.ndarray:
        return self._fitted("theta").theta

    @property
    def log_prob(self) -> float:
        return self._fitted("log_prob").log_prob

    @property
    def gradient_norm(self) -> float:
        return self._fitted("gradient_norm").gradient_norm

    @property
    def num_iterations(self) -> int:
        return self._fitted("num_iterations").num_iterations

    def sample(self, num_samples: int = 1, *, seed: int = 0) -> np.ndarray:
        """The mode, shape (1, D), however many are asked for; `seed` changes nothing.

        Raises:
            NotFittedError: before `fit`.
        """
        theta = self._fitted("sample").theta
        positive_integer("num_samples", num_samples)
        arguments.seed("seed", seed)
        return theta[np.newaxis].copy()

    def ensemble(self, num_samples: int = 1, *, seed: int = 0) -> WeightEnsemble:
        """The network at the mode, as a model of one function, however many are asked for.

        Raises:
            ValueError: if the target is a log density.
            NotFittedError: before `fit`.
        """
        theta = self._fitted("ensemble").theta
        positive_integer("num_samples", num_samples)
        arguments.seed("seed", seed)
        return self._ensemble_of(theta[np.newaxis])

    def assign(self, model: keras.Model) -> None:
        """Writes the mode into a model of the same network, in the model's floating type."""
        theta, flat = self._fitted("assign").theta, FlatModel(model)
        flat.assign(tf.cast(theta, flat.dtype))

    def summary(self) -> WeightTable:
        """The mode of each weight tensor, and how good it is."""
        mode = self._fitted("summary")
        remarks = [
            f"log density {mode.log_prob:.6g} nats; largest gradient {mode.gradient_norm:.2g}; "
            f"{mode.num_iterations} iterations"
        ]
        shapes = {"theta": mode.theta.shape} if self._flat is None else self._flat.shapes
        return WeightTable.of(repr(self), shapes, mode.theta, None, remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        mode = self._fitted("fitted_arrays")._asdict()
        return {**{k: np.asarray(v) for k, v in mode.items()}, **self._state_arrays()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        theta, log_prob, gradient_norm = (arrays[n] for n in Mode._fields[:3])
        number = int(arrays["num_iterations"])
        self._keep(Mode(theta, float(log_prob), float(gradient_norm), number))
        self._restore_state(arrays)
