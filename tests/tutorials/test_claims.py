"""The front table of results is what its records say."""

from pathlib import Path

from tutorials import claims

INDEX = Path(__file__).parents[2] / "results" / "README.md"


def test_the_index_shows_what_the_records_say() -> None:
    assert f"\n\n{claims.table()}\n\n" in INDEX.read_text()
