"""The no-U-turn sampler, whose trajectories find their own lengths.

Hoffman and Gelman (2014, "The No-U-Turn sampler"), with states drawn from a trajectory by
multinomial weights and biased progressive sampling (Betancourt 2017, "A conceptual introduction to
Hamiltonian Monte Carlo", appendix A.3), and trees built without recursion (Phan et al. 2019,
"Composable effects", appendix A). One pass of the loop is one leapfrog step of every chain that is
not done yet, whatever the depth of its tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from tfbdl.arguments import positive_integer
from tfbdl.inference.kernels.base import Adaptive, Density, Info, State
from tfbdl.inference.kernels.hmc import DIVERGENCE, energy_error, leapfrog
from tfbdl.inference.kernels.metropolis import acceptance, select
from tfbdl.inference.kernels.noise import Noise
from tfbdl.inference.kernels.u_turn import Marks, is_turning


class End(NamedTuple):
    """One end of a trajectory: its state, and momentum (C, D)."""

    state: State
    z: tf.Tensor


class Tree(NamedTuple):
    """A trajectory: a state drawn from it, its weight's logarithm (C,), its sum of z (C, D)."""

    proposal: State
    log_weight: tf.Tensor
    z_sum: tf.Tensor


class Progress(NamedTuple):
    """What a transition carries from leapfrog step to leapfrog step, for all chains."""

    i: tf.Tensor
    left: End
    right: End
    tree: Tree
    depth: tf.Tensor
    forward: tf.Tensor
    tip: End
    branch: Tree
    leaf: tf.Tensor
    marks: Marks
    active: tf.Tensor
    accept_sum: tf.Tensor
    num_steps: tf.Tensor
    diverging: tf.Tensor


@dataclass(frozen=True, kw_only=True)
class NUTS(Adaptive):
    """Trajectories that are doubled, to either side at random, until they turn back.

    Args:
        max_tree_depth: a trajectory has at most 2^max_tree_depth - 1 leapfrog steps.
        step_size: see `Adaptive`.
        target_accept: see `Adaptive`; the acceptance is its mean over a trajectory.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    max_tree_depth: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer("max_tree_depth", self.max_tree_depth)

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        step = step_size[:, None] * scale
        z = noise.fold_in(0).normal(state.theta.shape[1], state.theta.dtype)
        forward = noise.fold_in(1).uniform(1, state.theta.dtype)[:, 0] < 0.5

        def leap(tip: End, direction: tf.Tensor) -> tuple[End, tf.Tensor]:
            tip = End(*leapfrog(density, *tip, direction[:, None] * step))
            return tip, energy_error(state, z, *tip)

        def grow(*progress: tf.Tensor) -> Progress:
            uniforms = noise.fold_in(2 + progress[0]).uniform(3, state.theta.dtype)
            return self._grow(Progress(*progress), leap, uniforms)

        end = Progress(
            *tf.while_loop(
                lambda *p: tf.reduce_any(Progress(*p).active), grow, self._seed(state, z, forward)
            )
        )
        accept_prob = end.accept_sum / tf.cast(end.num_steps, end.accept_sum.dtype)
        return end.tree.proposal, Info(accept_prob, end.diverging, end.num_steps)

    def _seed(self, state: State, z: tf.Tensor, forward: tf.Tensor) -> Progress:
        """The trajectory of one point, and a branch that has no leaf yet."""
        end = End(state, z)
        zeros = tf.zeros_like(state.log_prob)
        counts = tf.zeros_like(forward, tf.int32)
        return Progress(
            i=tf.constant(0),
            left=end,
            right=end,
            tree=Tree(state, zeros, z),
            depth=counts,
            forward=forward,
            tip=end,
            branch=Tree(state, zeros - float("inf"), tf.zeros_like(z)),
            leaf=counts,
            marks=Marks.none(z, max(self.max_tree_depth - 1, 1)),
            active=tf.ones_like(forward),
            accept_sum=zeros,
            num_steps=counts,
            diverging=tf.zeros_like(forward),
        )

    def _grow(
        self,
        p: Progress,
        leap: Callable[[End, tf.Tensor], tuple[End, tf.Tensor]],
        uniforms: tf.Tensor,
    ) -> Progress:
        """One more leaf on the branch; a branch that is complete joins the tree."""
        moving = tf.cast(p.active, uniforms.dtype)
        tip, error = leap(p.tip, moving * (2.0 * tf.cast(p.forward, uniforms.dtype) - 1.0))
        leaf = Tree(tip.state, -error, tip.z)
        branch = _join(p.branch, leaf, uniforms[:, 0], biased=False)
        marks = p.marks.add(p.leaf, tip.z, branch.z_sum)
        diverging = error > DIVERGENCE
        ended = diverging | marks.is_turning(p.leaf, tip.z, branch.z_sum)
        joins = p.active & ~ended & (p.leaf + 1 == tf.bitwise.left_shift(1, p.depth))

        tree = select(joins, _join(p.tree, branch, uniforms[:, 1], biased=True), p.tree)
        left = select(joins & ~p.forward, tip, p.left)
        right = select(joins & p.forward, tip, p.right)
        depth = p.depth + tf.cast(joins, tf.int32)
        turned = joins & is_turning(left.z, right.z, tree.z_sum)
        active = p.active & ~ended & ~turned & (depth < self.max_tree_depth)

        forward = tf.where(joins, uniforms[:, 2] < 0.5, p.forward)
        empty = Tree(branch.proposal, tf.zeros_like(error) - float("inf"), tf.zeros_like(tip.z))
        return Progress(
            i=p.i + 1,
            left=left,
            right=right,
            tree=tree,
            depth=depth,
            forward=forward,
            tip=select(joins, select(forward, right, left), tip),
            branch=select(joins, empty, branch),
            leaf=tf.where(joins, 0, p.leaf + 1),
            marks=marks,
            active=active,
            accept_sum=p.accept_sum + moving * acceptance(error),
            num_steps=p.num_steps + tf.cast(p.active, tf.int32),
            diverging=p.diverging | (p.active & diverging),
        )


def _join(tree: Tree, branch: Tree, uniform: tf.Tensor, *, biased: bool) -> Tree:
    """The tree with the branch, and a proposal from both by their weights, or biased to the new."""
    total = tf.reduce_logsumexp([tree.log_weight, branch.log_weight], axis=0)
    probability = tf.exp(branch.log_weight - (tree.log_weight if biased else total))
    proposal = select(uniform < probability, branch.proposal, tree.proposal)
    return Tree(proposal, total, tree.z_sum + branch.z_sum)
