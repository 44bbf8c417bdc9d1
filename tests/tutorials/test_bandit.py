"""The mushroom bandit: its world, its agents, and the script."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
import tutorial_runs
from absl.testing import parameterized
from scipy import stats

import tfbdl
from tfbdl import random
from tfbdl.data.mushroom import Mushrooms
from tfbdl.layers import BayesDense
from tutorials.bayes_by_backprop import bandit, bandit_agent
from tutorials.bayes_by_backprop.bandit_agent import Agent

DATA = Mushrooms(np.eye(5, dtype="float32"), np.array([True, False, True, False, False]))
TRUE_MEANS = [5.0, -15.0, 5.0, -15.0, -15.0]


class Fixed(keras.layers.Layer):
    """Rewards of eating that are given, and 0 for passing."""

    def __init__(self, of_eating: list[float]) -> None:
        super().__init__()
        self.of_eating = tf.constant(of_eating)[:, None]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        mushroom, eat = x[:, :-2], x[:, -1:]
        return eat * (mushroom @ self.of_eating)


class Untrained(Agent):
    """Keeps the network it is given."""

    def __init__(self, network: keras.Model, epsilon: float, seed: int) -> None:
        super().__init__(network, epsilon, DATA, updates=1, seed=seed)

    def train_step(self, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {}


def fixed_agent(of_eating: list[float], epsilon: float = 0.0, seed: int = 0) -> Agent:
    return Untrained(keras.Sequential([keras.Input((7,)), Fixed(of_eating)]), epsilon, seed)


def lived(agent: Agent, steps: int) -> Agent:
    tf.function(agent.live, jit_compile=True)(tf.constant(steps))
    return agent


def kept(agent: Agent) -> list[list[int]]:
    return agent.buffer.numpy().tolist()


def tally(agent: Agent) -> dict[str, int]:
    return dict(zip(bandit_agent.TALLY, agent.tally.numpy().tolist(), strict=True))


def world(seed: int, t: int) -> tuple[int, bool]:
    """The mushroom of step t, and whether there is luck with it."""
    key = random.fold_in(random.key_of(seed, "bandit"), t)
    word = int(random.bits(random.fold_in(key, 0), [1])[0])
    return word % len(DATA.x), float(random.uniform(random.fold_in(key, 1), [1])[0]) < 0.5


class WorldTest(tf.test.TestCase):
    def test_rewards_by_frequency(self) -> None:
        rows = np.array(kept(lived(fixed_agent([1.0] * 5), bandit_agent.BUFFER)))
        self.assertAllEqual(rows[:, 1], np.ones(len(rows)))
        counts = np.bincount(rows[:, 0], minlength=5)
        self.assertGreater(stats.chisquare(counts).pvalue, 1e-4)
        for mushroom, edible in enumerate(DATA.edible):
            earned = rows[rows[:, 0] == mushroom, 2]
            if edible:
                self.assertEqual(set(earned), {5})
            else:
                self.assertEqual(set(earned), {5, -35})
                lucky = stats.binomtest(int((earned == 5).sum()), len(earned), 0.5)
                self.assertGreater(lucky.pvalue, 1e-4)

    def test_regret_of_each_action(self) -> None:
        """Against means over luck of what is earned, with the best action found by trying both."""
        for edible in (True, False):
            means = [
                np.mean([int(bandit_agent.reward(edible, eat, luck)) for luck in (True, False)])
                for eat in (0, 1)
            ]
            for eat in (0, 1):
                self.assertEqual(int(bandit_agent.regret(edible, eat)), max(means) - means[eat])

    def test_the_oracle_has_no_regret(self) -> None:
        agent = lived(fixed_agent(TRUE_MEANS), 200)
        met = np.array(kept(agent))[:200, 0]
        self.assertEqual(
            tally(agent),
            {
                "regret": 0,
                "reward": 5 * DATA.edible[met].sum(),
                "poisonous_eaten": 0,
                "edible_passed": 0,
            },
        )

    def test_agents_of_one_seed_meet_the_same_mushrooms(self) -> None:
        eater, other = (lived(fixed_agent([v] * 5, seed=3), 50) for v in (1.0, -1.0))
        third = lived(fixed_agent([1.0] * 5, seed=4), 50)
        met = [[row[0] for row in kept(agent)] for agent in (eater, other, third)]
        self.assertEqual(met[0], met[1])
        self.assertNotEqual(met[0], met[2])


class AgentTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(3, 8, 21)
    def test_buffer_and_tally_against_python(self, steps: int) -> None:
        """A buffer of 8, that is not full, just full, and twice run over."""
        eats = [1, 1, 0, 0, 1]
        rows, expected = [], dict.fromkeys(bandit_agent.TALLY, 0)
        for t in range(steps):
            mushroom, lucky = world(seed=7, t=t)
            poisonous, eat = not DATA.edible[mushroom], eats[mushroom]
            earned = 0 if not eat else -35 if poisonous and not lucky else 5
            rows.append([mushroom, eat, earned])
            expected["reward"] += earned
            if poisonous and eat:
                expected["poisonous_eaten"] += 1
                expected["regret"] += 15
            if not poisonous and not eat:
                expected["edible_passed"] += 1
                expected["regret"] += 5
        with mock.patch.object(bandit_agent, "BUFFER", 8):
            agent = lived(fixed_agent([2.0 * eat - 1.0 for eat in eats], seed=7), steps)
        ring = [[0, 0, 0]] * 8
        for t, row in enumerate(rows):
            ring[t % 8] = row
        self.assertEqual(kept(agent), ring)
        self.assertEqual(tally(agent), expected)
        self.assertGreater(expected["regret"], 0)

    @parameterized.parameters(0.0, 0.1, 1.0)
    def test_exploration_rate(self, epsilon: float) -> None:
        """It eats all it meets, but passes with probability epsilon / 2."""
        rows = np.array(kept(lived(fixed_agent([1.0] * 5, epsilon), bandit_agent.BUFFER)))
        passed = int((rows[:, 1] == 0).sum())
        self.assertGreater(stats.binomtest(passed, len(rows), epsilon / 2).pvalue, 1e-4)

    def test_thompson_eats_as_often_as_the_posterior_has_it(self) -> None:
        """Linear in one action each: the difference of means of two draws is normal."""
        layer = BayesDense(1, num_data=10, use_bias=False, seed=5)
        network = keras.Sequential([keras.Input((7,)), layer])
        mu, sigma = np.linspace(-1, 1, 7), np.linspace(0.5, 1.5, 7)
        layer.kernel.mu.assign(mu[:, None])
        layer.kernel.rho.assign(np.log(np.expm1(sigma))[:, None])
        agent = Untrained(network, 0.0, seed=1)
        eaten = np.array(kept(lived(agent, bandit_agent.BUFFER)))[:, 1]
        scale = np.sqrt((sigma[-1] ** 2 + sigma[-2] ** 2) / bandit_agent.DRAWS)
        expected = stats.norm.cdf((mu[-1] - mu[-2]) / scale)
        self.assertBetween(expected, 0.55, 0.7)
        eats = stats.binomtest(int(eaten.sum()), len(eaten), expected)
        self.assertGreater(eats.pvalue, 1e-4)

    def test_batches_are_of_what_is_kept(self) -> None:
        agent = lived(fixed_agent([1.0, 1.0, -1.0, 1.0, -1.0]), 40)
        rows = kept(agent)[:40]
        seen = []
        for step in range(20):
            x, y = (array.numpy() for array in agent.batch(tf.constant(step, tf.int64)))
            self.assertEqual((x.shape, y.shape), ((64, 7), (64, 1)))
            for inputs, earned in zip(x, y[:, 0], strict=True):
                self.assertEqual((inputs[:5].sum(), inputs[5:].sum()), (1, 1))
                outcome = [int(inputs[:5].argmax()), int(inputs[6]), int(earned)]
                self.assertIn(outcome, rows)
                seen.append(tuple(outcome))
        kinds = sorted({tuple(row) for row in rows})
        counts = [seen.count(kind) for kind in kinds]
        shares = [[tuple(row) for row in rows].count(kind) / 40 for kind in kinds]
        expected = np.array(shares) * len(seen)
        self.assertGreater(stats.chisquare(counts, expected).pvalue, 1e-4)

    def test_trains_after_each_mushroom(self) -> None:
        """A table of rewards is learned: what was eaten earns its mean, what was passed 0.

        Adam at a constant rate stays within a third of one reward's standard deviation.
        """
        network = keras.Sequential([keras.Input((7,)), keras.layers.Dense(30, "relu")])
        network.add(keras.layers.Dense(1))
        agent = Agent(network, 0.5, DATA, updates=5, seed=0)
        agent.compile(keras.optimizers.Adam(1e-2), tfbdl.likelihoods.Normal(1.0))
        agent.optimizer.build(agent.trainable_variables)
        lived(agent, 400)
        self.assertEqual(int(agent.optimizer.iterations), 2000)
        rows = np.array(kept(agent))[:400]
        for mushroom in range(5):
            for eat in (0, 1):
                outcomes = rows[(rows[:, 0] == mushroom) & (rows[:, 1] == eat), 2]
                told = agent(agent.inputs(tf.constant([mushroom]), tf.constant([eat])))
                away = abs(float(told[0, 0]) - outcomes.mean())
                self.assertLess(away, 1.0 + outcomes.std() / 3.0)


@pytest.mark.usefixtures("without_xla")
class ScriptTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        patch = mock.patch.multiple(bandit, EPOCH=20, mushrooms=lambda path: DATA)
        patch.start()
        self.addCleanup(patch.stop)

    def run_script(self, savedir: str, *flags: str) -> None:
        tutorial_runs.run(bandit, "--savedir", str(self.folder / savedir), *flags)

    def logged(self, run: str) -> dict[str, list[float]]:
        log = tfbdl.read_log(self.folder / run / "train.log")
        self.assertEqual(log.epochs.tolist(), [1, 2])
        return {name: values.tolist() for name, values in log.metrics.items()}

    def test_runs_and_resumes_exactly(self) -> None:
        flags = ("--agents", "thompson", "epsilon_5", "--seeds", "1", "--updates", "2")
        self.run_script("whole", *flags, "--n_epochs", "2")
        self.run_script("parts", *flags, "--n_epochs", "1")
        self.run_script("parts", *flags, "--n_epochs", "2")
        for name in ("thompson_0", "epsilon_5_0"):
            whole = self.logged(f"whole/{name}")
            self.assertEqual(list(whole), [*bandit_agent.TALLY, "loss"])
            self.assertEqual(whole, self.logged(f"parts/{name}"))
            tally = {column: values[-1] for column, values in whole.items()}
            regret = 15 * tally["poisonous_eaten"] + 5 * tally["edible_passed"]
            self.assertEqual(tally["regret"], regret)
        metrics = json.loads((self.folder / "whole" / "metrics.json").read_text())
        self.assertEqual(metrics["thompson_regret"], [whole_regret(self, "thompson_0")])
        self.run_script("whole", *flags, "--mode", "visualize")
        self.assertGreater((self.folder / "whole" / "regret.png").stat().st_size, 5000)

        with self.assertRaisesRegex(SystemExit, "holds a run with lr=0.001, not 0.01"):
            self.run_script("whole", *flags, "--lr", "0.01")


def whole_regret(test: ScriptTest, run: str) -> float:
    return test.logged(f"whole/{run}")["regret"][-1]


if __name__ == "__main__":
    tf.test.main()
