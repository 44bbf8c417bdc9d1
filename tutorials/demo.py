"""The tutorial in a few minutes, on scikit-learn's embedded digits: `make demo`.

Trains the VAE, MC dropout, Concrete dropout and Bayes dense, prints their logs as they come, and
ends with the figures and logs it wrote and a table of test accuracies.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table

from tutorials import (
    bayes_dense,
    commands,
    image_data,
    part1_vae,
    part2_mc_dropout,
    part3_concrete_dropout,
    run_files,
)

CLASSIFIERS: dict[str, tuple[ModuleType, int]] = {
    "MC dropout": (part2_mc_dropout, 30),
    "Concrete dropout": (part3_concrete_dropout, 30),
    "Bayes dense": (bayes_dense, 100),
}


def parser() -> argparse.ArgumentParser:
    parser = commands.parser("demo", "The tutorial in a few minutes, on embedded digits.")
    parser.add_argument("--quick", action="store_true", help="two epochs each, to see it work")
    return parser


def part_arguments(
    module: ModuleType, savedir: Path, n_epochs: int, quick: bool
) -> argparse.Namespace:
    args: argparse.Namespace = module.parser().parse_args([])
    args.data, args.savedir, args.n_epochs = "digits", savedir, 2 if quick else n_epochs
    return args


def demo(args: argparse.Namespace) -> None:
    console = Console(highlight=False)
    started = time.perf_counter()
    if args.savedir.exists():
        shutil.rmtree(args.savedir)
    console.rule("variational autoencoder")
    vae = part_arguments(part1_vae, args.savedir / "vae", 60, args.quick)
    part1_vae.train(vae)
    part1_vae.visualize(vae)
    accuracies: dict[str, dict[str, Any]] = {}
    for name, (module, n_epochs) in CLASSIFIERS.items():
        console.rule(name)
        savedir = args.savedir / name.lower().replace(" ", "_")
        part = part_arguments(module, savedir, n_epochs, args.quick)
        module.train(part)
        accuracies[name] = run_files.read_metrics(savedir)
        write_uncertainty(part)
    console.rule("what was written")
    for path in sorted(args.savedir.rglob("*")):
        if path.suffix in (".png", ".log"):
            console.print(str(path))
    console.print(accuracy_table(accuracies))
    console.print(f"{time.perf_counter() - started:.0f} seconds in all")


def write_uncertainty(args: argparse.Namespace) -> None:
    """Draws the class probabilities of sure, unsure and synthetic digits."""
    data, model = image_data.chosen(args), run_files.trained(args.savedir)
    figures = part2_mc_dropout.uncertainty_figures(model, data.x_test, data.y_test, args.seed)
    for name, figure in figures.items():
        run_files.write_figure(figure, args.savedir / f"uncertainty_{name}.png")


def accuracy_table(accuracies: dict[str, dict[str, Any]]) -> Table:
    """Test accuracies, naive and Monte Carlo."""
    images = {scores["test_images"] for scores in accuracies.values()}
    counts = " or ".join(map(str, sorted(images)))
    table = Table(title=f"accuracy on {counts} images beside those of training")
    for column in ("", "mean weights (naive)", "Monte Carlo, S = 100"):
        table.add_column(column, justify="left" if not column else "right")
    for name, scores in accuracies.items():
        naive, mc = scores["test_acc_naive"], scores["test_acc_mc"]
        table.add_row(name, f"{100 * naive:.1f} %", f"{100 * mc:.1f} %")
    return table


def main() -> None:
    commands.run(parser(), demo)


if __name__ == "__main__":
    main()
