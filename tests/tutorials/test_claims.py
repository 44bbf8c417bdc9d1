"""The front table of results is what its records say."""

from pathlib import Path

from tutorials import claims

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "results" / "README.md"


def test_the_index_shows_what_the_records_say() -> None:
    assert f"\n\n{claims.table()}\n\n" in INDEX.read_text()


def test_the_second_example_has_the_numbers_of_the_records() -> None:
    plain, best = claims.pretrained()
    assert best["method"] == "Laplace"
    text = " ".join((ROOT / "README.md").read_text().split())
    errors = f"calibration error is {100 * plain['ece']:.1f} %, and {100 * best['ece']:.1f} %"
    assert f"{errors} with this posterior" in text


def test_the_page_of_cifar10_has_the_tables_of_its_runs() -> None:
    page = (INDEX.parent / "cifar10.md").read_text()
    for name in ("table", "goals", "limits", "people", "shift"):
        made = (INDEX.parent / "cifar10" / f"{name}.md").read_text().strip()
        assert f"\n\n{made}\n\n" in page, name
