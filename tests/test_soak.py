"""A short form of `make soak`: kills, full disks, damaged files, long runs."""

import tempfile
from pathlib import Path

from absl.testing import absltest, parameterized
from soak import full_disk, fuzz, kills, memory, readers, versions


class SoakTest(parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    @parameterized.parameters("samples of SGLD", "results")
    def test_kills(self, name: str) -> None:
        """Training and chains have theirs in `test_resume.py` and `test_mcmc_killed.py`."""
        actual = kills.survive(name, 1, self.folder, seed=1)
        self.assertEqual((actual.kills, actual.finished), (1, 1))

    @parameterized.parameters("training", "samples of SGLD", "chains")
    def test_full_disk(self, name: str) -> None:
        actual = full_disk.with_limits(name, 1, self.folder, seed=0)
        self.assertEqual(actual.total(), 2)
        self.assertGreater(actual["one error"], 0)

    def test_damaged_files(self) -> None:
        for name, reader in readers.readers().items():
            with self.subTest(name):
                number = 20 if name == ".keras" else 100
                actual = fuzz.by_hypothesis(reader, number, seed=0)
                self.assertGreaterEqual(actual.total(), number // 2)
                self.assertGreater(actual["refused"], 0)

    def test_versions_have_tests_to_run(self) -> None:
        """Pytest stops at the first path that is not there."""
        self.assertEmpty([path for path in versions.TESTS if not (versions.ROOT / path).exists()])

    def test_a_reader_that_lets_errors_through_is_found(self) -> None:
        reader = readers.Reader(b"\0" * 9, lambda path: path.read_bytes()[8], ValueError, "a")
        with self.assertRaisesRegex(AssertionError, "IndexError.* instead of ValueError"):
            fuzz.by_hypothesis(reader, 100, seed=0)

    @parameterized.parameters(*memory.RUNS)
    def test_memory(self, name: str) -> None:
        growth = memory.check(memory.RUNS[name](1000))
        self.assertEqual(growth.steps, 1000)

    def test_memory_that_grows_is_found(self) -> None:
        with self.assertRaisesRegex(AssertionError, "grew from 10 to 30 MB"):
            memory.check(memory.Growth(10, early=10.0, late=30.0))


if __name__ == "__main__":
    absltest.main()
