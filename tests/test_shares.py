"""Slow tests that run with each commit."""

from __future__ import annotations

import subprocess
from unittest import mock

from durations import SLOW
from shares import SHARES, commit, share_of


def test_commits_in_a_row_run_each_slow_test_once() -> None:
    slow = SLOW.read_text().splitlines()
    shares = [share_of(slow, commit() + k) for k in range(SHARES)]
    assert sorted(test for share in shares for test in share) == slow
    sizes = [*map(len, shares)]
    assert max(sizes) - min(sizes) <= 1


def test_the_order_of_tests_does_not_matter() -> None:
    assert share_of(["b", "a"], 0) == share_of(["a", "b"], 0) == {"a"}


def test_without_git_a_share_lasts_a_day() -> None:
    for error in (FileNotFoundError(), subprocess.CalledProcessError(128, "git")):
        with (
            mock.patch("subprocess.check_output", side_effect=error),
            mock.patch("time.time", side_effect=[86_400.0 * 5, 86_400.0 * 6 - 1, 86_400.0 * 6]),
        ):
            assert [commit() for _ in range(3)] == [5, 5, 6]
