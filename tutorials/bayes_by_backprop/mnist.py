"""Bayes by Backprop on MNIST: a plain network first, then one with a distribution over each weight.

    python -m tutorials.bayes_by_backprop.mnist --mode train
    python -m tutorials.bayes_by_backprop.mnist --mode test
    python -m tutorials.bayes_by_backprop.mnist --mode visualize

The loss of a batch of m examples is the mean of -log p(y | x, W) plus (log q(W) - log p(W)) / N at
one W ~ q, with the scale mixture of two normals as p(W). One W serves the whole batch: drawing one
for each example, as the notebook's text has it, and adding up their m KL terms would count the KL m
times (`estimator="per_example"` takes their mean). The defaults are the notebook's; with flags the
networks are those of Blundell et al. (2015, table 1).
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import math
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import plots
from tfbdl.layers import BayesDense, MCDropout
from tfbdl.posteriors import MeanFieldNormal
from tfbdl.priors import Normal, Prior, ScaleMixture
from tutorials import classifiers, commands, image_data, run_files

FIGURE_SAMPLES = 100


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "bayes_by_backprop.mnist", "Bayes by Backprop on MNIST.", split="full", n_epochs=17
    )
    parser.add_argument("--units", type=int, nargs="+", default=[128], help="of the hidden layers")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(NETWORKS),
        default=["plain", "bayes"],
        help="networks to train one after the other",
    )
    parser.add_argument("--plain_epochs", type=int, default=5, help="epochs of the plain network")
    parser.add_argument(
        "--prior", choices=("scale_mixture", "normal"), default="scale_mixture", help="p(W)"
    )
    parser.add_argument("--pi", type=float, default=0.25, help="share of the mixture's sigma1")
    parser.add_argument("--sigma1", type=float, default=math.exp(-1), help="of the mixture")
    parser.add_argument("--sigma2", type=float, default=math.exp(-7), help="of the mixture")
    parser.add_argument("--gamma", type=float, default=0.5, help="scale of the normal prior")
    parser.add_argument("--rho", type=float, default=-4.0, help="where all rho start")
    parser.add_argument(
        "--estimator",
        choices=("reparameterization", "local_reparameterization", "flipout", "per_example"),
        default="reparameterization",
        help="how outputs are sampled in training",
    )
    parser.add_argument(
        "--optimizer",
        choices=("rmsprop", "adam", "sgd"),
        default="rmsprop",
        help="rmsprop at a fixed rate; adam or sgd (momentum 0.9) at one that falls by a cosine",
    )
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate at the start")
    parser.add_argument("--S", type=int, default=10, help="drawn functions a prediction")
    return parser


def plain(args: argparse.Namespace) -> keras.Model:
    """A network of single weights."""
    return network(args, [keras.layers.Dense(units, "relu") for units in args.units])


def dropout(args: argparse.Namespace) -> keras.Model:
    """The same with half of the hidden units dropped."""
    hidden: list[keras.layers.Layer] = []
    for i, units in enumerate(args.units):
        hidden += [keras.layers.Dense(units, "relu"), MCDropout(0.5, seed=args.seed + i)]
    return network(args, hidden)


def bayes(args: argparse.Namespace) -> keras.Model:
    """The same with q(w) = N(mu, softplus(rho)^2) for each weight and bias."""

    def layer(units: int, activation: str | None, seed: int) -> BayesDense:
        return BayesDense(
            units,
            activation,
            num_data=args.N,
            prior=prior(args),
            posterior=MeanFieldNormal(keras.initializers.Constant(args.rho)),
            estimator=args.estimator,
            kernel_initializer="he_normal",
            seed=seed,
        )

    seeds = [args.seed + i for i in range(len(args.units))]
    hidden = [layer(units, "relu", seed) for units, seed in zip(args.units, seeds, strict=True)]
    return network(args, hidden, layer(10, None, args.seed + len(args.units)))


NETWORKS = {"plain": plain, "dropout": dropout, "bayes": bayes}


def prior(args: argparse.Namespace) -> Prior:
    """The prior p(w) of one layer's weights."""
    if args.prior == "normal":
        return Normal(args.gamma)
    return ScaleMixture(args.pi, args.sigma1, args.sigma2)


def network(
    args: argparse.Namespace,
    hidden: list[keras.layers.Layer],
    last: keras.layers.Layer | None = None,
) -> keras.Model:
    """784 pixels, the hidden layers, 10 logits."""
    keras.utils.set_random_seed(args.seed)
    return keras.Sequential([keras.Input((784,)), *hidden, last or keras.layers.Dense(10)])


def optimizer(args: argparse.Namespace, epochs: int) -> keras.optimizers.Optimizer:
    """RMSprop as in the notebook, or what long runs need."""
    if args.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(args.lr, rho=0.9)
    steps = epochs * (args.N // min(args.batch_size, args.N))
    falling = keras.optimizers.schedules.CosineDecay(args.lr, steps)
    if args.optimizer == "adam":
        return keras.optimizers.Adam(falling)
    return keras.optimizers.SGD(falling, momentum=0.9)


def train(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    for method in args.methods:
        epochs = args.plain_epochs if method == "plain" else args.n_epochs
        model = NETWORKS[method](args)
        classifiers.compiled(model, optimizer(args, epochs))
        columns = ["cent", "kl", "acc"] if method == "bayes" else ["cent", "acc"]
        print(f"==> {method}", flush=True)
        tfbdl.train(
            model,
            data.x_train,
            data.y_train,
            epochs=epochs,
            batch_size=args.batch_size,
            savedir=args.savedir / method,
            columns=columns,
            seed=args.seed,
        )
        run_files.save(model, args.savedir / method)
    test(args)


def test(args: argparse.Namespace) -> None:
    """Accuracy from one sample, from the mean weights, and from the average of many samples.

    And that of the mean weights on the training images, after training, as the notebook has it.
    """
    data = image_data.chosen(args)
    scores: dict[str, Any] = {"test_images": len(data.y_test)}
    for method in args.methods:
        model = run_files.trained(args.savedir / method)
        of_training = model.evaluate(
            data.x_train, data.y_train, batch_size=1000, verbose=0, return_dict=True
        )["acc"]
        print(f"test: acc {of_training:f} ({method}, mean weights, training images)")
        scores[f"{method}_acc_train"] = of_training
        samples = (0,) if method == "plain" else (1, 0, args.S)
        for num_samples in samples:
            p = tfbdl.predict(model, data.x_test, num_samples, seed=args.seed).mean
            acc = float(np.mean(p.argmax(-1) == data.y_test))
            cent = tfbdl.metrics.negative_log_likelihood(data.y_test, np.maximum(p, 1e-12))
            label = {0: "mean weights", 1: "one sample"}.get(num_samples, f"S = {num_samples}")
            print(f"test: cent {cent:f}, acc {acc:f} ({method}, {label})")
            key = {0: "naive", 1: "one"}.get(num_samples, "mc")
            scores |= {f"{method}_acc_{key}": acc, f"{method}_cent_{key}": cent}
    run_files.write_metrics(args, **scores)


def visualize(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    for method in args.methods:
        if method != "plain":
            model = run_files.trained(args.savedir / method)
            for name, draw in (
                ("least_sure", least_sure),
                ("largest_spread", largest_spread),
                ("spread", spread),
            ):
                figure = draw(model, data, args)
                run_files.write_figure(figure, args.savedir / f"{method}_{name}.png")


def least_sure(model: keras.Model, data: Any, args: argparse.Namespace) -> Figure:
    """The test digits whose most probable class has the least probability."""
    p = tfbdl.predict(model, data.x_test, FIGURE_SAMPLES, seed=args.seed).mean
    title = f"the digits it is least sure of: {FIGURE_SAMPLES} drawn functions"
    return digits(model, data, np.argsort(p.max(axis=-1))[:6], title, args.seed)


def largest_spread(model: keras.Model, data: Any, args: argparse.Namespace) -> Figure:
    """The test digits on whose predicted class functions differ most, as the notebook shows one."""
    stddev, _ = spread_of_predicted(model, data, args)
    title = f"the digits on which functions differ most: {FIGURE_SAMPLES} drawn functions"
    return digits(model, data, np.argsort(-stddev)[:6], title, args.seed)


def digits(model: keras.Model, data: Any, chosen: np.ndarray, title: str, seed: int) -> Figure:
    """Some test digits, and their class probabilities over functions."""
    x = data.x_test[chosen]
    drawn = tfbdl.predict(model, x, FIGURE_SAMPLES, seed=seed, return_samples=True).samples
    predicted = drawn.mean(0).argmax(-1)
    titles = [
        f"true class {data.y_test[i]}\nsd of class {c}: {drawn[:, n, c].std():.2f}"
        for n, (i, c) in enumerate(zip(chosen, predicted, strict=True))
    ]
    axes = plots.class_distributions(image_data.square(x), drawn, titles)
    figure = axes[0, 0].figure
    figure.suptitle(title)
    return figure


def spread_of_predicted(
    model: keras.Model, data: Any, args: argparse.Namespace
) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations over functions of the predicted class's probability; and that class."""
    prediction = tfbdl.predict(model, data.x_test, FIGURE_SAMPLES, seed=args.seed)
    predicted = prediction.mean.argmax(-1)
    return prediction.epistemic_stddev[np.arange(len(predicted)), predicted], predicted


def spread(model: keras.Model, data: Any, args: argparse.Namespace) -> Figure:
    """How far functions differ on the class they predict together, where right and where wrong."""
    stddev, predicted = spread_of_predicted(model, data, args)
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    bins = list(np.linspace(0, max(float(stddev.max()), 1e-3), 40))
    for name, chosen in (
        ("right", predicted == data.y_test),
        ("wrong", predicted != data.y_test),
    ):
        values = stddev[chosen]
        weights = np.full(len(values), 1.0 / max(len(values), 1))
        ax.hist(values, bins, weights=weights, alpha=0.6, label=f"{name} ({len(values)} digits)")
    ax.set(
        xlabel="standard deviation of the predicted class's probability over functions",
        ylabel="fraction of these digits",
        yscale="log",
    )
    ax.legend(title="prediction")
    return figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
