"""The comparison of methods, shortened, on the embedded digits."""

from __future__ import annotations

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
from tutorials.uncertainty import methods, record
from tutorials.uncertainty.run import Run

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
    with mock.patch.object(methods, "SWAG_EPOCHS", 3):
        answering = methods.METHODS[name](run)
    assert run.seconds > run.now - 0.01 > 0
    plain = isinstance(answering, keras.Model) and not tfbdl.predictive.is_random(answering)
    assert plain == (name == "plain")
    p = tfbdl.predict(answering, run.x_test[:40], 0 if plain else 3, verbose=0).mean
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-5)
    assert np.ptp(p, axis=0).max() > 1e-4


def test_a_note_counts_all_epochs(tmp_path: Path) -> None:
    """A training that is stopped half-way takes as long as its second half says, twice."""
    flags = ["--N", "300", "--batch_size", "50", "--n_epochs", "4", "--K", "2"]
    args = record.shared("uncertainty").parse_args(flags)
    args.data, args.savedir = "digits", tmp_path
    folder = tmp_path / "runs" / "digits_0" / "ensemble" / "member_0"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text("train: epoch 1\ntrain: epoch 2\n")
    run = Run(args)
    run.fit(lambda x, y, **settings: sum(i * i for i in range(10**6)), "ensemble/member_0")
    assert run.seconds == pytest.approx(2 * run.now, abs=0.01)
