"""The tutorial of a pretrained network, with random weights and images whose class is a colour."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tutorial_runs

from tutorials import processes
from tutorials.pretrained import __main__ as script
from tutorials.pretrained import (
    efficientnet_lite0,
    features,
    heads,
    pictures,
    problem,
    record,
    tails,
)
from tutorials.records import Record

RESULTS = Path(__file__).parents[2] / "results"
RNG = np.random.default_rng(0)
NUM, NUM_TRAIN = 60, 240


def coloured(number: int, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise around a colour for each class, 8 bits."""
    y = RNG.integers(0, num_classes, number)
    colours = np.array([[r, g, b] for r in (40, 210) for g in (40, 210) for b in (40, 210)])
    x = colours[y][:, None, None] + RNG.normal(0, 5, (number, 32, 32, 3))
    return np.clip(x, 0, 255).astype("uint8"), y


def images(*_: Any) -> problem.Images:
    x_train, y_train = coloured(NUM_TRAIN, 6)
    x_test, y_test = coloured(NUM, 6)
    unknown = coloured(NUM, 8)[0]
    return problem.Images(
        x_train, y_train, x_test, y_test, unknown, 255 - unknown, RNG.uniform(size=NUM)
    )


def classifier() -> keras.Model:
    keras.utils.set_random_seed(0)
    return efficientnet_lite0.classifier(32)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file like that of ImageNet's weights, of random ones that normalise some images."""
    model = classifier()
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(efficientnet_lite0.scaled(coloured(NUM, 8)[0]), training=True)
    arrays = {}
    for layer in model.layers:
        name, normal = efficientnet_lite0._name_in_file(layer.name) if layer.weights else ("", 0)
        fields = ["weight", "bias"]
        if normal:
            fields = ["weight", "bias", "running_mean", "running_var"]
        for field, array in zip(fields, layer.get_weights(), strict=False):
            if array.ndim == 4:
                depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
                turned = array.transpose((2, 3, 0, 1) if depthwise else (3, 2, 0, 1))
            else:
                turned = array.T
            arrays[f"{name}.{field}"] = turned
    path = tmp_path_factory.mktemp("weights") / "weights.npz"
    np.savez_compressed(path, **arrays)
    return path


@pytest.fixture(scope="module")
def body(weights: Path) -> tuple[keras.Model, problem.Scale]:
    """The body with these weights, made once."""
    return features.body(script.parser().parse_args(["--weights", str(weights), "--size", "32"]))


def test_the_architecture_is_that_of_the_weights(weights: Path) -> None:
    """4,652,008 parameters, as the paper's; a file gives each layer its own arrays again."""
    model = classifier()
    statistics = model.non_trainable_variables  # of normalisations, which the paper leaves out
    assert model.count_params() - sum(int(np.prod(v.shape)) for v in statistics) == 4_652_008
    efficientnet_lite0.load_weights(model, weights)
    with np.load(weights) as arrays:
        np.testing.assert_array_equal(model.get_layer("imagenet").kernel, arrays["_fc.weight"].T)
        given = arrays["_blocks.3._depthwise_conv.weight"]
        kernel = model.get_layer("block_3_depthwise").kernel
        np.testing.assert_array_equal(kernel[2, 1, 5, 0], given[5, 0, 2, 1])
        given = arrays["_blocks.3._expand_conv.weight"]
        kernel = model.get_layer("block_3_expand").kernel
        np.testing.assert_array_equal(kernel[0, 0, 2, 7], given[7, 2, 0, 0])
        spread = model.get_layer("stem_bn").moving_variance
        np.testing.assert_array_equal(spread, arrays["_bn0.running_var"])


def test_trunk_and_tail_are_the_body() -> None:
    network = efficientnet_lite0.body(32)
    trunk, tail = tails.cut(network)
    x = RNG.normal(size=(3, 32, 32, 3)).astype("float32")
    np.testing.assert_allclose(tail(trunk(x)), network(x), atol=1e-5)


def test_what_is_left_to_the_network() -> None:
    """Shares and errors by a loop over the pictures, the least certain handed over first."""
    given = images()
    p = {"test": RNG.dirichlet(np.ones(6), NUM), "unknown": RNG.dirichlet(np.ones(6), NUM)}
    shares, errors = pictures.handed_over(p, given)
    rows = [(q, q.argmax() != given.y_test[i]) for i, q in enumerate(p["test"])]
    rows += [(q, True) for q in p["unknown"][: NUM // 3]]
    rows.sort(key=lambda row: -np.sum(row[0] * np.log(row[0])))
    for number in (1, 10, len(rows)):
        kept = [wrong for _, wrong in rows[:number]]
        assert errors[number - 1] == pytest.approx(np.mean(kept))
        assert shares[number - 1] == pytest.approx(1 - number / len(rows))


def in_this_process(command: list[str], **_: Any) -> mock.Mock:
    """What `subprocess.run` does for `python -m tutorials.pretrained.record`, sooner."""
    assert command[2] == "tutorials.pretrained.record"
    tutorial_runs.run(record, *command[3:])
    return mock.Mock(returncode=0)


def test_all_methods_run_and_are_kept(
    weights: Path, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their answers and costs, which later ones replace where they are measured anew."""
    flags = ["--weights", str(weights), "--size", "32", "--N", str(NUM_TRAIN), "--batch_size", "20"]
    flags += ["--n_epochs", "60", "--tail_epochs", "2", "--K", "2", "--rank", "1"]
    flags += ["--S", "3", "--tail_S", "2", "--savedir", str(tmp_path)]
    run = partial(script.run, script.parser().parse_args(flags))
    monkeypatch.setattr(problem, "images", images)
    monkeypatch.setattr(features, "body", lambda _: body)
    monkeypatch.setattr(processes.subprocess, "run", in_this_process)
    with mock.patch.object(tails, "SWAG_RATE", 1e-3):
        run()
    records = record.file_of(tmp_path, costs=False).records()
    kept = {(of["part"], of["method"]): of for of in records}
    assert len(kept) == 13
    assert kept["head", "softmax"]["accuracy"] > 0.5
    for of in kept.values():
        assert 0 <= of["ece"] <= 1
        assert np.isfinite(of["nll"])
        assert of["peak_GB"] > 0.1
    figure = tmp_path / "handed_over.png"
    assert figure.stat().st_size > 10_000
    with mock.patch.object(record, "record", side_effect=AssertionError("trained again")):
        run()
        figure.unlink()
        (tmp_path / "tail,_SWAG.npz").unlink()
        run()
    assert not figure.exists(), "without the answers of one method"


def test_costs_are_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the scores, which stay; tails are trained on few batches, so that theirs stays too."""
    seen = []

    def method(args: argparse.Namespace) -> Callable[[np.ndarray, np.ndarray], keras.Model]:
        def make(x: np.ndarray, y: np.ndarray) -> keras.Model:
            seen.append((args.part, len(x), len(y)))
            model = keras.Sequential([keras.Input(x.shape[1:]), heads.classes(len(x))])
            return heads.compiled(args, model, num_data=len(x), epochs=1, rate=0.1)

        return make

    (tmp_path / "weights.npz").touch()
    flags = ["--weights", str(tmp_path / "weights.npz"), "--N", str(NUM_TRAIN)]
    flags += ["--batch_size", "20", "--savedir", str(tmp_path)]
    given = images()
    pixels = {name: getattr(given, name)[:, 0, 0] / 255 for name in ("train", *problem.ASKED)}
    for part in record.METHODS:
        path = features.path_of(script.parser().parse_args(flags), part)
        features.write_npz(path, given._replace(**pixels)._asdict())
    monkeypatch.setattr(record, "METHODS", {"head": ["softmax"], "tail": ["fine-tuned"]})
    monkeypatch.setattr(record, "method", method)
    monkeypatch.setattr(problem, "images", images)
    monkeypatch.setattr(processes.subprocess, "run", in_this_process)

    def rows(*more: str) -> list[Record]:
        args = script.parser().parse_args([*flags, *more])
        script.run(args)
        return script.rows(args)

    scored = rows()
    whole = [("head", NUM_TRAIN, NUM_TRAIN), ("tail", NUM_TRAIN, NUM_TRAIN)]
    assert seen == whole
    assert record.file_of(tmp_path, costs=False).records() == scored
    with (
        mock.patch.object(processes, "peak_bytes", return_value=123e9),
        mock.patch.object(record.time, "process_time", iter([0, 5, 7, 0, 5, 8]).__next__),
    ):
        head, tail = rows("--costs")
    assert seen == [*whole, whole[0], ("tail", 40, 40)]
    assert head == {**scored[0], "train_seconds": 5, "ask_seconds": 2, "peak_GB": 123}
    assert tail == {**scored[1], "ask_seconds": 3, "peak_GB": 123}
    assert record.file_of(tmp_path, costs=False).records() == scored
    table = (tmp_path / "scores.md").read_text()
    assert re.search(r"\| tail \| fine-tuned \|.* \| 3 \| 123\.00 \|", table)


def test_features_are_computed_once(
    weights: Path, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each part, number and size of images; all else stays as it is."""
    flags = ["--weights", str(weights), "--size", "32", "--savedir", str(tmp_path)]
    args, given = script.parser().parse_args(flags), images()
    network, scale = body
    monkeypatch.setattr(features, "body", lambda _: body)
    for part, below in {"head": network, "tail": tails.cut(network)[0]}.items():
        features.keep(args, part, given)
        with mock.patch.object(problem, "features", side_effect=AssertionError("computed again")):
            features.keep(args, part, given)
            others = script.parser().parse_args([*flags, "--N", "7"])
            with pytest.raises(AssertionError, match="again"):
                features.keep(others, part, given)
        kept = features.kept(args, part)
        expected = below(scale(given.unknown))
        np.testing.assert_allclose(kept.unknown, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(kept.y_train, given.y_train)
        np.testing.assert_array_equal(kept.people, given.people)


def test_the_page_has_the_table_of_the_records(tmp_path: Path) -> None:
    flags = ["--weights", "a file", "--savedir", str(RESULTS / "pretrained")]
    pictures.table(tmp_path, script.rows(script.parser().parse_args(flags)))
    table = (tmp_path / "scores.md").read_text()
    assert table == (RESULTS / "pretrained" / "scores.md").read_text()
    assert f"\n\n{table}\n" in (RESULTS / "pretrained.md").read_text()
