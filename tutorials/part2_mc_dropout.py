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
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfbdl import plots
from tfbdl.data import blend, gapped_sine, noise, rotate
from tfbdl.inference import HMC
from tfbdl.layers import MCDropout
from tutorials import classifiers, commands, image_data, run_files
from tutorials.posterior_inference import methods, problems
from tutorials.posterior_inference.running import Run

LAMBDAS = {"too small": 1e-8, "good": 3e-3, "too large": 1e-1}
FIGURE_SAMPLES = 1000
REGRESSION_RATE = 0.2
REGRESSION_EPOCHS = 1500
CHAIN_STEPS = 1000
NOISE = 0.1
"""Standard deviation of `gapped_sine`."""
LINE = np.linspace(-5, 5, 201, dtype="float32")[:, None]
BLENDS = np.linspace(0, 1, 21)
ANGLES = np.linspace(0, 180, 37)


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
    figure, spread = function_draws(args.seed)
    run_files.write_figure(figure, args.savedir / "function_draws.png")
    run_files.write_metrics(args, spread_of_functions=spread)
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


def of_posterior(seed: int) -> np.ndarray:
    """Functions drawn from a posterior by Hamiltonian Monte Carlo, on the same data: (S, n, 1)."""
    run = Run(epochs=0, chain_steps=CHAIN_STEPS, num_chains=4, seed=seed)
    chains = methods.markov_chains(problems.regression(20, seed), HMC(), 1, run)
    return tfbdl.predict(chains, LINE, 200, seed=seed, return_samples=True).samples


def function_draws(seed: int) -> tuple[Figure, dict[str, dict[str, float]]]:
    """Functions of a posterior and of dropout, and how far they differ along x; with numbers.

    Each black line is one function: one sample of the weights, or one mask, for all x.
    """
    model, x, y = regression(LAMBDAS["good"], seed)
    dropout = tfbdl.predict(model, LINE, 200, seed=seed, return_samples=True).samples
    draws = {"Hamiltonian Monte Carlo": of_posterior(seed), "MC dropout": dropout}
    figure, axes = plt.subplots(
        2,
        2,
        figsize=(11, 5.6),
        layout="constrained",
        sharex=True,
        sharey="row",
        height_ratios=(3, 1),
    )
    near = np.abs(LINE - x.T).min(axis=1) < 0.15
    inside, right = np.abs(LINE[:, 0]) < 0.8, LINE[:, 0] > 3.5
    titles = (
        "functions agree\non the data and part where there is none",
        "functions part\non the data, and hardly more where there is none",
    )
    numbers = {}
    for column, (name, f), title in zip(axes.T, draws.items(), titles, strict=True):
        plots.function_draws(LINE, f, (x, y), column[0], shown=40)
        column[0].set(ylim=(-3.2, 3.2), xlabel="")
        column[0].set_title(f"{name}: {title}", fontsize=11)
        spread = f[..., 0].std(0)
        column[1].fill_between(LINE[:, 0], spread, color="C0", alpha=0.4)
        column[1].plot(x, np.zeros_like(x), ".", color="C3", markersize=4, clip_on=False)
        column[1].set(xlabel="x", ylim=(0, 1.2))
        where = {"at the data": near, "in the gap": inside, "right of the data": right}
        numbers[name] = {place: float(spread[at].mean()) for place, at in where.items()}
    axes[0, 1].set_ylabel("")
    axes[1, 0].set_ylabel("sd of f")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    return figure, numbers


def weight_decays(seed: int) -> Figure:
    """The prior is the weight decay: what too little and too much of it does.

    The loss here is a squared error, 2 sigma^2 times the J of a normal likelihood with the data's
    sigma, so that lambda of J is weight_decay / 4 sigma^2.
    """
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained", sharey=True)
    for ax, (name, value) in zip(axes, LAMBDAS.items(), strict=True):
        model, x, y = regression(value, seed)
        f = tfbdl.predict(model, LINE, 200, seed=seed, return_samples=True).samples
        plots.function_draws(LINE, f, (x, y), ax)
        ax.set_ylim(-3, 3)
        near = np.abs(LINE - x.T).min(axis=1) < 0.15
        error = np.interp(x[:, 0], LINE[:, 0], f[..., 0].mean(0)) - y[:, 0]
        ax.set_title(
            rf"{name}: $\lambda$ of J = {value / (4 * NOISE**2):.2g}"
            f"\nmean off the data by {np.sqrt(np.mean(error**2)):.2f}, "
            f"functions by {f[:, near].std(0).mean():.2f}",
            fontsize=10,
        )
    axes[0].legend(fontsize=7, loc="lower left")
    return figure


def uncertainty_figures(
    model: keras.Model, x: np.ndarray, y: np.ndarray, seed: int
) -> dict[str, Figure]:
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
            f"{random_layers(model)}, {name} digits: "
            f"class probabilities of S = {FIGURE_SAMPLES} drawn functions"
        )
        figures[name] = figure
    return figures | {"along_the_way": along_the_way(model, images, y, seed)}


def random_layers(model: keras.Model) -> str:
    """The kinds of the model's layers that are this package's."""
    kinds = dict.fromkeys(map(type, model.layers))
    return ", ".join(k.__name__ for k in kinds if k.__module__.startswith("tfbdl.layers"))


def along_the_way(model: keras.Model, images: np.ndarray, y: np.ndarray, seed: int) -> Figure:
    """Class probabilities while digits are blended and turned: from sure to sure, or to unsure?

    The digits are those of their class that the model is surest of.
    """
    p = tfbdl.predict(model, image_data.flat(images), 100, seed=seed).mean
    surest = {label: np.argmax(p[:, label] * (y == label)) for label in (1, 4, 9, 3, 8)}
    one, four, nine, three, eight = (images[i : i + 1] for i in surest.values())
    ways = {
        "share of the 9, from a 4": (BLENDS, [blend(four, nine, w) for w in BLENDS]),
        "share of the 8, from a 3": (BLENDS, [blend(three, eight, w) for w in BLENDS]),
        "degrees that a 1 is turned": (ANGLES, [rotate(one, angle) for angle in ANGLES]),
    }
    figure, axes = plt.subplots(
        3, 3, figsize=(13, 6.4), layout="constrained", height_ratios=(0.7, 3, 1.6), sharex="col"
    )
    for column, (name, (at, pictures)) in zip(axes.T, ways.items(), strict=True):
        rows = image_data.flat(np.concatenate(pictures)).astype("float32")
        drawn = tfbdl.predict(model, rows, FIGURE_SAMPLES, seed=seed, return_samples=True)
        thumbnails(column[0], at, pictures)
        p = drawn.samples
        for label in np.flatnonzero(p.mean(0).max(0) > 0.15):
            low, high = np.quantile(p[..., label], [0.1, 0.9], axis=0)
            column[1].fill_between(at, low, high, color=f"C{label}", alpha=0.2, linewidth=0)
            column[1].plot(at, p[..., label].mean(0), color=f"C{label}", label=f"{label}")
        others = p.mean(0)[:, p.mean(0).max(0) <= 0.15].sum(axis=1)
        column[1].plot(at, others, color="grey", linestyle=":", label="others")
        column[1].set_ylim(0, 1.02)
        column[1].legend(
            title="class", fontsize=7, title_fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5)
        )
        column[2].plot(at, drawn.entropy, "k", label="total")
        column[2].plot(at, drawn.mutual_information, "k--", label="mutual information")
        column[2].set(xlabel=name, ylim=(0, np.log(10)))
    axes[1, 0].set_ylabel("class probability: mean,\n10 to 90 % of functions")
    axes[2, 0].set_ylabel("entropy (nats)")
    axes[2, 0].legend(fontsize=7)
    figure.suptitle(
        f"{random_layers(model)}, from the digits it is surest of to synthetic ones: "
        f"class probabilities of S = {FIGURE_SAMPLES} drawn functions"
    )
    return figure


def thumbnails(ax: Axes, at: np.ndarray, pictures: list[np.ndarray], shown: int = 7) -> None:
    """Some of the pictures, above the places on the x axis that they have."""
    chosen = np.linspace(0, len(at) - 1, shown).astype(int)
    width = (at[-1] - at[0]) / shown
    for i in chosen.tolist():
        left = at[i] - 0.45 * width
        ax.imshow(pictures[i][0], cmap="gray_r", extent=(left, left + 0.9 * width, 0, 1))
    ax.set(xlim=(at[0] - width / 2, at[-1] + width / 2), ylim=(0, 1), aspect="auto")
    ax.axis("off")


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
