"""Which tests a change selects."""

from typing import Any

import pytest
from imports import MODULES, ROOT, uses
from selection import SAMPLE, SECONDS, UNREACHED, distances, selected


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


def test_names_behind_a_package_lead_to_their_module() -> None:
    used = uses(ROOT / "tests" / "layers" / "test_bayes_dense.py")
    assert "tfbdl.layers.bayes_dense" in used
    assert used <= MODULES.keys()
