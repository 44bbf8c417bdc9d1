"""The table of CIFAR-10, from runs that are made up: each number against its definition."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.stats

from tutorials.cifar10 import answers, goals, limits, people, predictions, problem, report, shift

N, M = 60, 40
RNG = np.random.default_rng(0)


def some(number: int = N) -> np.ndarray:
    """Probabilities that float16 holds exactly, so that files lose nothing."""
    return RNG.multinomial(64, np.full(10, 0.1), number).astype("float32") / 64


Y = RNG.integers(0, 10, N)
COUNTS = RNG.multinomial(50, np.full(10, 0.1), N)
HMC = some(M)


def leave(
    results: Path,
    run: tuple[str, int],
    given: Mapping[int, Any],
    seconds: Sequence[float],
    **settings: Any,
) -> None:
    """What a run leaves: its settings, its costs and its predictions."""
    name, number = run
    folder = results / f"{name}_{number}"
    defaults = {"name": None, "number": number, "command": name, "epochs": len(seconds)}
    if name in answers.FROM_MODES:
        defaults["mode"] = "map"
    args = argparse.Namespace(results=results, savedir=results, **{**defaults, **settings})
    answers.begin(args)
    for i, s in enumerate(seconds, start=1):
        predictions.note(folder / predictions.COSTS, i, s)
    for epoch, p in given.items():
        arrays = p if isinstance(p, dict) else {"p": p}
        predictions.write(predictions.predictions_file(folder, epoch), arrays)


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    """Three modes, SWAG around two of them, and two chains of two samples."""
    modes = [some() for _ in range(3)]
    for i, p in enumerate(modes):
        leave(tmp_path, ("map", i), {2: some(), 4: p}, [3600.0] * 4)
    around = [some() for _ in range(2)]
    for i, p in enumerate(around):
        leave(tmp_path, ("swag", i), {2: p}, [1800.0] * 2)
    chains = [{e: some() for e in (2, 4)} for _ in range(2)]
    for i, given in enumerate(chains):
        leave(tmp_path, ("sghmc", i), given, [360.0] * 4)
    return {"results": tmp_path, "modes": modes, "around": around, "chains": chains}


def test_modes_and_their_ensemble(made: dict[str, Any]) -> None:
    curves = answers.curves(made["results"])
    assert [a.epochs for a in curves["MAP"]] == [2, 4]
    assert [a.hours for a in curves["MAP"]] == [2.0, 4.0]
    ensemble = curves["deep ensemble"]
    assert [(a.epochs, a.hours) for a in ensemble] == [(4, 4.0), (8, 8.0), (12, 12.0)]
    for k, answer in enumerate(ensemble, start=1):
        np.testing.assert_allclose(answer.said.p, np.mean(made["modes"][:k], axis=0), atol=1e-6)


def test_what_starts_at_a_mode_has_cost_it_too(made: dict[str, Any]) -> None:
    curves = answers.curves(made["results"])
    assert [(a.epochs, a.hours) for a in curves["SWAG"]] == [(6, 5.0)]
    assert [(a.epochs, a.hours) for a in curves["MultiSWAG"]] == [(6, 5.0), (12, 10.0)]
    mean = np.mean(made["around"], axis=0)
    np.testing.assert_allclose(curves["MultiSWAG"][-1].said.p, mean, atol=1e-6)


def test_a_mode_that_is_missing_is_named(made: dict[str, Any]) -> None:
    leave(made["results"], ("mean_field", 7), {1: some()}, [1.0])
    with pytest.raises(FileNotFoundError, match=r"map_7 is missing, .* train it first$"):
        answers.curves(made["results"])


def test_a_start_of_another_name_has_its_cost(made: dict[str, Any]) -> None:
    leave(made["results"], ("short", 4), {3: some()}, [7200.0] * 3, command="map", name="short")
    leave(made["results"], ("swag", 4), {2: some()}, [3600.0] * 2, mode="short")
    run = next(r for r in answers.runs(made["results"]) if r.folder.name == "swag_4")
    assert run.spent(2) == (5, 8.0)


def test_variants_have_rows_of_their_own(made: dict[str, Any]) -> None:
    for i in range(2):
        how = {"command": "map", "name": "longer"}
        leave(made["results"], ("longer", i), {5: some()}, [1.0] * 5, **how)
    curves = answers.curves(made["results"])
    assert [a.epochs for a in curves["deep ensemble"]] == [4, 8, 12]
    assert [a.epochs for a in curves["longer"]] == [5]
    assert [a.epochs for a in curves["deep ensemble, longer"]] == [5, 10]


def test_members_count_when_they_have_ended(made: dict[str, Any]) -> None:
    leave(made["results"], ("map", 3), {2: some()}, [1.0] * 2, epochs=4)
    assert len(answers.curves(made["results"])["deep ensemble"]) == 3


def test_several_kinds_take_turns(made: dict[str, Any]) -> None:
    """Members are trainings that have ended and began at no other: no chain, no SWAG."""
    results, given = made["results"], [some() for _ in range(3)]
    leave(results, ("mc_dropout", 0), {3: given[0]}, [1.0] * 3)
    leave(results, ("mc_dropout", 1), {3: some()}, [1.0] * 3, epochs=4)
    leave(results, ("mean_field", 0), {1: some()}, [1.0], mode=answers.NO_MODE)
    leave(results, ("mean_field", 1), {2: given[1]}, [1.0] * 2, start="mean_field_0")
    leave(results, ("mean_field", 2), {1: some()}, [1.0])
    ensembles = dict(answers.ensembles(results))
    assert [run.folder.name for run in ensembles[answers.MIXED]] == [
        "map_0",
        "mc_dropout_0",
        "mean_field_1",
        "map_1",
        "map_2",
    ]
    assert list(ensembles) == ["deep ensemble", "MultiSWAG", answers.MIXED]
    curve = answers.curves(results)[answers.MIXED]
    assert [a.epochs for a in curve] == [4, 7, 10, 14, 18]
    members = [made["modes"][0], given[0], given[1]]
    np.testing.assert_allclose(curve[2].said.p, np.mean(members, axis=0), atol=1e-6)


def test_goals_by_hand() -> None:
    """The cheapest answer that reaches both numbers, or what lacks least within the epochs."""
    classes = HMC.argmax(1)

    def at(agreement: float, epochs: int, sure: float = 1.0) -> answers.Answer:
        """Agrees on the first images, at a total variation that can be counted."""
        said = np.where(np.arange(M) < agreement * M, classes, (classes + 1) % 10)
        p = np.full((N, 10), (1 - sure) / 9)
        p[np.arange(M), said] = sure
        return answers.Answer(epochs, 1.0, predictions.Predicted(p, np.zeros(N)))

    hmc = np.eye(10)[classes]
    curves = {"a": [at(0.8, 20), at(0.95, 40), at(0.95, 60)], "b": [at(1.0, 50, 0.8)]}

    def best(agreement: float, distance: float, *within: Any) -> Any:
        near = predictions.Nearness(agreement, distance)
        return goals.closest(curves, hmc, goals.Goal("some", near, *within))

    assert best(0.95, 0.05 + 1e-6)[:3] == (0.0, "a", 40)
    assert best(0.95, 0.21, 30)[1:3] == ("a", 20)
    lacking = best(0.9, 0.1, 30)
    assert (lacking.method, lacking.epochs) == ("a", 20)
    np.testing.assert_allclose(lacking.missing, 1.0, rtol=1e-5)
    np.testing.assert_allclose(lacking.nearness, (0.8, 0.2), rtol=1e-5)
    assert best(0.98, 0.21)[:3] == (0.0, "b", 50)
    assert best(0.98, 0.1, 100, "b")[1:3] == ("b", 50)
    assert best(0.98, 0.1, 10) is None
    assert best(0.98, 0.1, 100, "c") is None


def test_chains_are_means_over_what_they_keep(made: dict[str, Any]) -> None:
    """With what their modes have cost; one that has come less far counts with all it has."""
    results, (first, second) = made["results"], made["chains"]
    curve = answers.curves(results)["SGHMC"]
    assert [(a.epochs, round(a.hours, 6)) for a in curve] == [(12, 8.4), (16, 8.8)]
    np.testing.assert_allclose(curve[0].said.p, (first[2] + second[2]) / 2, atol=1e-6)
    mean = (first[2] + second[2] + first[4] + second[4]) / 4
    np.testing.assert_allclose(curve[1].said.p, mean, atol=1e-6)
    third = some()
    leave(results, ("sghmc", 2), {2: third}, [360.0] * 2, epochs=4)
    last = answers.curves(results)["SGHMC"][-1]
    assert (last.epochs, round(last.hours, 6)) == (16 + 6, 8.8 + 4.2)
    np.testing.assert_allclose(last.said.p, (2 * mean + third) / 3, atol=1e-6)


def test_parts_of_a_chain_are_one(made: dict[str, Any]) -> None:
    """What its first part has cost counts once, and so does its mode."""
    results, (first, second) = made["results"], made["chains"]
    third = some()
    leave(results, ("sghmc", 5), {3: third}, [720.0] * 3, start="sghmc_0")
    curve = answers.curves(results)["SGHMC"]
    assert [(a.epochs, round(a.hours, 6)) for a in curve] == [(12, 8.4), (16, 8.8), (19, 9.4)]
    samples = [first[2], first[4], third, second[2], second[4]]
    weights = [1 / 6] * 3 + [1 / 4] * 2
    expected = np.average(samples, axis=0, weights=weights)
    np.testing.assert_allclose(curve[2].said.p, expected, atol=1e-6)
    leave(results, ("sghmc", 6), {3: third}, [720.0] * 3, start="sghmc_4")
    with pytest.raises(FileNotFoundError, match=r"sghmc_4 is missing, .* train it first$"):
        answers.curves(results)


def test_parts_of_a_training_are_one_curve(made: dict[str, Any]) -> None:
    results, (first, second) = made["results"], (some(), some())
    leave(results, ("mean_field", 0), {1: some(), 2: first}, [3600.0] * 2)
    leave(results, ("mean_field", 1), {1: second}, [3600.0], start="mean_field_0")
    curve = answers.curves(results)["mean-field VI"]
    assert [(a.epochs, a.hours) for a in curve] == [(5, 5.0), (6, 6.0), (7, 7.0)]
    np.testing.assert_allclose(curve[1].said.p, first, atol=1e-6)
    np.testing.assert_allclose(curve[2].said.p, second, atol=1e-6)


def test_a_run_is_begun_once(made: dict[str, Any]) -> None:
    """Chains alone may go on for longer."""
    results = made["results"]
    leave(results, ("sghmc", 1), {}, [360.0] * 5)
    assert answers.settings_of(results / "sghmc_1")["epochs"] == 5
    for name, epochs in (("sghmc", 3), ("map", 5)):
        with pytest.raises(
            ValueError, match=rf"{name}_1 holds a run with --epochs \d, not {epochs}"
        ):
            leave(results, (name, 1), {}, [360.0] * epochs)


def test_scores_by_their_definitions() -> None:
    p = (some() + 1e-3) / 1.01
    accuracy, agreement, distance, nll, _ = report.scores(p, Y, HMC)
    assert accuracy == np.mean(p.argmax(1) == Y)
    assert agreement == np.mean(p[:M].argmax(1) == HMC.argmax(1))
    np.testing.assert_allclose(distance, 0.5 * np.abs(p[:M] - HMC).sum(1).mean(), rtol=1e-5)
    np.testing.assert_allclose(nll, -np.log(p[np.arange(N), Y]).mean(), rtol=1e-5)


def test_what_members_have_in_common(made: dict[str, Any]) -> None:
    """The formula is exact for the members at hand; D is the mean over pairs."""
    members = made["modes"]
    one, two = limits.squared_distances([p[:M] for p in members], HMC)
    differences = [p[:M] - HMC for p in members]
    pairs = [(a * b).sum(1).mean() for a, b in itertools.permutations(differences, 2)]
    np.testing.assert_allclose(two, np.mean(pairs), rtol=1e-5)
    together = np.square(np.mean(differences, axis=0)).sum(1).mean()
    np.testing.assert_allclose(two + (one - two) / 3, together, rtol=1e-5)
    _, _, *rows = limits.table(answers.ensembles(made["results"]), HMC)
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert [row[:2] for row in cells] == [["deep ensemble", "3"], ["MultiSWAG", "2"]]
    np.testing.assert_allclose([float(c) for c in cells[0][2:]], [one, together, two], atol=1e-4)


def test_people_by_loops() -> None:
    p = (some() + 0.01) / 1.1
    expected = 0.0
    for row, counts in zip(p, COUNTS, strict=True):
        expected -= sum(c / 50 * np.log(q) for q, c in zip(row, counts, strict=True)) / N
    np.testing.assert_allclose(people.cross_entropy(p, COUNTS), expected, rtol=1e-6)
    of_people = scipy.stats.entropy(people.shares(COUNTS), axis=1)
    assert people.rank_correlation(of_people, COUNTS) == pytest.approx(1.0)
    assert people.rank_correlation(-of_people, COUNTS) == pytest.approx(-1.0)


def test_mutual_information_by_its_definition(made: dict[str, Any]) -> None:
    """A chain has a function each sample; drawn functions keep a mean."""
    curve = answers.curves(made["results"])["SGHMC"]
    first, second = made["chains"]
    each = [first[2], second[2], first[4], second[4]]
    expected = scipy.stats.entropy(np.mean(each, axis=0), axis=1)
    expected -= np.mean([scipy.stats.entropy(p, axis=1) for p in each], axis=0)
    np.testing.assert_allclose(curve[-1].said.mutual_information, expected, atol=1e-5)
    assert not answers.curves(made["results"])["MAP"][-1].said.mutual_information.any()
    drawn = {"p": some(), "expected_entropy": np.full(N, 0.25)}
    leave(made["results"], ("ivon", 0), {1: drawn}, [1.0])
    said = answers.curves(made["results"])["IVON"][-1].said
    expected = scipy.stats.entropy(drawn["p"], axis=1) - 0.25
    np.testing.assert_allclose(said.mutual_information, expected, atol=1e-5)


def test_the_table_of_people(made: dict[str, Any]) -> None:
    """On HMC's images beside all; no mutual information of one function."""
    curves = answers.curves(made["results"])
    lines = people.table({name: a[-1].said for name, a in curves.items()}, HMC, COUNTS)
    rows = {cells[1].strip(): cells[2:-1] for cells in (line.split("|") for line in lines[2:])}
    p = made["modes"][0]
    assert float(rows["MAP"][0]) == pytest.approx(people.cross_entropy(p[:M], COUNTS[:M]), abs=1e-3)
    assert float(rows["MAP"][1]) == pytest.approx(people.cross_entropy(p, COUNTS), abs=1e-3)
    assert [rows[name][3].strip() == "" for name in ("MAP", "HMC", "SGHMC")] == [True, True, False]
    said = curves["SGHMC"][-1].said.mutual_information[:M]
    expected = people.rank_correlation(said, COUNTS[:M])
    assert float(rows["SGHMC"][3]) == pytest.approx(expected, abs=1e-3)


def test_the_report(made: dict[str, Any]) -> None:
    """Files are there, and the table's rows are in the order of the distance from HMC."""
    of_kinds = {kind: np.stack([some() for _ in range(5)]) for kind in ("noise", "blur")}
    np.savez(predictions.shifted_file(made["results"] / "map_0", 4), **of_kinds)
    args = argparse.Namespace(results=made["results"])
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
    lines = (made["results"] / "table.md").read_text().splitlines()[2:7]
    distances = [float(line.split("|")[4]) for line in lines]
    assert distances == sorted(distances)
    names = {line.split("|")[1].strip() for line in lines}
    assert names == {"MAP", "deep ensemble", "SWAG", "MultiSWAG", "SGHMC"}
    with np.load(made["results"] / "probabilities" / "deep_ensemble.npz") as file:
        np.testing.assert_allclose(file["p"], np.mean(made["modes"], axis=0), atol=1e-3)
        assert file["p"].dtype == file["expected_entropy"].dtype == np.float16
    made_files = {p.name for p in made["results"].glob("*")}
    figures = {"approach.png", "between.png", "people.png", "shift.png"}
    assert figures | {"people.md", "shift.md", "goals.md", "limits.md"} <= made_files
    accuracies = (made["results"] / "shift.md").read_text().splitlines()[6].split("|")[2:7]
    expected = [
        np.mean([np.mean(p[i].argmax(1) == Y) for p in of_kinds.values()]) for i in range(5)
    ]
    np.testing.assert_allclose([float(a) for a in accuracies], expected, atol=6e-4)


def test_methods_under_shift(made: dict[str, Any]) -> None:
    """An ensemble is the mean of all its members; a mode is the first of them.

    Answers from before a run went on do not count.
    """
    for i in range(3):
        for epoch, value in ((2, 1.0), (4, i / 8)):
            path = predictions.shifted_file(made["results"] / f"map_{i}", epoch)
            np.savez(path, noise=np.full((5, 2, 10), value, np.float16))
    shifted = shift.shifted(made["results"])
    np.testing.assert_array_equal(shifted["MAP"]["noise"], 0.0)
    np.testing.assert_array_equal(shifted["deep ensemble"]["noise"], 1 / 8)
    predictions.shifted_file(made["results"] / "map_1", 4).unlink()
    assert list(shift.shifted(made["results"])) == ["MAP"]
