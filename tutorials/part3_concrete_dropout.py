"""Part III: dropout whose rates are learned.

    python -m tutorials.part3_concrete_dropout --mode train --N 1000
    python -m tutorials.part3_concrete_dropout --mode test
    python -m tutorials.part3_concrete_dropout --mode visualize
    python -m tutorials.part3_concrete_dropout --mode gal    # rates at N = 10 in Gal's own training

Each unit q has a keep probability of its own, learned through a mask that is a relaxed Bernoulli
variable of temperature 0.01. The loss is that of the slides' run.py,

    loss = cent + (wd - ent) / N,   wd = sum_q keep_q l^2/2 ||m_q||^2,   ent = sum_q H(keep_q),

so that the pull of the prior fades with the size N of the data set.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Sequence
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from tfbdl import plots
from tfbdl.data import gal_linear
from tfbdl.layers import ConcreteDropout
from tutorials import classifiers, commands, image_data, run_files
from tutorials.part2_mc_dropout import uncertainty_figures
from tutorials.records import RecordFile

SEQUENCE = (10, 50, 100, 1000, 10000)
REGRESSION_STEPS = 4000
GAL_EPOCHS = 2000
GAL_SEEDS = 3


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("part3_concrete_dropout", "Part III: Concrete dropout.")
    parser.add_argument(
        "--lengthscale",
        type=float,
        default=0.45,
        help="l; prior N(0, 1/l^2): l^2 = 0.2 is part II's decay at N = 1,000",
    )
    parser.add_argument("--temperature", type=float, default=0.01, help="of the relaxation")
    parser.add_argument("--initial_rate", type=float, default=0.5, help="drop rate at the start")
    parser.add_argument("--logit_scale", type=float, default=10.0, help="speed of the rates")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def network(args: argparse.Namespace) -> keras.Model:
    """784-500-500-10 with learned dropout on the inputs of the second and third layer.

    The first layer has the same prior N(0, 1/l^2) on weights that are always kept.
    """
    keras.utils.set_random_seed(args.seed)
    prior = keras.regularizers.L2(0.5 * args.lengthscale**2 / args.N)

    def concrete(layer: keras.layers.Layer, seed: int) -> ConcreteDropout:
        return ConcreteDropout(
            layer,
            num_data=args.N,
            lengthscale=args.lengthscale,
            temperature=args.temperature,
            per_unit=True,
            initial_rate=args.initial_rate,
            logit_scale=args.logit_scale,
            seed=seed,
        )

    return keras.Sequential(
        [
            keras.layers.Input((784,)),
            keras.layers.Dense(500, "relu", kernel_regularizer=prior),
            concrete(keras.layers.Dense(500, "relu"), args.seed),
            concrete(keras.layers.Dense(10), args.seed + 1),
        ]
    )


def train(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = classifiers.compiled(network(args), classifiers.adam(args))
    tfbdl.train(
        model,
        data.x_train,
        data.y_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=args.savedir,
        columns=["cent", "wd", "ent", "acc"],
        seed=args.seed,
    )
    run_files.save(model, args.savedir)
    test(args)


def test(args: argparse.Namespace) -> None:
    model = run_files.trained(args.savedir)
    classifiers.test(args, model)
    means = {name: float(keep.mean()) for name, keep in learned(model).items()}
    for name, keep in means.items():
        print(f"test: mean keep probability {keep:f} ({name})")
    run_files.write_metrics(args, keep=means)


def learned(model: keras.Model) -> dict[str, np.ndarray]:
    """The learned keep probabilities of each dropout layer, shape (units,)."""
    layers = [layer for layer in model.layers if isinstance(layer, ConcreteDropout)]
    return {f"dropout {i}": np.asarray(layer.keep_prob) for i, layer in enumerate(layers, start=1)}


def visualize(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = run_files.trained(args.savedir)
    ax = plots.keep_probabilities(learned(model))
    ax.set_title(f"learned keep probabilities, N = {args.N}")
    run_files.write_figure(ax.figure, args.savedir / "keep_probabilities.png")
    for name, figure in uncertainty_figures(model, data.x_test, data.y_test, args.seed).items():
        run_files.write_figure(figure, args.savedir / f"uncertainty_{name}.png")
    print(f"learning rates on a regression with N = {', '.join(map(str, SEQUENCE))} (minutes)")
    rates = [regression_rates(n, args.seed) for n in SEQUENCE]
    run_files.write_figure(rates_figure(SEQUENCE, rates), args.savedir / "rate_against_n.png")
    run_files.write_metrics(
        args, rate_against_n={str(n): r for n, r in zip(SEQUENCE, rates, strict=True)}
    )


def gal(args: argparse.Namespace) -> None:
    """The rates that 10 examples leave, where logits move as fast as Gal's and as long."""
    record_file = RecordFile(args.savedir / "gal.jsonl", "seed")
    settings = {"N": 10, "logit_scale": 1.0, "epochs": GAL_EPOCHS, "steps": GAL_EPOCHS}
    rates = []
    for seed in range(GAL_SEEDS):

        def run(seed: int = seed) -> dict[str, Any]:
            return {"rates": regression_rates(10, seed, logit_scale=1.0, steps=GAL_EPOCHS)}

        rates.append(record_file.kept({"seed": seed}, settings, run)["rates"])
        print(f"test: N = 10, seed {seed}: drop rates {rates[-1]}", flush=True)
    hidden = np.mean(np.array(rates)[:, 1:], axis=1)  # without that of the input
    error = hidden.std(ddof=1) / len(hidden) ** 0.5
    print(f"test: mean rate {hidden.mean():.3f}, standard error {error:.3f} (published 0.40)")
    run_files.write_metrics(args, gal_at_10={"mean": float(hidden.mean()), "error": float(error)})


def regression_rates(
    n: int, seed: int, units: int = 1024, logit_scale: float = 10.0, steps: int | None = None
) -> list[float]:
    """Learned drop rates of the layers of Gal, Hron, Kendall's synthetic regression.

    The data are 2 x + 8 + N(0, 1); three ReLU layers, and a head for mean and log variance.
    """
    steps = REGRESSION_STEPS if steps is None else steps
    keras.utils.set_random_seed(seed)
    x, y = gal_linear(n, seed)

    def concrete(layer: keras.layers.Layer, i: int) -> ConcreteDropout:
        return ConcreteDropout(
            layer,
            num_data=n,
            lengthscale=1e-4,
            temperature=0.1,
            logit_scale=logit_scale,
            seed=seed + i,
        )

    hidden = [concrete(keras.layers.Dense(units, "relu"), i) for i in range(3)]
    head = concrete(keras.layers.Dense(2), 3)
    model = keras.Sequential([keras.layers.Input((1,)), *hidden, head])
    model.compile(keras.optimizers.Adam(1e-3), heteroscedastic)
    batch_size = min(n, 20)
    epochs = -(-steps * batch_size // n)
    tfbdl.train(model, x, y, epochs=epochs, batch_size=batch_size, seed=seed, verbose=0)
    return [1.0 - float(layer.keep_prob) for layer in (*hidden, head)]


def heteroscedastic(y: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
    """Negative log likelihood of N(mean, exp(log variance)), in nats."""
    mean, log_variance = tf.split(output, 2, axis=-1)
    square = tf.square(y - mean) * tf.exp(-log_variance)
    return 0.5 * (square + log_variance + np.log(2.0 * np.pi))


def rates_figure(sizes: Sequence[int], rates: list[list[float]]) -> Figure:
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    names = ("input", "hidden 1", "hidden 2", "hidden 3")
    for name, line in zip(names, np.transpose(rates), strict=True):
        ax.plot(sizes, line, "o-", label=f"dropout on {name}")
    ax.set_xscale("log")
    ax.set_ylim(0, 0.55)
    ax.set_xlabel("N, training examples")
    ax.set_ylabel("learned drop probability")
    ax.set_title("y = 2x + 8 + noise: more data, less dropout")
    ax.legend()
    ax.grid(alpha=0.3)
    return figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize, gal=gal)


if __name__ == "__main__":
    main()
