"""Virtual-logit matching: the part of the features that training does not use, as a class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import scipy.linalg
import scipy.special

from tfbdl.arguments import optional, positive_integer, shown
from tfbdl.detection.base import Detector
from tfbdl.detection.features import Features, Part
from tfbdl.examples import examples

_ROUNDING = 1e-6
"""The share of features in float32 that may be rounding."""


class ViM(Detector):
    """alpha |r| - log sum_c exp(z_c), for the residual r of the features (Wang et al. 2022).

    r is what of f - o lies outside of the principal subspace of training features about o, the
    point at which all logits are 0 as nearly as can be; alpha scales it like a logit: the mean
    largest logit divided by the mean |r| of training examples. It joins what `Energy` sees, the
    logits, and what they do not. `fit` holds all features in memory, N D numbers.

    Args:
        model: a trained classifier whose last layer with a kernel makes logits of a vector of
            features; None where features are given instead.
        head: kernel (D, C) and bias (C,) of that layer, where there is no model.
        num_components: the dimension of the principal subspace, less than D; None for the
            authors': 1,000 of at least 2,048 features, 512 of at least 768, else half of them.

    Raises:
        ValueError: if the model is none, both or none of `model` and `head` are given, or an
            argument is out of its range.
    """

    def __init__(
        self,
        model: keras.Model | None = None,
        *,
        head: Sequence[Any] | None = None,
        num_components: int | None = None,
    ) -> None:
        super().__init__(Features(model))
        if (model is None) is (head is None):
            raise ValueError("model and head: give one of them")
        self.head = self._head = optional(_kernel_and_bias, "head", head)
        self.num_components = optional(positive_integer, "num_components", num_components)

    def _learn(self, parts: Iterator[Part]) -> None:
        known = self._gathered(parts)
        size = known.shape[1]
        if self._features.model is not None:
            self._head = self._features.affine_head(size)
        assert self._head is not None
        kernel, bias = self._head
        if size != len(kernel):
            raise ValueError(f"x has {size} features, and the head takes {len(kernel)}; match them")
        components = self.num_components or _components(size)
        if components >= size:
            raise ValueError(f"num_components={components} must be less than the {size} features")
        self._origin = -scipy.linalg.pinv(kernel.T) @ bias
        centred = known - self._origin
        _, axes = scipy.linalg.eigh(centred.T @ centred / len(centred))
        self._rest = axes[:, : size - components]
        residual = self._residuals(known).mean()
        if residual <= _ROUNDING * np.linalg.norm(centred, axis=1).mean():
            raise ValueError(
                f"num_components={components} leaves nothing of the training features; take fewer"
            )
        self.alpha = float((known @ kernel + bias).max(axis=1).mean() / residual)
        self._size = size

    def _score(self, values: np.ndarray) -> np.ndarray:
        assert self._head is not None
        kernel, bias = self._head
        energy = -scipy.special.logsumexp(values @ kernel + bias, axis=1)
        return self.alpha * self._residuals(values) + energy

    def _residuals(self, values: np.ndarray) -> np.ndarray:
        return np.linalg.norm((values - self._origin) @ self._rest, axis=1)


def _components(size: int) -> int:
    if size >= 2048:
        return 1000
    return 512 if size >= 768 else size // 2


def _kernel_and_bias(name: str, head: Any) -> tuple[np.ndarray, np.ndarray]:
    wanted = "a pair: a kernel of shape (D, C) and a bias of shape (C,)"
    if not isinstance(head, (list, tuple)) or len(head) != 2:
        raise ValueError(f"{name}={shown(head)} must be {wanted}")
    kernel, bias = (
        examples(f"{name}[{i}]", part).astype(np.float64) for i, part in enumerate(head)
    )
    if kernel.ndim != 2 or bias.shape != kernel.shape[1:]:
        raise ValueError(f"{name} has shapes {kernel.shape} and {bias.shape}; give {wanted}")
    return kernel, bias
