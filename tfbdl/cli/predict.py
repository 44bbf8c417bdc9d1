"""``tfbdl predict``: predictions and their uncertainty for the arrays of a file."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tfbdl.cli import values
from tfbdl.cli.errors import NotSaved
from tfbdl.cli.model import load_model
from tfbdl.npz_file import read_npz, write_arrays

if TYPE_CHECKING:
    import keras

    from tfbdl.predictive import Prediction

_EXAMPLE = """\
example:
  tfbdl predict model.keras test.npz --samples 100 --output answers.npz

FILE.npz holds the inputs as the array "x", or is a file with one array; for a model with several
inputs, an array for each by its name. The output file has mean and stddev, and for classes entropy
(nats, total) and mutual_information (nats, epistemic); of several outputs each begins with the
output's name, as in digit_mean. The table shows the examples that the model
is least sure of. What the outputs mean is told by the loss that the model was compiled with.
"""
_NO_LIKELIHOOD = (
    "No loss of the model says what its outputs mean: mean and stddev are those of the outputs "
    "over the functions, without the noise of y. Compile it with its loss before you save it."
)


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``predict`` to the parser."""
    parser = subparsers.add_parser(
        "predict",
        help="predict with uncertainty",
        description="Predict the inputs of a file, with drawn functions of a saved model.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", type=values.path, metavar="MODEL.keras", help="what model.save wrote"
    )
    parser.add_argument("inputs", type=values.path, metavar="FILE.npz", help="the inputs")
    parser.add_argument(
        "--samples", type=values.count, default=100, help="drawn functions (default: 100)"
    )
    parser.add_argument("--seed", type=values.seed, default=0, help="of the functions (default: 0)")
    parser.add_argument(
        "--output",
        type=values.path,
        metavar="OUT.npz",
        help="where to write (default: FILE_predicted.npz beside the inputs)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    parser.set_defaults(run=_predict)


def _predict(args: argparse.Namespace) -> int:
    arrays = read_inputs(args.inputs)
    output = args.output or args.inputs.with_name(f"{args.inputs.stem}_predicted.npz")
    if output.exists() and not args.force:
        raise NotSaved(f"{output}: already exists; add --force or give another --output")
    if not output.parent.is_dir():
        raise NotSaved(f"{output}: cannot write, its folder does not exist; give another --output")
    model = load_model(args.model, compiled=True)
    from tfbdl.predictive import predict  # noqa: PLC0415 (slow)

    predictions = predict(model, _inputs(model, arrays, args.inputs), args.samples, seed=args.seed)
    of_outputs = _by_output(predictions)
    answers = {name: _answers(prediction) for name, prediction in of_outputs.items()}
    try:
        write_arrays(output, {f"{o}{k}": array for o in answers for k, array in answers[o].items()})
    except OSError as error:
        raise NotSaved(f"{output}: {error.strerror}; give another --output") from None
    console = Console(highlight=False)
    for name, prediction in of_outputs.items():
        of_examples = _of_examples(answers[name])
        by = next(iter(of_examples))
        title = f"{len(prediction.mean):,} examples, the least sure first (by {name}{by})"
        console.print(title, markup=False)
        console.print(_table(answers[name], of_examples))
        if prediction.likelihood is None:
            console.print(_NO_LIKELIHOOD)
    console.print(f"output: {output}", markup=False, soft_wrap=True)
    return 0


def _by_output(predictions: Any) -> dict[str, Prediction]:
    """The predictions of the outputs by what their arrays' names begin with."""
    import keras  # noqa: PLC0415 (slow)

    from tfbdl.likelihoods.joint import names_of  # noqa: PLC0415 (slow)

    if not keras.tree.is_nested(predictions):
        return {"": predictions}
    names = (f"{name}_" for name in names_of(predictions))
    return dict(zip(names, keras.tree.flatten(predictions), strict=True))


def _answers(prediction: Prediction) -> dict[str, np.ndarray]:
    answers = {"mean": prediction.mean, "stddev": prediction.stddev}
    if prediction.likelihood is not None and hasattr(prediction.likelihood, "from_logits"):
        answers["entropy"] = prediction.entropy
        answers["mutual_information"] = prediction.mutual_information
    if prediction.mask is not None:
        answers["mask"] = prediction.mask
    return answers


def read_inputs(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the file by name, at least one."""
    if not path.exists():
        raise ValueError(
            f"{path} does not exist; give the inputs, as numpy.savez(path, x=x) writes"
        )
    values.check_regular(path, "write the inputs to one with numpy.savez(path, x=x)")
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is no .npz file, or is cut off; write it with numpy.savez(path, x=x)"
        )
    try:
        arrays = read_npz(path, dict, compressed=True)
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(f"{path} holds Python objects; give arrays of numbers") from None
        raise ValueError(f"{path} is damaged ({error}); write it again") from None
    if not arrays:
        raise ValueError(f"{path} holds no array; write it with numpy.savez(path, x=x)")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.itemsize == 0:
            raise ValueError(f"{path} has {name}, which is no array; give arrays of numbers")
    return arrays


def _inputs(model: keras.Model, arrays: dict[str, np.ndarray], path: Path) -> Any:
    """The inputs in the structure of the model's inputs."""
    inputs = getattr(model, "inputs", None) or ()
    if len(inputs) > 1:
        import keras  # noqa: PLC0415 (slow)

        names = [tensor.name for tensor in inputs]
        if not set(names) <= set(arrays):
            raise ValueError(
                f"{path} has arrays {', '.join(arrays)}; this model's inputs are {', '.join(names)}"
            )
        return keras.tree.pack_sequence_as(model.input, [arrays[name] for name in names])
    if "x" not in arrays and len(arrays) != 1:
        raise ValueError(f"{path} has arrays {', '.join(arrays)}; name the inputs x")
    return arrays.get("x", next(iter(arrays.values())))


def _table(answers: dict[str, np.ndarray], of_examples: dict[str, np.ndarray]) -> Table:
    """The five examples that are least sure."""
    ranking = next(iter(of_examples.values()))
    mean, columns = answers["mean"], ["mean", "stddev"]
    if "entropy" in of_examples:
        answers, columns = answers | of_examples, list(of_examples)
        if mean.ndim == 2 and (mean.shape[1] == 1 or np.allclose(mean.sum(axis=1), 1.0, atol=1e-3)):
            columns = ["class", "probability", *columns]
            p = mean if mean.shape[1] > 1 else np.concatenate([1.0 - mean, mean], axis=1)
            answers = {**answers, "class": p.argmax(axis=1), "probability": p.max(axis=1)}
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for column in ("example", *columns):
        table.add_column(column.replace("_", " "), justify="right")
    for i in np.argsort(-ranking)[:5]:
        table.add_row(str(i), *(_cell(answers[column][i]) for column in columns))
    return table


def _of_examples(answers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """How unsure each example is, shape (N,), first by what it is ranked.

    Means over the positions that count, or the largest standard deviation at one of them.
    """

    def rows(name: str) -> np.ma.MaskedArray:
        values = answers[name]
        counts = answers.get("mask", np.ones(len(values), bool))
        counts = counts.reshape(counts.shape + (1,) * (values.ndim - counts.ndim))
        masked = np.ma.array(values, mask=~np.broadcast_to(counts, values.shape))
        return masked.reshape(len(values), -1)

    if "entropy" not in answers:
        return {"stddev": rows("stddev").max(axis=1).filled(0.0)}
    names = ("entropy", "mutual_information")
    return {name: rows(name).mean(axis=1).filled(0.0) for name in names}


def _cell(value: np.ndarray) -> str:
    if value.ndim:
        return np.array2string(value, precision=4, threshold=4)
    return str(value) if value.dtype.kind in "iu" else f"{value:.3f}"
