"""The result of `tfbdl.predict`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl.arguments import number
from tfbdl.examples import examples
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.targets import match
from tfbdl.predictive.replicates import log_likelihoods

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
P = TypeVar("P", bound="Prediction")
Index: TypeAlias = int | slice | Sequence[int] | np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The predictive distribution p(y | x) = mean over f of p(y | f(x)), for N inputs.

    The variance has two parts (law of total variance): the aleatoric, which is the noise that each
    function sees in the data, and the epistemic, which is how far the functions differ and which
    more data would take away.

    Outputs of shape (N, ..., D), such as those of pixels, (N, H, W, C), or of tokens, (N, T, C),
    have a y at each position along the axes between, as in Keras' losses: entropies and mutual
    information are given for each position, shape (N, ...), or (N,) where an example has one y.

    Attributes:
        mean: E[y | x], shape (N, ...); for classes the class probabilities, (N, ..., C).
        aleatoric_variance: mean over f of Var[y | f(x)], of the shape of `mean`; None where no
            likelihood is known.
        epistemic_variance: variance over the S functions of E[y | f(x)], of the shape of `mean`.
            The posterior's variance is S / (S - 1) times as large on average.
        expected_entropy: mean over f of the entropy of p(y | f(x)) at each position, shape
            (N, ...), in nats: the aleatoric uncertainty of classes. None where no likelihood is
            known, or its entropy is not.
        num_samples: S, the number of functions; 0 for the mean weights alone.
        likelihood: p(y | f(x)), or None.
        outputs: the network's outputs for each function, shape (S, N, ...), if they were kept.
        mask: the positions that count where Keras' layers hand a mask on, as `Embedding` with
            `mask_zero` does: booleans of shape (N, ...); None where there is no mask. Values at the
            other positions mean nothing, and `log_prob` leaves these out.
    """

    mean: np.ndarray
    aleatoric_variance: np.ndarray | None
    epistemic_variance: np.ndarray
    expected_entropy: np.ndarray | None
    num_samples: int
    likelihood: Likelihood | None
    outputs: np.ndarray | None
    mask: np.ndarray | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        known = "" if self.likelihood is None else f", {type(self.likelihood).__name__}"
        shape = ", ".join(map(str, self.mean.shape))
        return f"<{type(self).__name__} of shape ({shape}), {self._origin}{known}>"

    @property
    def _origin(self) -> str:
        return f"{self.num_samples} functions" if self.num_samples else "the mean weights"

    def __len__(self) -> int:
        """N, the number of inputs."""
        return len(self.mean)

    def __getitem__(self: P, index: Index) -> P:
        """The prediction of some of the inputs: of a slice, a mask, their numbers or one number.

        One number gives a prediction of length 1.
        """
        if isinstance(index, (int, np.integer)):
            index = [range(len(self))[index]]
        rows = np.arange(len(self))[index]
        parts = {f.name: self._rows_of(f.name, getattr(self, f.name), rows) for f in fields(self)}
        return replace(self, **parts)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row for each input, as a `pandas.DataFrame`.

        Columns have the names of the attributes, with the place of an output behind the names of
        those that have several, as in "mean[0]"; "low" and "high" are the ends of `interval()`.

        Raises:
            ImportError: if pandas is missing.
        """
        try:
            import pandas  # noqa: PLC0415 (optional)
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas; pip install 'tfbdl[pandas]'") from error
        columns = {
            "mean": self.mean,
            "stddev": self.stddev,
            "epistemic_stddev": self.epistemic_stddev,
        }
        if self.likelihood is not None:
            columns["aleatoric_stddev"] = self.aleatoric_stddev
        if self.likelihood is None or not self.likelihood.is_discrete:
            columns["low"], columns["high"] = self.interval()
        else:
            columns["entropy"] = self.entropy
            columns["expected_entropy"] = self._expected_entropy()
            columns["mutual_information"] = self.mutual_information
        frame = {}
        for name, values in columns.items():
            places = np.ndindex(values.shape[1:])
            several = np.prod(values.shape[1:]) > 1
            for place in places:
                label = name + (f"[{','.join(map(str, place))}]" if several else "")
                column = (slice(None), *place)
                frame[label] = values[column]
        return pandas.DataFrame(frame)

    @property
    def stddev(self) -> np.ndarray:
        """Standard deviation of y, shape (N, ...); of E[y | f(x)] where no likelihood is known."""
        if self.aleatoric_variance is None:
            return self.epistemic_stddev
        return np.sqrt(self.aleatoric_variance + self.epistemic_variance)

    @property
    def aleatoric_stddev(self) -> np.ndarray:
        """Square root of `aleatoric_variance`, shape (N, ...)."""
        return np.sqrt(_known(self.aleatoric_variance, "aleatoric_stddev"))

    @property
    def epistemic_stddev(self) -> np.ndarray:
        """Square root of `epistemic_variance`, shape (N, ...)."""
        return np.sqrt(self.epistemic_variance)

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the prediction at each position, (N, ...), in nats: the total uncertainty.

        Raises:
            ValueError: if it has no closed form (mixtures of densities) or no likelihood is known.
        """
        likelihood = _known(self.likelihood, "entropy")
        entropy = likelihood.entropy_of_mean(tf.constant(self.mean))
        if entropy is None:
            raise ValueError(
                f"entropy of a mixture of {type(likelihood).__name__} has no closed form; use "
                "stddev, or the negative mean of log_prob"
            )
        return entropy.numpy()

    @property
    def mutual_information(self) -> np.ndarray:
        """I(y; f | x) at each position, (N, ...), in nats: the epistemic uncertainty of classes.

        It is `entropy` - `expected_entropy` (Houlsby et al. 2011, equation 2), and at least 0. It
        is that of S functions, and so at most log S, and on average over draws smaller than the
        posterior's.

        Raises:
            ValueError: as `entropy`.
        """
        return np.maximum(self.entropy - self._expected_entropy(), 0.0)

    @property
    def samples(self) -> np.ndarray:
        """E[y | f(x)] for each function, shape (S, N, ...).

        Raises:
            ValueError: if they were not kept.
        """
        outputs = self._kept()
        if self.likelihood is None:
            return outputs
        return np.stack([self.likelihood.mean(tf.constant(f)).numpy() for f in outputs])

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval of y at `level`, each of shape (N, ...).

        A new y lies in it with probability `level` if the model is right. Its ends are the
        mixture's own quantiles where the functions were kept (`return_samples=True`), else those of
        a normal distribution with the mixture's mean and standard deviation. Without a likelihood
        it is the interval of E[y | f(x)].

        Raises:
            ValueError: if `level` is not in (0, 1), or the likelihood is one of classes or
                counts.
        """
        level = number("level", level, lambda v: 0 < v < 1, "in (0, 1)")
        self._check_real("interval")
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def quantile(self, q: float) -> np.ndarray:
        """The value that y stays below with probability q, shape (N, ...), elementwise.

        It is the mixture's own where the functions were kept (`return_samples=True`), else that of
        the normal distribution with the mixture's mean and standard deviation. Without a likelihood
        it is the quantile of E[y | f(x)].

        Raises:
            ValueError: if `q` is not in (0, 1), or the likelihood is one of classes or counts.
        """
        q = number("q", q, lambda v: 0 < v < 1, "in (0, 1)")
        self._check_real("quantile")
        if self.outputs is None:
            return self.mean + scipy.stats.norm.ppf(q) * self.stddev
        if self.likelihood is None:
            return np.quantile(self.outputs, q, axis=0)
        return self._quantile_of_mixture(q)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y <= y), the inverse of `quantile`, shape (N, ...), elementwise.

        At targets that come from the predicted distributions it is uniform on [0, 1], by which
        `metrics.quantile_calibration_error` and `plots.pit_histogram` judge them.

        Raises:
            ValueError: if y does not fit, or the likelihood is one of classes or counts.
        """
        self._check_real("cdf")
        y = match(examples("y", y).astype(np.float64), self.mean.shape)
        if self.outputs is None:
            return scipy.stats.norm.cdf(y, self.mean, self.stddev)
        if self.likelihood is None:
            return np.mean(self.outputs <= y, axis=0)
        functions = tf.constant(self.outputs)
        below = self.likelihood.cdf(tf.constant(y, functions.dtype), functions)
        return np.asarray(np.mean(below, axis=0, dtype=np.float64))

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """Log p(y | x) of each example, shape (N,), in nats: the log of the mean over functions.

        It is the joint log probability of all positions, as one function sees all of an example,
        and not the sum of the positions' log probabilities, of which
        `tfbdl.metrics.negative_log_likelihood` is the mean.

        Raises:
            ValueError: if the functions were not kept, no likelihood is known, or y does not fit.
        """
        likelihood = _known(self.likelihood, "log_prob")
        logs = log_likelihoods(self._kept(), likelihood, y, self.mask)
        return scipy.special.logsumexp(logs, axis=0) - np.log(len(logs))

    def _rows_of(self, name: str, value: Any, rows: np.ndarray) -> Any:
        """The part of one attribute that belongs to some inputs."""
        if not isinstance(value, np.ndarray):
            return value
        return value[:, rows] if name == "outputs" else value[rows]

    def _check_real(self, name: str) -> None:
        if self.likelihood is not None and self.likelihood.is_discrete:
            raise ValueError(f"{name} is for real y, not for {type(self.likelihood).__name__}")

    def _quantile_of_mixture(self, q: float) -> np.ndarray:
        """Solves mean_f P(Y <= y | f) = q for y by bisection, within Cantelli's inequality.

        The bracket is halved to 1e-8 standard deviations, beyond the digits of the outputs.
        """
        likelihood = _known(self.likelihood, "quantile")
        functions = tf.constant(self._kept())
        deviations = 1.0 / math.sqrt(min(q, 1.0 - q))
        radius = deviations * self.stddev + 1e-6
        low, high = self.mean - radius, self.mean + radius
        for _ in range(math.ceil(math.log2(2e8 * deviations))):
            middle = 0.5 * (low + high)
            below = np.mean(likelihood.cdf(middle, functions), axis=0) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def _expected_entropy(self) -> np.ndarray:
        family = type(_known(self.likelihood, "entropy")).__name__
        if self.expected_entropy is None:
            raise ValueError(f"likelihood={family} has no entropy; define {family}.entropy")
        return self.expected_entropy

    def _kept(self) -> np.ndarray:
        if self.outputs is None:
            raise ValueError("the functions were not kept; call predict with return_samples=True")
        return self.outputs


def _known(value: T | None, name: str) -> T:
    if value is None:
        raise ValueError(f"{name} needs p(y | f(x)); give predict a likelihood")
    return value
