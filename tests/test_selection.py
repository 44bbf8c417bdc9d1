"""Which tests a change selects."""

import re
from typing import Any

import pytest
from imports import MODULES, ROOT, uses
from selection import (
    OF_NAMES,
    SAMPLE,
    SECONDS,
    UNREACHED,
    distances,
    of_names,
    of_pages,
    of_tutorials,
    selected,
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
    assert selected(far, {})[0].count(own) == 1


def test_users_come_before_users_of_users() -> None:
    far = distances(["tfbdl/posteriors/low_rank.py"])
    assert 0 < far["tests/layers/test_bayes_dense.py"] < UNREACHED
    assert far["tests/training/test_log.py"] == UNREACHED


def test_the_sample_exists_and_always_runs() -> None:
    assert all((ROOT / test).exists() for test in SAMPLE)
    run, left_out = selected(distances(["docs/index.md"]), {})
    assert run == list(SAMPLE)
    assert not left_out


def test_what_all_import_is_left_to_the_sample_where_time_is_short() -> None:
    far = distances(["tfbdl/arguments.py"])
    seconds = dict.fromkeys(far, 30.0)
    run, left_out = selected(far, seconds)
    assert sum(seconds[test] for test in run if far[test]) <= SECONDS + 30 * len(SAMPLE)
    assert len(left_out) > 20


def test_names_that_change_have_the_tests_of_every_name() -> None:
    assert not of_names(["tfbdl/layers/mc_dropout.py", "tests/__init__.py"])
    assert of_names(["tfbdl/detection/__init__.py"]) == OF_NAMES
    for test in OF_NAMES:
        path, _, name = test.partition("::")
        assert re.search(rf"^(class|def) {name}\b", (ROOT / path).read_text(), re.MULTILINE), test


def test_no_test_takes_more_than_there_is_time() -> None:
    own = "tests/layers/test_mc_dropout.py"
    run, left_out = selected(distances(["tfbdl/layers/mc_dropout.py"]), {own: 2.0 * SECONDS})
    assert own in run  # since it is in the sample
    own = "tests/test_arguments.py"
    run, left_out = selected(distances(["tfbdl/arguments.py"]), {own: 2.0 * SECONDS})
    assert own in left_out
    assert len(run) > len(SAMPLE)


def test_a_page_has_its_code_and_the_links_of_all() -> None:
    guide = {"test_links_lead_somewhere", "test_nav_lists_every_page"}
    chosen = {test.partition("::")[2] for test in of_pages(["docs/guides/train.md", "README.md"])}
    assert chosen == {*guide, "test_blocks_run[guides/train.md]"}
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


def test_names_behind_a_package_lead_to_their_module() -> None:
    used = uses(ROOT / "tests" / "layers" / "test_bayes_dense.py")
    assert "tfbdl.layers.bayes_dense" in used
    assert used <= MODULES.keys()


def test_no_two_files_of_tests_have_one_name() -> None:
    """Since their folders are no packages, pytest could not run both at once."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len({*names})
