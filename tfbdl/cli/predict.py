"""``tfbdl predict``: predictions and their uncertainty for the arrays of a file."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tfbdl.cli.errors import NotSaved
from tfbdl.cli.model import load_model

_EXAMPLE = """\
example:
  tfbdl predict model.keras test.npz --samples 100 --output answers.npz

FILE.npz holds the inputs as the array "x", or is a file with one array. The output file has
mean and stddev, and for classes entropy (nats, total) and mutual_information (nats, epistemic).
The table shows the examples that the model is least sure of.
"""


def add_command(subparsers: argparse._SubParsersAction) -> None:
    """Add ``predict`` to the parser."""
    parser = subparsers.add_parser(
        "predict",
        help="predict with uncertainty",
        description="Predict the inputs of a file, with drawn functions of a saved model.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.keras", help="what model.save wrote")
    parser.add_argument("inputs", type=Path, metavar="FILE.npz", help="the inputs")
    parser.add_argument("--samples", type=int, default=100, help="drawn functions (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the functions (default: 0)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="OUT.npz",
        help="where to write (default: FILE_predicted.npz beside the inputs)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    parser.set_defaults(run=_predict)


def _predict(args: argparse.Namespace) -> int:
    x = _read(args.inputs)
    output = args.output or args.inputs.with_name(f"{args.inputs.stem}_predicted.npz")
    if output.exists() and not args.force:
        raise NotSaved(f"{output}: already exists; add --force or give another --output")
    model = load_model(args.model)
    from tfbdl.predictive import predict  # noqa: PLC0415 (slow)

    found = predict(model, x, args.samples, seed=args.seed)
    answers = {"mean": found.mean, "stddev": found.stddev}
    ranking, name = found.stddev.reshape(len(x), -1).max(axis=1), "stddev"
    if found.likelihood is not None and hasattr(found.likelihood, "from_logits"):
        answers |= {"entropy": found.entropy, "mutual_information": found.mutual_information}
        ranking, name = found.entropy, "entropy"
    try:
        with open(output, "wb") as file:
            np.savez(file, allow_pickle=False, **answers)
    except OSError as error:
        raise NotSaved(f"{output}: cannot write, {error.strerror}; give another --output") from None
    console = Console(highlight=False)
    console.print(f"{len(x):,} examples, the least sure first (by {name})")
    console.print(_table(answers, ranking))
    console.print(f"output: {output}", markup=False, soft_wrap=True)
    return 0


def _read(path: Path) -> np.ndarray:
    if path.exists() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is no .npz file; write it with numpy.savez(path, x=x)")
    with np.load(path, allow_pickle=False) as file:
        names = list(file)
        if "x" not in names and len(names) != 1:
            raise ValueError(f"{path} has arrays {', '.join(names)}; name the inputs x")
        return file["x" if "x" in names else names[0]]


def _table(answers: dict[str, np.ndarray], ranking: np.ndarray) -> Table:
    """The five examples that are least sure."""
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    classes = "entropy" in answers
    columns = ("example", "class", "probability", "entropy", "mutual information")
    for column in columns if classes else ("example", "mean", "stddev"):
        table.add_column(column, justify="right")
    for i in np.argsort(-ranking)[:5]:
        if classes:
            p = np.atleast_1d(answers["mean"][i])
            top = int(p.argmax()) if p.size > 1 else int(p[0] > 0.5)
            cells = [str(top), f"{max(p.max(), 1 - p.max() if p.size == 1 else 0):.3f}"]
            cells += [f"{answers[key][i]:.3f}" for key in ("entropy", "mutual_information")]
        else:
            cells = [np.array2string(answers[key][i], precision=4, threshold=4) for key in answers]
        table.add_row(str(i), *cells)
    return table
