"""Part I: the variational autoencoder.

    python -m tutorials.part1_vae --mode train      # train.log, model.keras
    python -m tutorials.part1_vae --mode test       # elbo of the test images at z = mu
    python -m tutorials.part1_vae --mode visualize  # the figures

Maximised is the evidence lower bound of log p(x),

    elbo = E_{q(z|x)}[log p(x|z)] - KL(q(z|x) || p(z)),    p(z) = N(0, I),

with q(z|x) = N(mu(x), sigma(x)^2), one sample z = mu + sigma * eps an image, and a Bernoulli
likelihood for each pixel. On grey pixels that is no proper likelihood; `--likelihood
continuous_bernoulli` is, and so are `--binarize dynamic` and `--binarize static`.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure, SubFigure
from sklearn.manifold import TSNE

from tfbdl import plots
from tfbdl.data import ImageData, binarize
from tfbdl.models import VAE
from tutorials import classifiers, commands, image_data, run_files

SHOWN = 2000
"""Points in a picture of the latent space."""


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("part1_vae", "Part I: variational autoencoder.")
    parser.add_argument("--zdim", type=int, default=20, help="dimension of z; 2 draws the manifold")
    parser.add_argument(
        "--likelihood",
        choices=("bernoulli", "continuous_bernoulli"),
        default="bernoulli",
        help="of a pixel",
    )
    parser.add_argument(
        "--binarize",
        choices=("none", "dynamic", "static"),
        default="none",
        help="black or white pixels: drawn anew in each step, or once",
    )
    parser.add_argument(
        "--k", type=int, default=0, help="importance samples of the test bound on log p(x); 0: none"
    )
    return parser


def model(args: argparse.Namespace) -> VAE:
    """784-500-500-zdim-500-500-784, as in the slides' model.py."""
    keras.utils.set_random_seed(args.seed)
    dynamic = "dynamic" if args.binarize == "dynamic" else None
    vae = VAE(args.zdim, (500, 500), args.likelihood, binarize=dynamic, seed=args.seed)
    vae.compile(classifiers.adam(args))
    return vae


def images(args: argparse.Namespace) -> ImageData:
    """The chosen data; for static binarisation black and white once and for all."""
    data = image_data.chosen(args)
    if args.binarize != "static":
        return data
    x_train, x_test = binarize(data.x_train, args.seed), binarize(data.x_test, args.seed + 1)
    return data._replace(x_train=x_train, x_test=x_test)


def train(args: argparse.Namespace) -> None:
    data = images(args)
    vae = model(args)
    tfbdl.train(
        vae,
        data.x_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=args.savedir,
        columns=["elbo"],
        seed=args.seed,
    )
    run_files.save(vae, args.savedir)
    test(args)


def test(args: argparse.Namespace) -> None:
    data = images(args)
    vae = run_files.trained(args.savedir)
    scores = vae.evaluate(data.x_test, batch_size=1000, verbose=0, return_dict=True)
    print(f"test: elbo {scores['elbo']:f} (z = mu)")
    metrics = {"test_elbo": scores["elbo"], "test_kl": scores["kl"]}
    if args.k:
        x = binarize(data.x_test, args.seed) if args.binarize == "dynamic" else data.x_test
        metrics["test_log_likelihood"] = float(vae.log_likelihood(x, args.k).mean())
        print(f"test: log p(x) >= {metrics['test_log_likelihood']:f} ({args.k} importance samples)")
    run_files.write_metrics(args, **metrics)


def visualize(args: argparse.Namespace) -> None:
    data = images(args)
    vae = run_files.trained(args.savedir)
    sets = {"train": (data.x_train, data.y_train), "test": (data.x_test, data.y_test)}
    for name, (x, y) in sets.items():
        run_files.write_figure(latent(vae, x, y, name), args.savedir / f"latent_{name}.png")
        figure = reconstruction(vae, x, y, name)
        run_files.write_figure(figure, args.savedir / f"reconstruction_{name}.png")
    run_files.write_figure(samples(vae, args.binarize), args.savedir / "samples.png")
    if args.zdim == 2:
        ax = plots.manifold(vae)
        ax.set_title("mean of p(x | z) over the plane of z (cells of equal prior probability)")
        run_files.write_figure(ax.figure, args.savedir / "manifold.png")


def latent(vae: VAE, x: np.ndarray, y: np.ndarray, name: str) -> Figure | SubFigure:
    """The means of q(z|x) of some images in the plane: as they are for zdim 2, else by t-SNE."""
    chosen = np.random.default_rng(0).permutation(len(x))[:SHOWN]
    x, y = x[chosen], y[chosen]
    mu = np.asarray(vae.encode(x).mu)
    if vae.latent_dim == 2:
        ax = plots.latent_scatter(mu, y)
        ax.set(xlabel=r"$\mu_1(x)$", ylabel=r"$\mu_2(x)$")
        ax.set_title(f"mean of q(z | x) of {len(x)} {name} images")
    else:
        points = TSNE(perplexity=30, init="pca", random_state=0).fit_transform(mu)
        ax = plots.latent_scatter(points, y)
        ax.set(xlabel="t-SNE 1", ylabel="t-SNE 2")
        ax.set_title(f"mean of q(z | x) of {len(x)} {name} images, t-SNE of {vae.latent_dim} to 2")
    return ax.figure


def reconstruction(vae: VAE, x: np.ndarray, y: np.ndarray, name: str) -> Figure | SubFigure:
    """Ten images of each class beside the mean of p(x | z = mu)."""
    chosen = np.concatenate([np.flatnonzero(y == label)[:10] for label in range(10)])
    reconstructed = vae.predict(x[chosen], verbose=0)
    axes = plots.reconstructions(image_data.square(x[chosen]), image_data.square(reconstructed))
    axes[0].figure.suptitle(f"{name} images, z = mean of q(z | x)")
    return axes[0].figure


def samples(vae: VAE, binarize: str) -> Figure | SubFigure:
    """What the model takes for digits: means of p(x | z) for z ~ N(0, I), and x drawn from it."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 4.3), layout="constrained")
    for ax, mean, title in zip(
        axes, (True, False), ("mean of p(x | z)", "x ~ p(x | z)"), strict=True
    ):
        images = image_data.square(vae.sample(100, mean=mean, seed=1))
        plots.image_grid(images, 10, ax).set_title(title)
    law = type(vae.likelihood).__name__
    figure.suptitle(f"z ~ N(0, I), likelihood {law}, binarisation {binarize}")
    return figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
