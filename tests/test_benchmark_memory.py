"""Peers in the measurement of memory: what they do, fail at, or do not end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import memory  # noqa: E402

SCRIPT = """
import sys, time
sys.path.insert(0, {peers!r})
from measured import limit, tried
case, gigabytes, minutes = sys.argv[1], *map(float, sys.argv[2:])
limit(gigabytes, minutes)
def work(seconds=1.0):
    end = time.process_time() + seconds
    b"x" * int(1e8)
    while time.process_time() < end:
        pass
if case == "known":
    tried("a second of work", work)
    tried("a terabyte", lambda: bytes(int(1e12)))
if case == "long":
    tried("nothing", lambda: None)
    tried("too much", lambda: work(100.0))
if case == "broken":
    raise OSError("no such library")
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "peers").mkdir()
    script = SCRIPT.format(peers=str(ROOT / "benchmarks" / "peers"))
    (tmp_path / "peers" / "memory_of_some.py").write_text(script)
    monkeypatch.setattr(memory, "HERE", tmp_path)
    monkeypatch.setattr(memory.bench, "python_of", lambda peer: Path(sys.executable))
    return "some"


def test_steps_take_and_fail(peer: str) -> None:
    """A hundred megabytes that are written, in a process whose parent holds more."""
    work, terabyte = memory.by_peer(peer, "known")
    assert 0.95 < work["cpu_seconds"] < 1.1
    assert work["seconds"] > 0.9
    assert 0.1 < work["gigabytes"] < 0.2
    assert terabyte == {"step": "a terabyte", "fails": "MemoryError: "}
    assert "| MemoryError:  |" in memory.row("case", "some", terabyte)


def test_what_does_not_end_is_said_so(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MINUTES", 1 / 60)
    nothing, too_much = memory.by_peer(peer, "long")
    assert nothing["cpu_seconds"] < 0.1
    assert too_much["fails"] == "not done after 0.0167 minutes of a processor"


def test_other_cases_have_no_steps(peer: str) -> None:
    assert memory.by_peer(peer, "unknown") == []


def test_a_script_that_does_not_run_is_an_error(peer: str) -> None:
    with pytest.raises(RuntimeError, match="no such library"):
        memory.by_peer(peer, "broken")
