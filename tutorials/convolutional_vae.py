"""Keras' convolutional autoencoder, on grey digits and on patches of photographs in colour.

    python -m tutorials.convolutional_vae --mode train                  # MNIST, z in the plane
    python -m tutorials.convolutional_vae --data patches --zdim 16      # CIFAR-10, 16x16 in colour
    python -m tutorials.convolutional_vae --mode visualize

The networks are those of keras.io's example (`vae.py` there, by F. Chollet): two convolutions of
stride 2 and a dense layer, and the same backwards. The example draws z in a layer of its own, and
adds up its loss in a `train_step`; here `VAE` does both, and adds a bound of log p(x) by importance
samples, and a likelihood that belongs to the data. The likelihood of MNIST's grey pixels is the
example's cross-entropy; for the patches it is a normal law whose scale the decoder predicts for
each pixel and colour, so that their bound is a density of x in [0, 1]^768.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import math

import keras
import numpy as np
from matplotlib.figure import Figure, SubFigure

from tfbdl import plots
from tfbdl.data import cifar10, load
from tfbdl.models import VAE
from tutorials import commands, run_files

PATCH = 16
CLASSES = 10


def parser() -> argparse.ArgumentParser:
    parser = commands.photo_parser(
        "convolutional_vae", __doc__.splitlines()[0], N=60_000, batch_size=128, n_epochs=30
    )
    parser.add_argument("--data", choices=("mnist", "digits", "patches"), default="mnist")
    parser.add_argument("--zdim", type=int, default=2, help="dimension of z")
    parser.add_argument("--k", type=int, default=500, help="importance samples of the test bound")
    return parser


def images(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (N, H, W, C) in [0, 1] for training and for testing, and the classes of the latter."""
    if args.data == "patches":
        data = cifar10(directory=args.data_path)
        rng = np.random.default_rng(0)
        x_train, x_test = (patches(x, rng) for x in (data.x_train, data.x_test))
        return x_train[: args.N], x_test, data.y_test
    grey = load(args.data, "full", directory=args.data_path)
    return grey.x_train[: args.N, ..., None], grey.x_test[..., None], grey.y_test


def patches(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A square of each image at a random place, with the noise that 8 bits have rounded away."""
    top, left = rng.integers(x.shape[1] - PATCH + 1, size=(2, len(x)))
    rows, columns = (start[:, None] + np.arange(PATCH) for start in (top, left))
    cut = x[np.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None]]
    return ((cut + rng.random(cut.shape, np.float32)) / 256).astype("float32")


def networks(shape: tuple[int, ...], latent_dim: int, outputs: int) -> dict[str, keras.Model]:
    """The example's encoder and decoder, for images of `shape`; `outputs` for each pixel."""
    layers = keras.layers
    height, width = shape[0] // 4, shape[1] // 4
    same = {"padding": "same", "activation": "relu"}
    encoder = keras.Sequential(
        [
            layers.Conv2D(32, 3, strides=2, **same),
            layers.Conv2D(64, 3, strides=2, **same),
            layers.Flatten(),
            layers.Dense(16 if latent_dim == 2 else 256, "relu"),
            layers.Dense(2 * latent_dim),
        ],
        name="encoder",
    )
    decoder = keras.Sequential(
        [
            layers.Dense(height * width * 64, "relu"),
            layers.Reshape((height, width, 64)),
            layers.Conv2DTranspose(64, 3, strides=2, **same),
            layers.Conv2DTranspose(32, 3, strides=2, **same),
            layers.Conv2DTranspose(outputs, 3, padding="same"),
        ],
        name="decoder",
    )
    return {"encoder": encoder, "decoder": decoder}


def model(args: argparse.Namespace, shape: tuple[int, ...]) -> VAE:
    keras.utils.set_random_seed(args.seed)
    likelihood = tfbdl.likelihoods.get("bernoulli")
    if args.data == "patches":
        likelihood = tfbdl.likelihoods.Normal("predicted")
    outputs = likelihood.outputs_per_function * shape[-1]
    vae = VAE(
        args.zdim, likelihood=likelihood, seed=args.seed, **networks(shape, args.zdim, outputs)
    )
    vae.compile(keras.optimizers.Adam(1e-3))
    return vae


def train(args: argparse.Namespace) -> None:
    x_train, *_ = images(args)
    vae = model(args, x_train.shape[1:])
    tfbdl.train(
        vae,
        x_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=args.savedir,
        columns=["elbo", "kl"],
        seed=args.seed,
    )
    run_files.save(vae, args.savedir)
    test(args)


def test(args: argparse.Namespace) -> None:
    """The bounds of test images, in nats an image; of patches in bits a number of 8 bits too."""
    x_train, x, _ = images(args)
    vae = run_files.trained(args.savedir)
    scores = vae.evaluate(x, batch_size=1000, verbose=0, return_dict=True)
    bound = float(vae.log_likelihood(x, args.k).mean())
    print(f"test: elbo {scores['elbo']:f}, log p(x) >= {bound:f} ({args.k} importance samples)")
    metrics = {"test_elbo": scores["elbo"], "test_kl": scores["kl"], "test_log_likelihood": bound}
    if args.data == "patches":
        size = x[0].size
        bits = {"vae": bound, "normal": of_normal(x_train, x), "pixels": of_pixels(x_train, x)}
        metrics["test_bits"] = {
            name: round(8.0 - nats / (size * math.log(2)), 4) for name, nats in bits.items()
        }
        print(f"test: bits a number: {metrics['test_bits']}")
    run_files.write_metrics(args, **metrics)


def of_normal(x_train: np.ndarray, x: np.ndarray) -> float:
    """The log density of test images under one normal law of all pixels, in nats an image."""
    rows, test_rows = (np.float64(a.reshape(len(a), -1)) for a in (x_train, x))
    centred = test_rows - rows.mean(axis=0)
    covariance = np.cov(rows.T)
    distances = np.sum(centred * np.linalg.solve(covariance, centred.T).T, axis=1)
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (distances.mean() + log_det))


def of_pixels(x_train: np.ndarray, x: np.ndarray) -> float:
    """The same under a histogram of 256 bins for each number of an image, independent of others."""
    levels, test_levels = (np.int64(a.reshape(len(a), -1) * 256).clip(0, 255) for a in (x_train, x))
    total = 0.0
    for column, test_column in zip(levels.T, test_levels.T, strict=True):
        counts = np.bincount(column, minlength=256) + 1.0
        total += np.log(256 * counts / counts.sum())[test_column].mean()
    return float(total)


def visualize(args: argparse.Namespace) -> None:
    _, x, y = images(args)
    vae = run_files.trained(args.savedir)
    run_files.write_figure(reconstruction(vae, x), args.savedir / "reconstruction.png")
    drawn = vae.sample(100, mean=True, seed=1)
    ax = plots.image_grid(np.clip(drawn, 0.0, 1.0), 10)
    ax.set_title("mean of p(x | z), z ~ N(0, I)")
    run_files.write_figure(ax.figure, args.savedir / "samples.png")
    if vae.latent_dim == 2:
        ax = plots.manifold(vae)
        ax.set_title("mean of p(x | z) over the plane of z (cells of equal prior probability)")
        run_files.write_figure(ax.figure, args.savedir / "manifold.png")
        ax = plots.latent_scatter(np.asarray(vae.encode(x[:2000]).mu), y[:2000])
        ax.set(xlabel=r"$\mu_1(x)$", ylabel=r"$\mu_2(x)$", title="mean of q(z | x) of test images")
        run_files.write_figure(ax.figure, args.savedir / "latent.png")


def reconstruction(vae: VAE, x: np.ndarray) -> Figure | SubFigure:
    """Test images beside the mean of p(x | z = mu)."""
    chosen = x[:64]
    reconstructed = np.clip(vae.predict(chosen, verbose=0), 0.0, 1.0)
    axes = plots.reconstructions(np.clip(chosen, 0.0, 1.0), reconstructed)
    axes[0].figure.suptitle("test images, z = mean of q(z | x)")
    return axes[0].figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
