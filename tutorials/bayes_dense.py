"""Bayes by Backprop: a classifier of `BayesDense` layers, trained by plain `model.fit`.

    python -m tutorials.bayes_dense --mode train
    python -m tutorials.bayes_dense --mode test
    python -m tutorials.bayes_dense --mode visualize

q(W) = N(mu, softplus(rho)^2) for each weight, p(W) = N(0, gamma^2), and in each step one sample
W = mu + softplus(rho) * eps. Keras adds the layers' KL / N to its mean loss, which makes it the
negative evidence lower bound per example.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse

import keras
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from tfbdl import plots
from tfbdl.layers import BayesDense
from tutorials import classifiers, commands, image_data, run_files
from tutorials.part2_mc_dropout import uncertainty_figures


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("bayes_dense", "Bayes by Backprop with Keras' fit.")
    parser.add_argument("--gamma", type=float, default=1.0, help="scale of the prior N(0, gamma^2)")
    parser.add_argument(
        "--estimator",
        default="reparameterization",
        choices=("reparameterization", "local_reparameterization", "flipout"),
        help="how outputs are sampled in training",
    )
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def network(args: argparse.Namespace) -> keras.Model:
    """784-500-500-10, every weight and bias with a distribution."""
    keras.utils.set_random_seed(args.seed)

    def bayes_dense(units: int, activation: str | None, seed: int) -> BayesDense:
        return BayesDense(
            units,
            activation,
            num_data=args.N,
            prior=args.gamma,
            estimator=args.estimator,
            seed=seed,
        )

    return keras.Sequential(
        [
            keras.layers.Input((784,)),
            bayes_dense(500, "relu", args.seed),
            bayes_dense(500, "relu", args.seed + 1),
            bayes_dense(10, None, args.seed + 2),
        ]
    )


def train(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = classifiers.compiled(network(args), classifiers.adam(args))
    args.savedir.mkdir(parents=True, exist_ok=True)
    log = tfbdl.TrainLogger(args.savedir / "train.log", ["cent", "kl", "acc"], verbose=1)
    model.fit(
        data.x_train,
        data.y_train,
        batch_size=args.batch_size,
        epochs=args.n_epochs,
        callbacks=[log],
        verbose=0,
    )
    run_files.save(model, args.savedir)
    test(args)


def test(args: argparse.Namespace) -> None:
    classifiers.test(args, run_files.trained(args.savedir))


def visualize(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = run_files.trained(args.savedir)
    run_files.write_figure(weights(model), args.savedir / "weights.png")
    for name, figure in uncertainty_figures(model, data.x_test, data.y_test, args.seed).items():
        run_files.write_figure(figure, args.savedir / f"uncertainty_{name}.png")


def weights(model: keras.Model) -> Figure:
    """What training did to the posterior: means, standard deviations, and their ratio."""
    layers = [layer for layer in model.layers if isinstance(layer, BayesDense)]
    kernels = {f"layer {i}": layer.kernel for i, layer in enumerate(layers, start=1)}
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    plots.weight_posteriors(kernels, axes)
    figure.suptitle("the learned posterior")
    return figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
