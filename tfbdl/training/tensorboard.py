"""TensorBoard: the bound, the learned rates, and the posterior over the weights."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.arguments import path
from tfbdl.keras_private import walk
from tfbdl.layers import ConcreteDropout
from tfbdl.posteriors import Posterior
from tfbdl.training.observer import ELBOLogger


class PosteriorTensorBoard(ELBOLogger):
    """Writes, after each epoch, what `tensorboard --logdir log_dir` shows of a posterior.

    Scalars: the metrics of `fit`, `nll`, `kl_per_example` and `elbo` (nats per example), and the
    mean keep probability of each `ConcreteDropout`. Histograms, for each posterior: means,
    standard deviations, and signal to noise ratios in decibels; and the keep probabilities.

    Args:
        log_dir: the folder of the event files, which is made if it is missing; a run adds to it.

    Raises:
        ImportError: if the package tensorboard is missing; TensorFlow comes without it.
        OSError: if `log_dir` cannot be written.
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        super().__init__()
        if importlib.util.find_spec("tensorboard") is None:
            raise ImportError(
                "PosteriorTensorBoard needs the package tensorboard; pip install tensorboard"
            )
        self.log_dir = path("log_dir", log_dir)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        with self._writing():
            self._writer = tf.summary.create_file_writer(str(self.log_dir))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        super().on_epoch_end(epoch, logs)
        with self._writing(), self._writer.as_default(step=epoch + 1):
            for name, value in logs.items():
                tf.summary.scalar(name, value)
            for layer in walk(self.model):
                if isinstance(layer, Posterior) and layer.built:
                    _write_posterior(layer)
                elif isinstance(layer, ConcreteDropout):
                    keep = layer.keep_prob
                    tf.summary.scalar(f"{layer.name}/keep", tf.reduce_mean(keep))
                    tf.summary.histogram(f"{layer.name}/keep_probabilities", keep)
            self._writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_end(logs)
        with self._writing():
            self._writer.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Says in one line what TensorFlow tells in several.

        Raises:
            OSError: in the place of TensorFlow's errors.
        """
        try:
            yield
        except tf.errors.OpError as error:
            reason = re.sub(r"\{\{.*?\}\} | \[Op:.*", "", error.message.splitlines()[0])
            reason = reason.rpartition("; ")[2]
            raise OSError(
                f"log_dir={self.log_dir} cannot be written ({reason}); name another"
            ) from None


def _write_posterior(posterior: Posterior) -> None:
    name = "/".join(posterior.path.split("/")[-2:])
    mu, sigma = posterior.mean, np.asarray(posterior.stddev)
    tf.summary.histogram(f"{name}/mu", mu)
    if np.any(sigma > 0.0):
        tf.summary.histogram(f"{name}/sigma", sigma)
        ratio = 10.0 * np.log10(np.abs(mu) / np.maximum(sigma, 1e-30) + 1e-6)
        tf.summary.histogram(f"{name}/signal_to_noise_db", ratio)
