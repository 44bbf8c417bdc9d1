"""How far the gradient of Bayes by Backprop varies under each estimator.

    python benchmarks/gradient_variance.py

784-128-10 on MNIST, at the start and after a few epochs. For each of several batches of M images
the gradient of the loss with respect to mu and rho is drawn many times. Its variance is that of the
estimator; the variance of its mean, from batch to batch, is that of the data, which no estimator
changes. Both are means over all weights of a kernel.

Kingma, Salimans, Welling 2015, "Variational dropout and the local reparameterization trick", table
1, and Wen et al. 2018, "Flipout: efficient pseudo-independent weight perturbations on
mini-batches", figure 1, measure the like.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")
import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from tfbdl.data import ImageData, load
from tfbdl.layers import BayesDense

ESTIMATORS = {
    "reparameterization": "one sample per batch",
    "flipout": "flipout",
    "per_example": "one sample per example",
    "local_reparameterization": "local reparameterisation",
}
FROM_DATA = "from batch to batch"
SIZES = (2, 8, 32, 128)
PARAMETERS = ("784-128, mu", "784-128, rho", "128-10, mu", "128-10, rho")


def network(estimator: str, args: argparse.Namespace) -> keras.Model:
    """Equal seeds start at equal parameters, whatever the estimator."""
    keras.utils.set_random_seed(args.seed)
    units = ((128, "relu"), (10, None))
    layers = [
        BayesDense(*of, num_data=args.N, estimator=estimator, seed=args.seed + i)
        for i, of in enumerate(units)
    ]
    model = keras.Sequential([keras.Input((784,)), *layers])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Replicas:
    """The variance of the gradient of a model.

    Args:
        model: compiled; its parameters may change between measurements.
        data: images and labels, of which batches are drawn.
        args: how many batches and draws.
    """

    def __init__(self, model: keras.Model, data: ImageData, args: argparse.Namespace) -> None:
        self.model, self.data, self.args = model, data, args
        self.moments = tf.function(self._moments, autograph=False, jit_compile=True)

    def _moments(self, x: tf.Tensor, y: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Mean and variance of the gradient for each of `PARAMETERS`, over draws of the noise."""
        kernels = [layer.kernel for layer in self.model.layers]
        variables = [v.value for kernel in kernels for v in (kernel.mu, kernel.rho)]

        def gradient(_: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                f = self.model(x, training=True)
                loss = self.model.loss(y, f) + sum(self.model.losses)
            return tape.gradient(loss, variables)

        draws = tf.range(self.args.draws)
        gradients = tf.map_fn(gradient, draws, fn_output_signature=[tf.float32] * len(variables))
        return [tf.nn.moments(g, axes=[0]) for g in gradients]

    def at(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Variances by estimator and by data, for each of `PARAMETERS`; 0 where noise hides it."""
        rng, draws = np.random.default_rng(self.args.seed), self.args.draws
        means, of_estimator = [], []
        for _ in range(self.args.batches):
            rows = rng.choice(len(self.data.x_train), size, replace=False)
            moments = self.moments(self.data.x_train[rows], self.data.y_train[rows])
            means.append([mean.numpy() for mean, _ in moments])
            of_estimator.append([np.mean(variance) for _, variance in moments])
        noise = np.mean(of_estimator, axis=0) * draws / (draws - 1)
        of_means = [np.mean(np.var(g, axis=0, ddof=1)) for g in zip(*means, strict=True)]
        from_noise = noise / draws
        from_data = np.array(of_means) - from_noise
        return noise, np.where(from_data > from_noise, from_data, 0.0)


def measure(data: ImageData, args: argparse.Namespace) -> dict[str, dict]:
    """{stage: {estimator or "data": {parameters: variances, one for each batch size}}}."""
    sources = [network("local_reparameterization", args) for _ in range(2)]
    tfbdl.train(
        sources[1], *data[:2], epochs=args.n_epochs, batch_size=128, seed=args.seed, verbose=0
    )
    rows: dict[str, dict] = {"start": {}, f"after {args.n_epochs} epochs": {}}
    for estimator in ESTIMATORS:
        model = network(estimator, args)
        spread = Replicas(model, data, args)
        for variances, source in zip(rows.values(), sources, strict=True):
            for v, value in zip(model.trainable_variables, source.trainable_variables, strict=True):
                v.assign(value)
            measured = np.array([spread.at(size) for size in SIZES])
            for name, values in ((estimator, measured[:, 0]), ("data", measured[:, 1])):
                variances[name] = dict(zip(PARAMETERS, values.T.tolist(), strict=True))
    return rows


def table(rows: dict[str, dict]) -> str:
    """The variance of each estimator over that of local reparameterisation, at the last size."""
    lines = [
        f"| {SIZES[-1]} images | {' | '.join(PARAMETERS)} |",
        f"|---|{'---|' * len(PARAMETERS)}",
    ]
    for stage, variances in rows.items():
        least = variances["local_reparameterization"]
        for name, label in {**ESTIMATORS, "data": FROM_DATA}.items():
            ratios = [f"{variances[name][p][-1] / least[p][-1]:.2f}" for p in PARAMETERS]
            lines.append(f"| {stage}, {label} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def figure(rows: dict[str, dict]) -> Figure:
    """Variance against batch size, a row of axes for each stage."""
    drawn, axes = plt.subplots(2, 4, figsize=(14, 6.5), sharex=True, layout="constrained")
    for row, (stage, variances) in zip(axes, rows.items(), strict=True):
        for ax, parameter in zip(row, PARAMETERS, strict=True):
            for i, (name, label) in enumerate(ESTIMATORS.items()):
                ax.loglog(SIZES, variances[name][parameter], f"C{i}o-", label=label)
            from_data = np.array(variances["data"][parameter])
            ax.loglog(SIZES, np.where(from_data > 0, from_data, np.nan), "k:", label=FROM_DATA)
            ax.set_title(f"{parameter}, {stage}", fontsize=10)
            ax.set_xticks(SIZES, [str(size) for size in SIZES])
            ax.minorticks_off()
        row[0].set_ylabel("variance of the gradient\n(nats$^2$ per example$^2$)")
    for ax in axes[-1]:
        ax.set_xlabel("images in a batch")
    drawn.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return drawn


def main() -> None:
    """Measures, prints the table, and writes numbers and figure."""
    parser = argparse.ArgumentParser(
        description="Variance of the gradient under each estimator.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--savedir", type=Path, default=Path("runs/gradient_variance"))
    parser.add_argument("--N", type=int, default=60_000, help="training images")
    parser.add_argument("--n_epochs", type=int, default=5, help="before the second measurement")
    parser.add_argument("--batches", type=int, default=20, help="of images, of each size")
    parser.add_argument("--draws", type=int, default=50, help="of noise, for each batch")
    parser.add_argument("--seed", type=int, default=0, help="of weights, noise and batches")
    args = parser.parse_args()
    data = load("mnist", "full")
    data = data._replace(x_train=data.x_train.reshape(-1, 784)[: args.N])
    data = data._replace(y_train=data.y_train[: args.N])
    rows = measure(data, args)
    print(table(rows))
    args.savedir.mkdir(parents=True, exist_ok=True)
    configuration = {name: value for name, value in vars(args).items() if name != "savedir"}
    written = {"configuration": configuration, "batch sizes": SIZES, "variances": rows}
    (args.savedir / "metrics.json").write_text(json.dumps(written, indent=2) + "\n")
    figure(rows).savefig(args.savedir / "gradient_variance.png", dpi=100)


if __name__ == "__main__":
    main()
