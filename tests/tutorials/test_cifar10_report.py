"""The table of CIFAR-10, from runs that are made up: each number against its definition."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tfbdl.training.log import epoch_header, epoch_line
from tutorials.cifar10 import answers, people, predictions, problem, report, shift

N, M = 60, 40
RNG = np.random.default_rng(0)


def some(number: int = N) -> np.ndarray:
    """Probabilities that float16 holds exactly, so that files lose nothing."""
    return RNG.multinomial(64, np.full(10, 0.1), number).astype("float32") / 64


Y = RNG.integers(0, 10, N)
COUNTS = RNG.multinomial(50, np.full(10, 0.1), N)
HMC = some(M)


def leave(
    savedir: Path,
    run: tuple[str, int],
    given: Mapping[int, np.ndarray],
    seconds: Sequence[float],
    *,
    kept: Sequence[int] = (),
    **settings: Any,
) -> None:
    """What a run leaves: its settings, its log, its predictions and its samples."""
    name, number = run
    folder = savedir / f"{name}_{number}"
    defaults = {"name": None, "number": number, "command": name, "epochs": len(seconds)}
    flags = argparse.Namespace(**{**defaults, **settings})
    answers.write_settings(folder, flags)
    lines = [
        epoch_header(i, 0.1) + epoch_line(i, s, {"loss": 1.0})
        for i, s in enumerate(seconds, start=1)
    ]
    (folder / "train.log").write_text("".join(lines))
    for epoch, p in given.items():
        predictions.keep(folder / "predictions", epoch, p)
    (folder / "samples").mkdir()
    for epoch in kept:
        (folder / "samples" / f"sample_{epoch:04d}.npz").touch()


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    """Three modes, SWAG around two of them, and two chains that keep two of four epochs."""
    modes = [some() for _ in range(3)]
    for i, p in enumerate(modes):
        leave(tmp_path, ("map", i), {2: some(), 4: p}, [3600.0] * 4)
    around = [some() for _ in range(2)]
    for i, p in enumerate(around):
        leave(tmp_path, ("swag", i), {2: p}, [1800.0] * 2)
    chains = [{e: some() for e in range(1, 5)} for _ in range(2)]
    for i, given in enumerate(chains):
        how = {"command": "sampler", "name": "SGHMC"}
        leave(tmp_path, ("SGHMC", i), given, [360.0] * 4, kept=(2, 4), **how)
    return {"savedir": tmp_path, "modes": modes, "around": around, "chains": chains}


def test_modes_and_their_ensemble(made: dict[str, Any]) -> None:
    curves = answers.curves(made["savedir"])
    assert [a.epochs for a in curves["MAP"]] == [2, 4]
    assert [a.hours for a in curves["MAP"]] == [2.0, 4.0]
    ensemble = curves["deep ensemble"]
    assert [(a.epochs, a.hours) for a in ensemble] == [(4, 4.0), (8, 8.0), (12, 12.0)]
    for k, answer in enumerate(ensemble, start=1):
        np.testing.assert_allclose(answer.p, np.mean(made["modes"][:k], axis=0), atol=1e-6)


def test_what_starts_at_a_mode_has_cost_it_too(made: dict[str, Any]) -> None:
    curves = answers.curves(made["savedir"])
    assert [(a.epochs, a.hours) for a in curves["SWAG"]] == [(6, 5.0)]
    assert [(a.epochs, a.hours) for a in curves["MultiSWAG"]] == [(6, 5.0), (12, 10.0)]
    mean = np.mean(made["around"], axis=0)
    np.testing.assert_allclose(curves["MultiSWAG"][-1].p, mean, atol=1e-6)


def test_a_chain_from_a_mode_has_cost_it_too(made: dict[str, Any]) -> None:
    how = {"command": "sampler", "name": "SGLD", "from_mode": True}
    given = {e: some() for e in range(1, 3)}
    leave(made["savedir"], ("SGLD", 1), given, [360.0] * 2, kept=(1, 2), **how)
    curve = answers.curves(made["savedir"])["SGLD"]
    assert [(a.epochs, round(a.hours, 6)) for a in curve] == [(5, 4.1), (6, 4.2)]
    np.testing.assert_allclose(curve[1].p, (given[1] + given[2]) / 2, atol=1e-6)


def test_chains_are_means_over_what_they_keep(made: dict[str, Any]) -> None:
    curve = answers.curves(made["savedir"])["SGHMC"]
    first, second = made["chains"]
    assert [(a.epochs, round(a.hours, 6)) for a in curve] == [(4, 0.4), (8, 0.8)]
    np.testing.assert_allclose(curve[0].p, (first[2] + second[2]) / 2, atol=1e-6)
    mean = (first[2] + second[2] + first[4] + second[4]) / 4
    np.testing.assert_allclose(curve[1].p, mean, atol=1e-6)


def test_scores_by_their_definitions() -> None:
    p = (some() + 1e-3) / 1.01
    accuracy, agreement, distance, nll, _ = report.scores(p, Y, HMC)
    assert accuracy == np.mean(p.argmax(1) == Y)
    assert agreement == np.mean(p[:M].argmax(1) == HMC.argmax(1))
    np.testing.assert_allclose(distance, 0.5 * np.abs(p[:M] - HMC).sum(1).mean(), rtol=1e-5)
    np.testing.assert_allclose(nll, -np.log(p[np.arange(N), Y]).mean(), rtol=1e-5)


def test_people_by_loops() -> None:
    p = (some() + 0.01) / 1.1
    expected = 0.0
    for row, counts in zip(p, COUNTS, strict=True):
        expected -= sum(c / 50 * np.log(q) for q, c in zip(row, counts, strict=True)) / N
    np.testing.assert_allclose(people.cross_entropy(p, COUNTS), expected, rtol=1e-6)
    assert people.rank_correlation(people.shares(COUNTS), COUNTS) == pytest.approx(1.0)
    assert abs(people.rank_correlation(p, COUNTS)) < 0.5


def test_the_report(made: dict[str, Any], tmp_path: Path) -> None:
    """Files are there, and the table's rows are in the order of the distance from HMC."""
    of_kinds = {kind: np.stack([some() for _ in range(5)]) for kind in ("noise", "blur")}
    np.savez(predictions.shifted_file(made["savedir"] / "map_0", 4), **of_kinds)
    args = argparse.Namespace(savedir=made["savedir"], results=tmp_path / "results")
    with (
        mock.patch.multiple(
            problem,
            labels=lambda: Y,
            test_images=lambda: RNG.integers(0, 255, (N, 8, 8, 3), "uint8"),
            SHIFTED=N,
        ),
        mock.patch.object(report, "cifar10_hmc_probabilities", return_value=HMC),
        mock.patch.object(report, "cifar10_human_counts", return_value=COUNTS),
    ):
        report.report(args)
    lines = (tmp_path / "results" / "table.md").read_text().splitlines()[2:7]
    distances = [float(line.split("|")[4]) for line in lines]
    assert distances == sorted(distances)
    names = {line.split("|")[1].strip() for line in lines}
    assert names == {"MAP", "deep ensemble", "SWAG", "MultiSWAG", "SGHMC"}
    with np.load(tmp_path / "results" / "probabilities" / "deep_ensemble.npz") as file:
        np.testing.assert_allclose(file["p"], np.mean(made["modes"], axis=0), atol=1e-3)
    made_files = {p.name for p in (tmp_path / "results").glob("*")}
    figures = {"approach.png", "between.png", "people.png", "shift.png"}
    assert figures | {"people.md", "shift.md"} <= made_files
    accuracies = (tmp_path / "results" / "shift.md").read_text().splitlines()[4].split("|")[2:7]
    expected = [
        np.mean([np.mean(p[i].argmax(1) == Y) for p in of_kinds.values()]) for i in range(5)
    ]
    np.testing.assert_allclose([float(a) for a in accuracies], expected, atol=6e-4)


def test_methods_under_shift(made: dict[str, Any]) -> None:
    """An ensemble is the mean of its members; a mode is the first of them.

    Answers from before a run went on do not count.
    """
    for i in range(3):
        for epoch, value in ((2, 1.0), (4, i / 8)):
            path = predictions.shifted_file(made["savedir"] / f"map_{i}", epoch)
            np.savez(path, noise=np.full((5, 2, 10), value, np.float16))
    shifted = shift.shifted(made["savedir"])
    np.testing.assert_array_equal(shifted["MAP"]["noise"], 0.0)
    np.testing.assert_array_equal(shifted["deep ensemble"]["noise"], 1 / 8)


def test_settings_say_how_a_run_was_made(made: dict[str, Any]) -> None:
    settings = json.loads((made["savedir"] / "SGHMC_1" / "run.json").read_text())
    assert settings == {"name": "SGHMC", "number": 1, "command": "sampler", "epochs": 4}
