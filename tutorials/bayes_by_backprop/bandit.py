"""Which mushrooms to eat: Thompson sampling with Bayes by Backprop (Blundell et al. 2015, 5.3).

    python -m tutorials.bayes_by_backprop.bandit --mode train
    python -m tutorials.bayes_by_backprop.bandit --mode test
    python -m tutorials.bayes_by_backprop.bandit --mode visualize

An agent meets mushrooms one by one, sees what each looks like, and eats or passes. Passing earns 0,
an edible mushroom 5, a poisonous one 5 or -35 with probability 1/2 each. Its network of expected
rewards is trained on the last 4,096 outcomes, 64 at a time, while it goes on. Nobody tells it what
it has missed, so it must try:

- by Thompson sampling: it does what is best for networks drawn from q(W), which tries whatever may
  still turn out well, and no longer what surely will not;
- epsilon-greedily: it does what is best for its only network, but with probability epsilon either.

The regret of a step is what the best action is expected to earn less what the chosen one is: 5 for
an edible mushroom passed, 15 for a poisonous one eaten. An oracle has none.

Two things are not as in the paper. A mushroom is followed by 8 training steps and not by 64, so
that all 20 runs take half an hour of one core and not four hours. And Bayes by Backprop samples
outputs where the paper samples weights (`estimator`): the same bound, with less noise in its
gradients, which is worth more the fewer the steps. The paper does not give the scales of likelihood
and prior, nor the learning rates; those here were chosen by 8,000 mushrooms of seed 100, which is
not among the seeds that are shown. Epsilon-greedy agents have the same rate, which suits them best.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import time
from pathlib import Path
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from tfbdl.data.mushroom import Mushrooms, mushrooms
from tfbdl.layers import BayesDense
from tfbdl.posteriors import MeanFieldNormal
from tfbdl.training.run import open_run
from tutorials import commands, run_files
from tutorials.bayes_by_backprop.bandit_agent import BUFFER, TALLY, Agent

EPOCH = 500
COLOURS = {"thompson": "C3", "greedy": "C0", "epsilon_1": "C1", "epsilon_5": "C2"}
LABELS = {
    "thompson": "Thompson sampling, Bayes by Backprop",
    "greedy": "greedy",
    "epsilon_1": "1 % at random, else greedy",
    "epsilon_5": "5 % at random, else greedy",
}


def parser() -> argparse.ArgumentParser:
    parser = commands.parser("bayes_by_backprop.bandit", "The mushroom bandit.")
    parser.add_argument("--agents", nargs="+", choices=list(AGENTS), default=list(AGENTS))
    parser.add_argument("--n_epochs", type=int, default=100, help="of 500 mushrooms each")
    parser.add_argument("--updates", type=int, default=8, help="training steps a mushroom")
    parser.add_argument("--lr", type=float, default=1e-3, help="of Adam")
    parser.add_argument("--sigma", type=float, default=3.0, help="scale of p(reward | W)")
    parser.add_argument("--gamma", type=float, default=1.0, help="scale of the prior of Thompson's")
    parser.add_argument("--rho", type=float, default=-4.5, help="where all rho start")
    parser.add_argument(
        "--estimator",
        choices=("reparameterization", "local_reparameterization", "flipout", "per_example"),
        default="local_reparameterization",
        help="how outputs are sampled in training",
    )
    parser.add_argument("--data_path", default=None, help="folder of agaricus-lepiota.data")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each agent")
    return parser


def bayes(args: argparse.Namespace) -> list[keras.layers.Layer]:
    """119-100-100-1 with q(w) = N(mu, softplus(rho)^2) for each weight.

    N is the size of the buffer from the start, as in the paper, where 64 batches of 64 share a KL.
    """

    def layer(units: int, activation: str | None = None) -> BayesDense:
        return BayesDense(
            units,
            activation,
            num_data=BUFFER,
            prior=args.gamma,
            posterior=MeanFieldNormal(keras.initializers.Constant(args.rho)),
            estimator=args.estimator,
        )

    return [layer(100, "relu"), layer(100, "relu"), layer(1)]


def plain(args: argparse.Namespace) -> list[keras.layers.Layer]:
    """The same with single weights."""
    dense = keras.layers.Dense
    return [dense(100, "relu"), dense(100, "relu"), dense(1)]


AGENTS = {
    "thompson": (bayes, 0.0),
    "greedy": (plain, 0.0),
    "epsilon_1": (plain, 0.01),
    "epsilon_5": (plain, 0.05),
}


def born(name: str, data: Mushrooms, args: argparse.Namespace, seed: int) -> Agent:
    """The agent at its first mushroom."""
    keras.utils.set_random_seed(seed)
    layers, epsilon = AGENTS[name]
    width = data.x.shape[1] + 2
    network = keras.Sequential([keras.Input((width,)), *layers(args)])
    agent = Agent(network, epsilon, data, args.updates, seed)
    agent.compile(keras.optimizers.Adam(args.lr), tfbdl.likelihoods.Normal(args.sigma))
    agent.optimizer.build(agent.trainable_variables)
    return agent


def live(agent: Agent, folder: Path, args: argparse.Namespace) -> None:
    """A life of `n_epochs`, written to the log: the tally so far, and the epoch's mean loss.

    Compiled as a whole, mushrooms and training steps. What was stopped goes on from the last epoch.
    """
    compiled = tf.function(agent.live, jit_compile=True)
    same = ("updates", "lr", "sigma", "gamma", "rho", "estimator")
    settings: dict[str, Any] = {"seed": agent.seed} | {name: getattr(args, name) for name in same}
    with open_run(agent, folder, settings, lambda text: print(text, end="", flush=True)) as run:
        for epoch in range(run.epochs_done + 1, args.n_epochs + 1):
            run.start(epoch, args.lr)
            agent.reset_metrics()
            started = time.perf_counter()
            compiled(tf.constant(EPOCH))
            tally = dict(zip(TALLY, agent.tally.numpy(), strict=True))
            seconds = time.perf_counter() - started
            run.end(epoch, seconds, tally | agent.get_metrics_result())


def train(args: argparse.Namespace) -> None:
    data = mushrooms(args.data_path)
    for seed in range(args.seed, args.seed + args.seeds):
        for name in args.agents:
            print(f"==> {name}, seed {seed}", flush=True)
            live(born(name, data, args, seed), args.savedir / f"{name}_{seed}", args)
    test(args)


def test(args: argparse.Namespace) -> None:
    """Regret at the end."""
    ends: dict[str, list[float]] = {}
    for name in args.agents:
        final = tallies(args, name)[..., -1]
        mean, sd = final.mean(axis=0), final.std(axis=0, ddof=1) if len(final) > 1 else 0 * final[0]
        print(
            f"test: regret {mean[0]:.0f} +- {sd[0]:.0f}, reward {mean[1]:.0f}, poisonous eaten "
            f"{mean[2]:.0f}, edible passed {mean[3]:.0f} ({name}, {len(final)} seeds)"
        )
        ends |= {f"{name}_{column}": final[:, i].tolist() for i, column in enumerate(TALLY)}
    run_files.write_metrics(args, **ends)


def tallies(args: argparse.Namespace, name: str) -> np.ndarray:
    """What the logs say: (seeds, columns of the tally, epochs)."""
    seeds = range(args.seed, args.seed + args.seeds)
    logs = [tfbdl.read_log(args.savedir / f"{name}_{seed}" / "train.log") for seed in seeds]
    return np.array([[log.metrics[column] for column in TALLY] for log in logs])


def visualize(args: argparse.Namespace) -> None:
    run_files.write_figure(regrets(args), args.savedir / "regret.png")


def regrets(args: argparse.Namespace) -> Figure:
    """Cumulative regret, its mean and range over the seeds."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for name in args.agents:
        regret = tallies(args, name)[:, 0]
        met = EPOCH * np.arange(1, regret.shape[1] + 1)
        for ax in axes:
            ax.fill_between(met, regret.min(0), regret.max(0), color=COLOURS[name], alpha=0.15)
            ax.plot(met, regret.mean(0), color=COLOURS[name], label=LABELS[name])
            ax.set(xlabel="mushrooms met", ylabel="cumulative regret")
    axes[1].set(xscale="log", yscale="log")
    axes[0].legend(title=f"mean and range of {len(regret)} seeds")
    return figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
