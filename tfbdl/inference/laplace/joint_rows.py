"""The likelihood of several outputs that lie side by side in one row."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.laplace.output_fisher import Link, fisher_root, in_logits
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods import Joint, Likelihood
from tfbdl.likelihoods.positions import mask_at_positions, with_mask
from tfbdl.side_by_side import SideBySide


class JointRows(Likelihood):
    """A `Joint`, of outputs of shape (B, F_1 + F_2 + ...).

    Args:
        joint: the likelihoods, of logits where they have classes.
        outputs: the shapes of the outputs.
    """

    def __init__(self, joint: Joint, outputs: SideBySide) -> None:
        super().__init__(name="joint_rows")
        self.joint, self.outputs = joint, outputs
        self.parts: list[Likelihood] = [part for part in joint.parts if part is not None]

    def log_prob(self, y: Any, outputs: tf.Tensor) -> tf.Tensor:
        return self.joint.log_prob(y, self._structure(self._masked(outputs)))

    def counted(self, y: Any, outputs: tf.Tensor) -> tf.Tensor | None:
        """Which outputs count, booleans of shape (B, F_1 + F_2 + ...); None if all do."""
        columns = zip(self.parts, keras.tree.flatten(y), self._masked(outputs), strict=True)
        of_parts = [part.counted(targets, output) for part, targets, output in columns]
        if all(counted is None for counted in of_parts):
            return None
        pairs = zip(of_parts, self.outputs.parts(outputs), strict=True)
        return self.outputs.row([of_numbers(counted, like) for counted, like in pairs])

    def _masked(self, outputs: tf.Tensor) -> list[tf.Tensor]:
        """The outputs one by one, with the parts of the mask that the row has."""
        parts, mask = self.outputs.parts(outputs), keras_mask(outputs)
        if mask is None:
            return parts
        pairs = zip(parts, self.outputs.parts(mask), strict=True)
        return [with_mask(part, own[..., 0] if own.shape.rank > 1 else own) for part, own in pairs]

    def _structure(self, parts: list[tf.Tensor]) -> Any:
        return keras.tree.pack_sequence_as(self.joint.likelihoods, parts)

    def mean(self, outputs: tf.Tensor) -> Any:
        return self.joint.mean(self.outputs.split(outputs))

    def variance(self, outputs: tf.Tensor) -> Any:
        return self.joint.variance(self.outputs.split(outputs))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        self.joint.check_targets(y, self.outputs.split(outputs))

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> Any:
        parts = zip(self.parts, self.outputs.parts(outputs), strict=True)
        drawn = [p.sample(random.fold_in(key, k), output) for k, (p, output) in enumerate(parts)]
        return keras.tree.pack_sequence_as(self.joint.likelihoods, drawn)


def joint_rows(model: keras.Model, joint: Joint) -> tuple[JointRows, Link]:
    """The same law of logits side by side, and how those come of the outputs of a model.

    Raises:
        ValueError: if an output has no likelihood, or no known shape.
    """
    if not keras.tree.is_nested(getattr(model, "output", None)):
        raise ValueError(
            f"model={model.name} has outputs of no known shapes; make it a functional keras.Model"
        )
    outputs = SideBySide.of(model.output)
    for name, part in zip(joint.names, joint.parts, strict=True):
        if part is None:
            raise ValueError(f"likelihood of the output {name!r} is not known; give one for each")
    pairs = [in_logits(part) for part in joint.parts if part is not None]
    units = keras.tree.pack_sequence_as(joint.likelihoods, [unit for unit, _ in pairs])
    links = [link for _, link in pairs]

    def link(values: Any) -> tf.Tensor:
        parts = keras.tree.flatten(values)
        row = outputs.row([to(value) for to, value in zip(links, parts, strict=True)])
        masks = [mask_at_positions(part) for part in parts]
        if all(mask is None for mask in masks):
            return row
        pairs = zip(masks, parts, strict=True)
        return with_mask(row, outputs.row([of_numbers(mask, part) for mask, part in pairs]))

    return JointRows(Joint(units, joint.weights), outputs), link


def of_numbers(counted: tf.Tensor | None, like: tf.Tensor) -> tf.Tensor:
    """Booleans of positions, (B, ...), for each number of outputs; None is all."""
    if counted is None:
        return tf.ones_like(like, tf.bool)
    missing = like.shape.rank - counted.shape.rank
    counted = counted[..., tf.newaxis] if missing else counted
    return counted & tf.ones_like(like, tf.bool)


@fisher_root.register
def _(likelihood: JointRows, outputs: tf.Tensor) -> tf.Tensor:
    """Blocks of the outputs, each sqrt(w_k) R_k, since their laws are independent."""
    weights = keras.tree.flatten(likelihood.joint.weights)
    columns = zip(likelihood.parts, weights, likelihood.outputs.parts(outputs), strict=True)
    blocks = [w**0.5 * fisher_root(part, output) for part, w, output in columns]
    operators = [tf.linalg.LinearOperatorFullMatrix(block) for block in blocks]
    return tf.linalg.LinearOperatorBlockDiag(operators).to_dense()
