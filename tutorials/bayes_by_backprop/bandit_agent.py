"""The mushroom bandit, and an agent that learns from what it eats (Blundell et al. 2015, 5.3)."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.data.mushroom import Mushrooms
from tfbdl.draws import DrawnModel, make_draw

BUFFER = 4096
BATCH_SIZE = 64
DRAWS = 2
TALLY = ("regret", "reward", "poisonous_eaten", "edible_passed")


def reward(edible: tf.Tensor, eat: tf.Tensor, lucky: tf.Tensor) -> tf.Tensor:
    """What a mushroom earns: 5 if eaten, -35 if it is poisonous and there is no luck; else 0."""
    return eat * tf.where(edible | lucky, 5, -35)


def regret(edible: tf.Tensor, eat: tf.Tensor) -> tf.Tensor:
    """What the best action is expected to earn, less what the chosen one is, with luck in half.

    5 for an edible mushroom passed, 0 - (5 - 35) / 2 = 15 for a poisonous one eaten, 0 otherwise.
    The reward of the oracle less that received has the same mean, and the noise of luck besides.
    """
    return tf.where(edible, 5 * (1 - eat), 15 * eat)


class Agent(keras.Model):
    """Meets mushrooms, keeps the last outcomes, and trains its network on them.

    Which mushrooms it meets, and when it is lucky, is settled by (seed, t) alone: agents of one
    seed live in one world. All that changes is in variables, so that a checkpoint is the agent.

    Args:
        network: maps mushroom and action, each as one of K, (B, 119), to expected reward (B, 1).
        epsilon: how often the action is one of the two at random.
        data: the mushrooms.
        updates: training steps, on batches of 64 outcomes, after each mushroom.
        seed: the seed of the world, and of the agent's draws, exploration and batches.
    """

    def __init__(
        self, network: keras.Model, epsilon: float, data: Mushrooms, updates: int, seed: int
    ) -> None:
        super().__init__()
        self.network = network
        self.drawn = DrawnModel(network)
        self.epsilon, self.updates, self.seed = epsilon, updates, seed
        self.x, self.edible = tf.constant(data.x), tf.constant(data.edible)
        self.buffer = self.add_integers("buffer", (BUFFER, 3))  # mushroom, action, reward
        self.t = self.add_integers("t", ())
        self.tally = self.add_integers("tally", (len(TALLY),))

    def add_integers(self, name: str, shape: tuple[int, ...]) -> keras.Variable:
        return self.add_weight(
            shape=shape, dtype="int32", initializer="zeros", trainable=False, name=name
        )

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.network(x, training=training)

    def live(self, steps: tf.Tensor) -> None:
        """Meets that many mushrooms."""
        for _ in tf.range(steps):
            self.meet_one()

    def meet_one(self) -> None:
        """Chooses, sees what happens, keeps it, and learns from what is kept."""
        t = tf.identity(self.t.value)
        key = random.fold_in(random.key_of(self.seed, "bandit"), t)
        which, luck, whim, batches = (random.fold_in(key, stream) for stream in range(4))
        mushroom = integers(which, [], len(self.x))
        edible = tf.gather(self.edible, mushroom)
        eat = self.choose(mushroom, t, whim)
        earned = reward(edible, eat, lucky=random.uniform(luck, []) < 0.5)
        self.buffer.value.scatter_nd_update([[t % BUFFER]], [[mushroom, eat, earned]])
        self.tally.assign_add(
            [regret(edible, eat), earned, tf.where(edible, 0, eat), tf.where(edible, 1 - eat, 0)]
        )
        self.t.assign_add(1)
        for i in tf.range(self.updates):
            self.train_step(self.batch(random.fold_in(batches, i)))

    def choose(self, mushroom: tf.Tensor, t: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """1 to eat, 0 to pass: the best by the mean of two drawn networks, or one at random.

        Networks of single weights are their own draws.
        """
        both = self.inputs(tf.stack([mushroom, mushroom]), tf.constant([0, 1]))
        draws = [make_draw(self.seed, DRAWS * t + s) for s in range(DRAWS)]
        value = sum(self.drawn(both, draw=draw) for draw in draws)
        best = tf.argmax(value[:, 0], output_type=tf.int32)
        u = random.uniform(key, [2])
        return tf.where(u[0] < self.epsilon, tf.cast(u[1] < 0.5, tf.int32), best)

    def batch(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Outcomes drawn with replacement: inputs (64, 119), rewards (64, 1)."""
        kept = tf.minimum(self.t.value, BUFFER)
        rows = tf.gather(self.buffer.value, integers(key, [BATCH_SIZE], kept))
        mushroom, eat, earned = tf.unstack(rows, axis=1)
        return self.inputs(mushroom, eat), tf.cast(earned, tf.float32)[:, None]

    def inputs(self, mushroom: tf.Tensor, eat: tf.Tensor) -> tf.Tensor:
        """Rows of the data (B,) and actions (B,) as (B, 119)."""
        return tf.concat([tf.gather(self.x, mushroom), tf.one_hot(eat, 2)], axis=-1)


def integers(key: tf.Tensor, shape: list[int], below: int | tf.Tensor) -> tf.Tensor:
    """Uniform on 0, ..., below - 1."""
    return tf.cast(random.bits(key, shape) % tf.cast(below, tf.uint32), tf.int32)
