"""The likelihood of several outputs that lie side by side in one row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.laplace.output_fisher import Link, fisher_root, in_logits
from tfbdl.likelihoods import Joint, Likelihood


class JointRows(Likelihood):
    """A `Joint`, of outputs of shape (B, F_1 + F_2 + ...).

    Args:
        joint: the likelihoods, of logits where they have classes.
        shapes: the shapes of an example of each output, in the order of `joint.parts`.
    """

    def __init__(self, joint: Joint, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__(name="joint_rows")
        self.joint, self.shapes = joint, list(shapes)
        self.parts: list[Likelihood] = [part for part in joint.parts if part is not None]
        self.sizes = [math.prod(shape) for shape in self.shapes]

    def split(self, row: Any) -> list[Any]:
        """The outputs one by one, shapes (..., *shape), of a tensor or array (..., F)."""
        places = np.cumsum([0, *self.sizes])
        parts = [row[..., i:j] for i, j in itertools.pairwise(places)]
        leading = len(row.shape) - 1
        return [
            (tf.reshape if tf.is_tensor(part) else np.reshape)(
                part, [*part.shape[:leading], *shape]
            )
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def structured(self, row: tf.Tensor) -> Any:
        """The outputs in the structure of the likelihoods."""
        return keras.tree.pack_sequence_as(self.joint.likelihoods, self.split(row))

    def distribution(self, outputs: tf.Tensor) -> Any:
        return self.joint.distribution(outputs)

    def log_prob(self, y: Any, outputs: tf.Tensor) -> tf.Tensor:
        return self.joint.log_prob(y, self.structured(outputs))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        self.joint.check_targets(y, self.structured(outputs))

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> Any:
        parts = zip(self.parts, self.split(outputs), strict=True)
        drawn = [p.sample(random.fold_in(key, k), output) for k, (p, output) in enumerate(parts)]
        return keras.tree.pack_sequence_as(self.joint.likelihoods, drawn)


def joint_rows(model: keras.Model, joint: Joint) -> tuple[JointRows, Link]:
    """The same law of logits side by side, and how those come of the outputs of a model.

    Raises:
        ValueError: if an output has no likelihood, or no known shape.
    """
    shapes = [tuple(o.shape[1:]) for o in keras.tree.flatten(getattr(model, "output", ()))]
    if len(shapes) != len(joint.parts) or any(None in shape for shape in shapes):
        raise ValueError(
            f"model={model.name} has outputs of no known shapes; make it a functional keras.Model"
        )
    for name, part in zip(joint.names, joint.parts, strict=True):
        if part is None:
            raise ValueError(f"likelihood of the output {name!r} is not known; give one for each")
    pairs = [in_logits(part) for part in joint.parts if part is not None]
    units = keras.tree.pack_sequence_as(joint.likelihoods, [unit for unit, _ in pairs])
    links = [link for _, link in pairs]

    def link(outputs: Any) -> tf.Tensor:
        parts = [to(o) for to, o in zip(links, keras.tree.flatten(outputs), strict=True)]
        rows = [tf.reshape(p, [-1, math.prod(p.shape[1:])]) for p in parts]
        return tf.concat(rows, axis=-1)

    return JointRows(Joint(units, joint.weights), shapes), link


@fisher_root.register
def _(likelihood: JointRows, outputs: tf.Tensor) -> tf.Tensor:
    """Blocks of the outputs, each sqrt(w_k) R_k, since their laws are independent."""
    weights = keras.tree.flatten(likelihood.joint.weights)
    columns = zip(likelihood.parts, weights, likelihood.split(outputs), strict=True)
    blocks = [w**0.5 * fisher_root(part, output) for part, w, output in columns]
    operators = [tf.linalg.LinearOperatorFullMatrix(block) for block in blocks]
    return tf.linalg.LinearOperatorBlockDiag(operators).to_dense()
