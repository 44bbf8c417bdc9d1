"""Part IV: variational dropout, a noise level for every weight.

    python -m tutorials.part4_variational_dropout --mode train
    python -m tutorials.part4_variational_dropout --mode train --network lenet --split full
    python -m tutorials.part4_variational_dropout --mode test
    python -m tutorials.part4_variational_dropout --mode visualize

Each weight is w = theta (1 + sqrt(alpha) eps) with a learned alpha, under a log-uniform prior:

    loss = cent + KL / N,    KL = sum over the weights of a function of their log alpha.

With Molchanov et al.'s KL most alphas grow without bound; a weight at log alpha > 3 is noise, and
is dropped. LeNet-300-100 is trained as theirs is: all 60,000 images, log sigma^2 from -10, the KL
off for 5 epochs and then warmed up to the 20th.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.layers import VariationalDropout
from tfbdl.posteriors import MultiplicativeNormal
from tutorials import classifiers, commands, image_data, run_files

WARM_UP = {"tutorial": (5, 50), "lenet": (5, 20)}
"""Last epoch without Molchanov's KL, first with all of it; the second is the paper's."""


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("part4_variational_dropout", "Part IV: variational dropout.")
    parser.add_argument(
        "--network",
        choices=("tutorial", "lenet"),
        default="tutorial",
        help="784-500-500-10, or LeNet-300-100 with its KL warmed up and the rate decaying to 0",
    )
    parser.add_argument("--kl", choices=("kingma", "molchanov"), default="kingma", help="whose KL")
    parser.add_argument(
        "--initial_alpha", type=float, default=0.25, help="noise at the start, with Kingma's KL"
    )
    parser.add_argument(
        "--warm_up",
        type=int,
        nargs=2,
        metavar=("LAST", "FIRST"),
        help="last epoch without the KL, first with all of it; by default none with Kingma's, "
        f"{WARM_UP['tutorial']} and {WARM_UP['lenet']} (lenet) with Molchanov's, without which it "
        "prunes all before anything is learned",
    )
    parser.add_argument("--kl_weight", type=float, default=1.0, help="weight of the KL")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def network(
    units: tuple[int, ...], kl: str, num_data: int, seed: int, initial_alpha: float = 0.25
) -> keras.Model:
    """Dense ReLU layers of those widths and ten logits."""
    keras.utils.set_random_seed(seed)
    activations = ["relu"] * len(units) + [None]

    def layer(n: int, activation: str | None, seed: int) -> VariationalDropout:
        noise = MultiplicativeNormal(initial_alpha) if kl == "kingma" else None
        return VariationalDropout(
            n, activation, num_data=num_data, kl=kl, posterior=noise, seed=seed
        )

    return keras.Sequential(
        [
            keras.layers.Input((784,)),
            *(
                layer(n, activation, seed + i)
                for i, (n, activation) in enumerate(zip((*units, 10), activations, strict=True))
            ),
        ]
    )


def warm_up(args: argparse.Namespace) -> list[tfbdl.KLSchedule]:
    """The schedule of the KL, if there is one."""
    ends = args.warm_up or (WARM_UP[args.network] if args.kl == "molchanov" else None)
    return [tfbdl.KLAnnealing(*ends)] if ends else []


def tutorial_network(args: argparse.Namespace) -> keras.Model:
    """784-500-500-10, compiled with the Adam of the other parts."""
    model = network((500, 500), args.kl, args.N, args.seed, args.initial_alpha)
    return classifiers.compiled(model, classifiers.adam(args))


def lenet(args: argparse.Namespace) -> keras.Model:
    """LeNet-300-100, compiled with Adam at a rate that falls linearly from 1e-3 to 0."""
    model = network((300, 100), args.kl, args.N, args.seed)
    decay = keras.optimizers.schedules.PolynomialDecay(1e-3, classifiers.num_steps(args), 0.0)
    adam = keras.optimizers.Adam(decay, epsilon=classifiers.ADAM_EPSILON)
    return classifiers.compiled(model, adam)


def train(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = lenet(args) if args.network == "lenet" else tutorial_network(args)
    tfbdl.set_kl_weight(model, args.kl_weight)
    tfbdl.train(
        model,
        data.x_train,
        data.y_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=args.savedir,
        columns=["cent", "kl", "acc"],
        callbacks=warm_up(args),
        seed=args.seed,
    )
    run_files.save(model, args.savedir)
    test(args)


def test(args: argparse.Namespace) -> None:
    model = run_files.trained(args.savedir)
    classifiers.test(args, model)
    kept, total = prune(model)
    x, y = image_data.full_test(args)
    pruned = model.evaluate(x, y, batch_size=1000, verbose=0, return_dict=True)["acc"]
    dropped, compression = 100.0 * (1.0 - kept / total), total / max(kept, 1)
    print(
        f"test: {dropped:.2f} % of {total} weights at log alpha > 3: {compression:.1f} times fewer"
    )
    print(f"test: acc {pruned:f} (naive, without them, {len(x)} images)")
    run_files.write_metrics(
        args,
        dropped_percent=dropped,
        compression=compression,
        full_test_acc_pruned=pruned,
    )


def prune(model: keras.Model) -> tuple[int, int]:
    """Drops the weights at log alpha > 3; how many are left, and how many there are."""
    layers = [layer for layer in model.layers if isinstance(layer, VariationalDropout)]
    log_alphas = np.concatenate([np.ravel(layer.log_alpha) for layer in layers])
    for layer in layers:
        layer.prune()
    return int(np.sum(log_alphas <= 3.0)), log_alphas.size


def visualize(args: argparse.Namespace) -> None:
    model = run_files.trained(args.savedir)
    layers = [layer for layer in model.layers if isinstance(layer, VariationalDropout)]
    figure = noise_levels({f"layer {i}": layer for i, layer in enumerate(layers, start=1)}, args)
    run_files.write_figure(figure, args.savedir / "log_alpha.png")
    figure, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
    signal = np.asarray(layers[0].log_alpha).min(axis=1).reshape(28, 28)
    image = ax.imshow(signal, cmap="viridis_r")
    figure.colorbar(image, label=r"smallest $\log\,\alpha$ of the pixel's weights")
    ax.set_title("which pixels the first layer listens to")
    ax.set(xlabel="pixel column", ylabel="pixel row")
    run_files.write_figure(figure, args.savedir / "pixels.png")


def noise_levels(layers: dict[str, VariationalDropout], args: argparse.Namespace) -> Figure:
    """Log alpha of all weights, layer by layer, on the range that they have."""
    values = {name: np.ravel(layer.log_alpha) for name, layer in layers.items()}
    low = min(v.min() for v in values.values())
    high = max(v.max() for v in values.values())
    bins = np.linspace(low, high, 50).tolist()
    figure, axes = plt.subplots(
        len(values), 1, figsize=(7, 1.9 * len(values)), layout="constrained", sharex=True
    )
    for ax, (name, of) in zip(np.atleast_1d(axes), values.items(), strict=True):
        ax.hist(of, bins, weights=np.full(of.size, 1 / of.size), color="C0", log=True)
        dropped = 100 * layers[name].sparsity()
        ax.set_title(f"{name}: {of.size:,} weights, {dropped:.1f} % above 3", fontsize=10)
        ax.set_ylabel("share of weights")
        if high > 3.0:
            ax.axvline(3.0, color="black", linestyle="--", linewidth=1)
            ax.axvspan(3.0, high, color="0.92", zorder=0)
    start = f"; at the start {np.log(args.initial_alpha):.3f}" if args.kl == "kingma" else ""
    clipped = "; the last bins hold what is clipped at ±8" if max(-low, high) >= 8.0 else ""
    grey = "; grey: dropped" if high > 3.0 else ""
    ax.set_xlabel(rf"$\log\,\alpha$ of a weight{start}{grey}{clipped}")
    figure.suptitle(f"learned noise levels, {args.kl.capitalize()}'s KL")
    return figure


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
