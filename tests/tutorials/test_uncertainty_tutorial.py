"""The comparison of methods, shortened, on the embedded digits."""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import pytest
import tutorial_runs

import tfbdl
from tutorials import processes
from tutorials.records import RecordFile
from tutorials.uncertainty import __main__ as uncertainty
from tutorials.uncertainty import methods, prediction_sets, record
from tutorials.uncertainty.run import Run, Seconds

FIGURES = ("turned", "costs", "unknown", "reliability", "risk_coverage")


def test_table(tmp_path: Path) -> None:
    """Digits stand for unknown images, which nobody can tell from digits."""
    names = ("plain", "last_layer_laplace", "deep_ensemble")
    flags = "--sets digits --seeds 1 --N 1000 --batch_size 50 --n_epochs 8 --K 2 --S 3 --every 1"
    where = ("--savedir", str(tmp_path))
    tutorial_runs.run(uncertainty, *flags.split(), *where, "--methods", *names)
    records = {
        r["method"]: r for r in RecordFile(tmp_path / "uncertainty.jsonl", "method").records()
    }
    assert set(records) == set(names)
    for of in records.values():
        turned = of["turned"]
        assert turned["accuracy"][0] > turned["accuracy"][2] + 0.2
        assert turned["nll"][0] < turned["nll"][2]
        assert of["auroc"] == pytest.approx(0.5)
        assert of["error_auroc"] > 0.6
    of_two = records["deep_ensemble"]["train_seconds"]
    assert of_two > 1.2 * records["plain"]["train_seconds"], "of both members"
    assert set(FIGURES) <= {path.stem for path in tmp_path.glob("*.png")}
    assert len((tmp_path / "uncertainty.md").read_text().split("| plain |")) == 2


def test_records_of_other_flags_are_refused(tmp_path: Path) -> None:
    args = uncertainty.parser().parse_args(["--savedir", str(tmp_path)])
    key = {"data": "digits", "seed": 0, "method": "plain"}
    record.file_of(args).kept(key, record.settings(args), dict)
    with mock.patch.object(processes, "run", side_effect=AssertionError("made again")):
        uncertainty.made("digits", 0, "plain", args)
        with pytest.raises(AssertionError, match="made again"):
            uncertainty.made("digits", 1, "plain", args)
        args.S += 1
        with pytest.raises(ValueError, match="was made with --S 20, not 21"):
            uncertainty.made("digits", 0, "plain", args)


@pytest.mark.parametrize("name", list(methods.METHODS))
def test_every_method(name: str, tmp_path: Path) -> None:
    """Each is trained for a moment, and its answers are probabilities that tell images apart."""
    flags = ["--N", "300", "--batch_size", "50", "--n_epochs", "2", "--K", "2", "--S", "3"]
    args = record.shared("uncertainty").parse_args(flags)
    args.data, args.savedir = "digits", tmp_path
    run = Run(args)
    as_of_all = methods.CURVATURE * 50_000 / 300
    with (
        mock.patch.object(methods, "SWAG_EPOCHS", 3),
        mock.patch.object(methods, "CURVATURE", as_of_all),
    ):
        answering = methods.METHODS[name](run)
    assert run.now > run.seconds > 0
    plain = isinstance(answering, keras.Model) and not tfbdl.predictive.is_random(answering)
    assert plain == (name == "plain")
    p = tfbdl.predict(answering, run.x_test[:40], 0 if plain else 3, verbose=0).mean
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-5)
    assert np.ptp(p, axis=0).max() > 1e-4


def test_seconds_count_all_epochs(tmp_path: Path) -> None:
    """A training that goes on counts all epochs, as do one that has ended, and two together."""
    x, y = np.zeros((20, 3), "float32"), np.zeros((20, 1), "float32")

    def total(epochs: int, *folders: str) -> float:
        seconds = Seconds()
        for folder in folders:
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            where = {"savedir": tmp_path / folder, "callbacks": [seconds], "verbose": 0}
            tfbdl.train(model, x, y, epochs=epochs, **where)
        return seconds.total

    begun, other = total(2, "one"), total(2, "other")
    assert total(2, "one", "other") == begun + other > begun > 0
    assert total(4, "one") > begun


def test_records_of_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    """Not even where no record of the same method and seed is asked for."""
    flags = ["--sets", "digits", "--savedir", str(tmp_path)]
    args = uncertainty.parser().parse_args([*flags, "--n_epochs", "3"])
    key = {"data": "digits", "seed": 0, "method": "plain"}
    record.file_of(args).kept(key, record.settings(args), dict)
    with pytest.raises(SystemExit, match="made with --n_epochs 3, not 2; name another --savedir"):
        tutorial_runs.run(uncertainty, *flags, "--n_epochs", "2", "--methods", "ivon")


def test_the_precision_of_sngp_is_that_of_whole_passes(tmp_path: Path) -> None:
    """As many examples have gone by at the end as are counted in a pass, and none since."""
    flags = record.shared("uncertainty").parse_args([])
    assert flags.N % flags.batch_size == 0
    args = ["--N", "300", "--batch_size", "50", "--n_epochs", "2", "--savedir", str(tmp_path)]
    flags = record.shared("uncertainty").parse_args(args)
    flags.data = "digits"
    head = methods.sngp(Run(flags)).layers[-1]
    assert head.root.seen.numpy() == 0
    assert np.abs(head.root.root.numpy() - np.eye(head.num_features)).max() > 0.01


class Exchanged(Run):
    """Held-out and test digits from both, whose writers are others."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        x = np.concatenate([self.x_held_out, self.x_test])
        y = np.concatenate([self.y_held_out, self.y_test])
        order = np.random.default_rng(0).permutation(len(y))
        (self.x_held_out, self.x_test), (self.y_held_out, self.y_test) = (
            np.array_split(of[order], 2) for of in (x, y)
        )


def test_sets_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrated, they hold the class as often as asked for while digits stand upright."""
    monkeypatch.setattr(prediction_sets, "Run", Exchanged)
    flags = "--sets digits --seeds 1 --N 1000 --batch_size 50 --n_epochs 8 --coverage 0.9"
    tutorial_runs.run(prediction_sets, *flags.split(), "--savedir", str(tmp_path))
    (of,) = RecordFile(tmp_path / "prediction_sets.jsonl", "data", "seed").records()
    for name in prediction_sets.METHODS:
        held = of[name]["held"]
        assert held[0] == pytest.approx(0.9, abs=0.06)
        assert held[-1] < 0.6
    p = np.array([[0.6, 0.1, 0.3]])
    assert prediction_sets.own(p, 0.5).tolist() == [[True, False, False]]
    assert prediction_sets.own(p, 0.7).tolist() == [[True, False, True]]
    assert "| RAPS | " in (tmp_path / "prediction_sets.md").read_text()
    assert (tmp_path / "prediction_sets.png").stat().st_size > 5000
