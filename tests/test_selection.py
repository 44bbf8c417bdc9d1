"""Which tests a change selects."""

import re
from typing import Any

import pytest
from imports import MODULES, ROOT, uses
from selection import (
    OF_NAMES,
    PAGES,
    SAMPLE,
    SCRIPT,
    SECONDS,
    UNREACHED,
    Choice,
    distances,
    of_names,
    of_pages,
    of_tutorials,
    said,
    selected,
    taken,
)


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        ("tfbdl/layers/mc_dropout.py", "tests/layers/test_mc_dropout.py"),
        ("tfbdl/training/log.py", "tests/training/test_log.py"),
        ("tests/test_kl.py", "tests/test_kl.py"),
    ],
)
def test_the_tests_of_a_file_come_first(changed: Any, own: Any) -> None:
    far = distances([changed])
    assert far[own] == 0
    assert selected(far, {}).run.count(own) == 1


def test_users_come_before_users_of_users() -> None:
    far = distances(["tfbdl/posteriors/low_rank.py"])
    assert 0 < far["tests/layers/test_bayes_dense.py"] < UNREACHED
    assert far["tests/training/test_log.py"] == UNREACHED


def test_the_sample_exists_and_always_runs() -> None:
    assert all((ROOT / test).exists() for test in SAMPLE)
    choice = selected(distances(["docs/index.md"]), {})
    assert choice.run == list(SAMPLE)
    assert not choice.left_out


def test_what_all_import_is_left_to_the_sample_where_time_is_short() -> None:
    far = distances(["tfbdl/arguments.py"])
    seconds = dict.fromkeys(far, 30.0)
    choice = selected(far, seconds)
    assert sum(seconds[test] for test in choice.run if far[test]) <= SECONDS + 30 * len(SAMPLE)
    assert len(choice.left_out) > 20


def test_names_that_change_have_the_tests_of_every_name() -> None:
    assert not of_names(["tfbdl/layers/mc_dropout.py", "tests/__init__.py"])
    assert of_names(["tfbdl/detection/__init__.py"]) == OF_NAMES
    for test in OF_NAMES:
        path, _, name = test.partition("::")
        assert re.search(rf"^(class|def) {name}\b", (ROOT / path).read_text(), re.MULTILINE), test


def test_the_tests_of_all_changed_files_run_however_long_they_take() -> None:
    files = [f"tfbdl/{name}.py" for name in ("copying", "priors/base", "arguments")]
    own = ["tests/test_copying.py", "tests/test_arguments.py", "tests/test_kl.py"]
    choice = selected(distances([*files, own[-1]]), dict.fromkeys(own, SECONDS / 2))
    assert {*own} <= {*choice.run}
    assert choice.seconds > SECONDS
    assert choice.left_out
    alone, left, of_scripts = said(choice, ())
    assert alone.startswith(f"tests of what has changed take {choice.seconds:.0f} s ")
    assert left.startswith("left to `make test`: ")
    assert of_scripts.startswith("left to `make test-slow`: ")


def test_no_test_of_another_file_takes_more_than_there_is_time() -> None:
    user = "tests/layers/test_bayes_dense.py"
    choice = selected(distances(["tfbdl/posteriors/low_rank.py"]), {user: 2.0 * SECONDS})
    assert user in choice.left_out
    assert len(choice.run) > len(SAMPLE)
    assert choice.seconds <= SECONDS


def test_pages_and_tutorials_run_as_long_as_the_time_lasts() -> None:
    pages = [f"{PAGES}::test_blocks_run[{name}.md]" for name in "abc"]
    scripts = [f"tests/tutorials/test_tutorials.py::test_{number}" for number in range(20)]
    seconds = {pages[0]: SECONDS / 4, pages[1]: 2.0 * SECONDS, scripts[0]: SECONDS / 5}
    seconds |= dict.fromkeys(SAMPLE, 1.0)
    choice = selected(distances(["docs/index.md"]), seconds, [*pages, *scripts])
    assert {pages[0], pages[2], scripts[0]} <= {*choice.run}
    assert {pages[1], *scripts[5:]} <= {*choice.left_out}
    assert choice.seconds <= SECONDS
    assert {*choice.run, *choice.left_out} == {*SAMPLE, *pages, *scripts}


def test_scripts_that_were_not_measured_are_taken_for_slow_ones() -> None:
    file = "tests/tutorials/test_unknown.py"
    assert taken(f"{file}::test_a", {file: 1.0}) == SCRIPT
    assert taken(file, {}) >= SECONDS
    assert taken(f"{file}::test_a", {f"{file}::test_a": 2.0}) == 2.0
    assert taken(f"{file}::ATest", {f"{file}::ATest::test_a0": 2.0, f"{file}::b": 1.0}) == 2.0
    assert taken("tests/test_kl.py::test_a", {"tests/test_kl.py": 1.5}) == 1.5


def test_what_is_left_out_is_left_to_the_command_that_runs_it() -> None:
    slow, quick = (f"{PAGES}::test_blocks_run[{name}.md]" for name in "ab")
    script = "tests/tutorials/test_uci_tutorial.py"
    choice = Choice([], ["tests/test_kl.py", script, slow, quick], 1.0)
    assert [*said(choice, [slow])] == [
        f"left to `make test`: tests/test_kl.py, {quick}",
        f"left to `make test-slow`: {script}, {slow}",
    ]
    assert not [*said(Choice([], [], 1.0), [slow])]


def test_a_page_has_its_code_and_the_links_of_all() -> None:
    guide = {"test_links_lead_somewhere", "test_nav_lists_every_page"}
    chosen = {test.partition("::")[2] for test in of_pages(["docs/guides/train.md", "README.md"])}
    assert chosen == {*guide, "test_blocks_run[guides/train.md]"}
    results = {test.partition("::")[2] for test in of_pages(["results/uci.md"])}
    assert results == guide
    assert not [*of_pages(["results/uci/boston.md"])]
    removed = {test.partition("::")[2] for test in of_pages(["docs/guides/gone.md"])}
    assert removed == guide
    assert not [*of_pages(["tfbdl/arguments.py"])]


def test_a_tutorial_has_the_tests_that_name_it() -> None:
    script = "tests/tutorials/test_tutorials.py::TutorialTest"
    chosen = [*of_tutorials(["tutorials/part2_mc_dropout.py"])]
    assert f"{script}::test_part2" in chosen
    assert f"{script}::test_part3" not in chosen
    part = "tests/tutorials/test_demonstrations.py::JointTest::test_normals"
    assert part in of_tutorials(["tutorials/priors/joint.py"])
    assert not [*of_tutorials(["tutorials/README.md"])]
    numbered = [*of_tutorials(["tutorials/uci/methods.py"])]
    assert "tests/tutorials/test_uci_tutorial.py::ScriptTest" in numbered
    assert len(numbered) == len({*numbered})


def test_names_behind_a_package_lead_to_their_module() -> None:
    used = uses(ROOT / "tests" / "layers" / "test_bayes_dense.py")
    assert "tfbdl.layers.bayes_dense" in used
    assert used <= MODULES.keys()


def test_no_two_files_of_tests_have_one_name() -> None:
    """Since their folders are no packages, pytest could not run both at once."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len({*names})
