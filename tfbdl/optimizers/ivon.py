"""Improved variational online Newton: a mean-field posterior at the price of Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import number, positive, positive_integer
from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.optimizers.noisy import NoisyOptimizer
from tfbdl.tensorflow_private import on_all_replicas


@keras.saving.register_keras_serializable(package="tfbdl")
class IVON(NoisyOptimizer):
    """q(w) = N(m, sigma^2) for each weight, sigma^2 = T / (N (h + delta)), h the curvature.

    Each step draws w from q and takes the gradient g of Keras' mean loss there (Shen et al. 2024,
    "Variational learning is effective for large deep networks", algorithm 1):

        g_bar <- beta_1 g_bar + (1 - beta_1) g
        h_hat  = g (w - m) (h + delta) N / T         (its mean is the curvature of L)
        h     <- beta_2 h + (1 - beta_2) h_hat + (1 - beta_2)^2 (h - h_hat)^2 / (2 (h + delta))
        m     <- m - lr (h_0 + delta) (g_bar / (1 - beta_1^t) + delta m) / (h + delta)

    with delta = 1 / (N prior^2). Between steps the variables of the
    model are m: evaluation, checkpoints and files see the mean. `tfbdl.train` draws by itself;
    under `model.fit` the callback `DrawnWeights` does. `tfbdl.predict` draws functions from q.

    Args:
        learning_rate: lr, a number or a schedule; at the start a step is that of SGD with momentum
            at this rate. The paper's is 0.1 to 0.2, and falls by a cosine; where noise is learned
            and small, 0.1 can diverge and 0.03 not (a regression on the energy data of UCI).
        num_data: N, the number of training examples.
        prior: the scale of the normal prior on all weights; the loss must not have it too.
        beta_1: the decay rate of the mean gradient g_bar, in [0, 1).
        beta_2: the decay rate of the curvature h, in [0, 1); close to 1, since h_hat is noisy.
        initial_hessian: h_0 > 0: where h begins. Large values begin close to the mean.
        num_samples: draws a step, each with a gradient of its own; their means enter.
        temperature: T > 0: 1 is the posterior.
        seed: as in `NoisyOptimizer`.
        **kwargs: as in `NoisyOptimizer`.

    Raises:
        ValueError: if an argument is out of its range; when built, if a variable has a constraint,
            which drawn weights cannot keep.
    """

    def __init__(
        self,
        learning_rate: Any = 0.1,
        *,
        num_data: int,
        prior: float = 1.0,
        beta_1: float = 0.9,
        beta_2: float = 0.99999,
        initial_hessian: float = 1.0,
        num_samples: int = 1,
        temperature: float = 1.0,
        seed: int | None = None,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(
            learning_rate,
            num_data=num_data,
            temperature=positive("temperature", temperature, "positive; 1 is the posterior"),
            seed=seed,
            **kwargs,
        )
        self.prior = positive("prior", prior, "a positive scale")
        self.beta_1 = number("beta_1", beta_1, lambda b: 0 <= b < 1, "in [0, 1)")
        self.beta_2 = number("beta_2", beta_2, lambda b: 0 <= b < 1, "in [0, 1)")
        self.initial_hessian = positive("initial_hessian", initial_hessian)
        self.num_samples = positive_integer("num_samples", num_samples)
        if self.num_samples > 1 and self.gradient_accumulation_steps:
            raise ValueError(
                f"num_samples={num_samples} and gradient_accumulation_steps="
                f"{self.gradient_accumulation_steps} are two means of one; give one of them"
            )
        self._delta = 1.0 / (self.num_data * self.prior**2)
        self._sample: int | None = None

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes means, momenta and curvatures."""
        if self.built:
            return
        for variable in variables:
            if variable.constraint is not None:
                raise ValueError(
                    f"variable={variable.path} has a constraint, which drawn weights cannot keep"
                )
        super().build(variables)
        first = {"mean": 0.0, "momentum": 0.0, "hessian": self.initial_hessian}
        if self.num_samples > 1:
            first |= {"gradient_sum": 0.0, "hessian_sum": 0.0}
        self._slots = {
            name: self.add_optimizer_variables(
                variables, name, initializer=keras.initializers.Constant(value)
            )
            for name, value in first.items()
        }

    def train_step(self, model: keras.Model, step: Callable[[], Any]) -> Any:
        """A training step of a model at drawn weights: one for each draw.

        Args:
            model: a model that is compiled with this optimizer.
            step: Keras' `train_step` of a batch, which calls `apply` once.
        """
        variables = model.trainable_variables
        if not self.built:
            self.build(variables)
        for sample in range(self.num_samples):
            self._sample = sample
            on_all_replicas(self._draw, variables)
            logs = step()
        on_all_replicas(self._settle, variables)
        self._sample = None
        return logs

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        sample = self._sample  # another replica's thread may set it while this one waits
        if sample is None:
            raise ValueError(
                "IVON needs the gradient at drawn weights; train by tfbdl.train, or give model.fit "
                "callbacks=[tfbdl.optimizers.DrawnWeights()]"
            )
        super().apply(grads, trainable_variables)
        if sample + 1 < self.num_samples:
            self._iterations.assign_sub(1)  # a step is one, however many draws it takes

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        slots = self._slots_of(variable)
        mean, momentum, hessian = (slots[name] for name in ("mean", "momentum", "hessian"))
        gradient = tf.cast(gradient, variable.dtype)
        h = tf.convert_to_tensor(hessian)
        offset = tf.convert_to_tensor(variable) - mean
        h_hat = gradient * offset * (h + self._delta) * (self.num_data / self.temperature)
        if self.num_samples > 1:
            gradient, h_hat = self._averaged(slots, gradient, h_hat)
            if self._sample != self.num_samples - 1:
                return
        t = tf.cast(self.iterations + 1, variable.dtype)
        g_bar = self.beta_1 * momentum + (1.0 - self.beta_1) * gradient
        rest = 1.0 - self.beta_2
        correction = 0.5 * rest**2 * tf.square(h - h_hat) / (h + self._delta)
        h_new = self.beta_2 * h + rest * h_hat + correction
        slope = g_bar / (1.0 - self.beta_1**t) + self._delta * mean
        lr = tf.cast(learning_rate, variable.dtype) * (self.initial_hessian + self._delta)
        self.assign(momentum, g_bar)
        self.assign(hessian, h_new)
        self.assign(mean, mean - lr * slope / (h_new + self._delta))

    def stddev(self, variable: keras.Variable) -> tf.Tensor:
        """The standard deviation sigma of q for a variable's weights, of the variable's shape."""
        h = tf.convert_to_tensor(self._slots_of(variable)["hessian"])
        return tf.sqrt(self.temperature / (self.num_data * (h + self._delta)))

    def get_config(self) -> dict[str, Any]:
        names = ("prior", "beta_1", "beta_2", "initial_hessian", "num_samples")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _slots_of(self, variable: keras.Variable) -> dict[str, keras.Variable]:
        index = self._get_variable_index(variable)
        return {name: variables[index] for name, variables in self._slots.items()}

    def _draw(self, variable: Any) -> None:
        """Puts w ~ q into the variable, and m into its slot."""
        mean = self._slots_of(variable)["mean"]
        if self._sample == 0:
            self.assign(mean, variable)
        noise = self.stddev(variable) * self.noise(variable, self._sample or 0)
        self.assign(variable, mean + noise)

    def _settle(self, variable: Any) -> None:
        """Puts m into the variable."""
        self.assign(variable, self._slots_of(variable)["mean"])

    def _averaged(
        self, slots: dict[str, keras.Variable], gradient: tf.Tensor, h_hat: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The means of both over the draws so far; kept, until the last, in the slots of sums."""
        means = []
        for name, value in (("gradient_sum", gradient), ("hessian_sum", h_hat)):
            total = value if self._sample == 0 else slots[name] + value
            self.assign(slots[name], total)
            means.append(total / self.num_samples)
        return means[0], means[1]
