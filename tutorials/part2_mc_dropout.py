"""Part II: dropout as a Bayesian neural network.

    python -m tutorials.part2_mc_dropout --mode train
    python -m tutorials.part2_mc_dropout --mode test       # naive and Monte-Carlo
    python -m tutorials.part2_mc_dropout --mode visualize

A network with dropout is trained on cent + lambda ||W||^2: cent is the likelihood term of the
evidence lower bound, with one mask an example, and the weight decay the KL of the dropout
distribution q(w) = p 0 + (1 - p) m from the prior N(0, l^-2). Prediction averages over q,

    q(y|x) = 1/S sum_s p(y | x, W_s),   W_s ~ q;    naively p(y | x, E[W]), which is dropout off.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse

import keras
import matplotlib.pyplot as plt
import numpy as np

from tfbdl import plots
from tfbdl.data import blend, gapped_sine, noise, rotate
from tfbdl.layers import MCDropout
from tutorials import classifiers, commands, image_data, run_files

LAMBDAS = {"too small": 1e-8, "good": 3e-3, "too large": 1e-1}
FIGURE_SAMPLES = 1000
REGRESSION_RATE = 0.2
REGRESSION_EPOCHS = 1500


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("part2_mc_dropout", "Part II: Monte-Carlo dropout.")
    parser.add_argument("--keep_prob", type=float, default=0.5, help="probability to keep a unit")
    parser.add_argument("--weight_decay", type=float, default=1e-4, help="lambda, of l2_loss")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def network(keep_prob: float, weight_decay: float, seed: int) -> keras.Model:
    """784-500-500-10 with dropout behind each hidden layer, as in the slides' model.py.

    `tf.nn.l2_loss` is half the squared norm, hence the half in Keras' L2. The slides' list of
    weights is that of all trainable variables, so that biases decay too.
    """
    keras.utils.set_random_seed(seed)

    def dense(units: int, activation: str | None = None) -> keras.layers.Dense:
        decay = keras.regularizers.L2(0.5 * weight_decay)
        return keras.layers.Dense(
            units, activation, kernel_regularizer=decay, bias_regularizer=decay
        )

    return keras.Sequential(
        [
            keras.layers.Input((784,)),
            dense(500, "relu"),
            MCDropout(1.0 - keep_prob, seed=seed),
            dense(500, "relu"),
            MCDropout(1.0 - keep_prob, seed=seed + 1),
            dense(10),
        ]
    )


def train(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = network(args.keep_prob, args.weight_decay, args.seed)
    classifiers.compiled(model, classifiers.adam(args))
    tfbdl.train(
        model,
        data.x_train,
        data.y_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=args.savedir,
        columns=["cent", "wd", "acc"],
        seed=args.seed,
    )
    run_files.save(model, args.savedir)
    test(args)


def test(args: argparse.Namespace) -> None:
    classifiers.test(args, run_files.trained(args.savedir))


def visualize(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = run_files.trained(args.savedir)
    run_files.write_figure(function_draws(args.seed), args.savedir / "function_draws.png")
    run_files.write_figure(weight_decays(args.seed), args.savedir / "weight_decay.png")
    for name, figure in uncertainty_figures(model, data.x_test, data.y_test, args.seed).items():
        run_files.write_figure(figure, args.savedir / f"uncertainty_{name}.png")


def regression(weight_decay: float, seed: int) -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """A one-dimensional dropout regression, trained."""
    x, y = gapped_sine(20, seed)
    keras.utils.set_random_seed(seed)
    decay = keras.regularizers.L2(0.5 * weight_decay)

    def dense(units: int, activation: str | None) -> keras.layers.Dense:
        return keras.layers.Dense(units, activation, kernel_regularizer=decay)

    model = keras.Sequential(
        [
            keras.layers.Input((1,)),
            dense(100, "relu"),
            MCDropout(REGRESSION_RATE, seed=seed),
            dense(100, "relu"),
            MCDropout(REGRESSION_RATE, seed=seed + 1),
            dense(1, None),
        ]
    )
    model.compile(keras.optimizers.Adam(3e-3), "mse")
    tfbdl.train(model, x, y, epochs=REGRESSION_EPOCHS, seed=seed, verbose=0)
    return model, x, y


def draw_regression(weight_decay: float, seed: int, ax: plt.Axes) -> None:
    model, x, y = regression(weight_decay, seed)
    line = np.linspace(-5, 5, 200, dtype="float32")[:, None]
    drawn = tfbdl.predict(model, line, 200, seed=seed, return_samples=True).samples
    plots.function_draws(line, drawn, (x, y), ax)
    ax.set_ylim(-3, 3)


def function_draws(seed: int) -> plt.Figure:
    """Each black line is one function: one mask for all x."""
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    draw_regression(LAMBDAS["good"], seed, ax)
    ax.set_title(f"functions drawn by dropout (rate {REGRESSION_RATE})")
    ax.legend(fontsize=8)
    return figure


def weight_decays(seed: int) -> plt.Figure:
    """The prior is the weight decay: what too little and too much of it does."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained", sharey=True)
    for ax, (name, value) in zip(axes, LAMBDAS.items(), strict=True):
        draw_regression(value, seed, ax)
        ax.set_title(rf"{name} $\lambda$ = {value:g}")
    axes[0].legend(fontsize=7, loc="lower left")
    return figure


def uncertainty_figures(
    model: keras.Model, x: np.ndarray, y: np.ndarray, seed: int
) -> dict[str, plt.Figure]:
    """Predictive distributions of test digits, sure and unsure, and of synthetic ones."""
    order = np.argsort(tfbdl.predict(model, x, 100, seed=seed).entropy)
    images = image_data.square(x)

    def named(indices: np.ndarray) -> tuple[np.ndarray, list[str]]:
        return images[indices], [f"true class {y[i]}" for i in indices]

    chosen = {
        "confident": named(order[:: len(x) // 20][:6]),
        "ambiguous": named(order[-6:]),
        "synthetic": synthetic(images, y),
    }
    figures = {}
    for name, (pictures, titles) in chosen.items():
        rows = image_data.flat(pictures).astype("float32")
        drawn = tfbdl.predict(model, rows, FIGURE_SAMPLES, seed=seed, return_samples=True)
        axes = plots.class_distributions(pictures, drawn.samples, titles)
        figure = axes[0, 0].figure
        figure.suptitle(
            f"{name} digits: class probabilities of S = {FIGURE_SAMPLES} drawn functions"
        )
        figures[name] = figure
    return figures


def synthetic(images: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """A digit rotated step by step, blends of two digits, and noise."""
    one, four, nine, three, eight = (images[y == label][:1] for label in (1, 4, 9, 3, 8))
    pictures = [
        rotate(one, 30),
        rotate(one, 60),
        rotate(one, 90),
        blend(four, nine),
        blend(three, eight),
        noise(1, seed=0),
    ]
    titles = ["1 turned 30°", "1 turned 60°", "1 turned 90°", "4 and 9", "3 and 8", "noise"]
    return np.concatenate(pictures), titles


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
