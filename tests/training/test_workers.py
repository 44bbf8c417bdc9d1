"""`tfbdl.train` on two workers: the numbers of one device, files by the chief, and lost workers."""

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import worker_runs as runs
from absl.testing import absltest
from worker_pair import WorkerPair

import tfbdl


def without_seconds(folder: Any) -> Any:
    return re.sub(r"\(\d+\.\d{3} secs\)", "(secs)", (Path(folder) / "train.log").read_text())


class WorkersCase(absltest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def assert_same(self, got: Any, expected: Any, tolerance: float = 1e-5) -> None:
        """Histories and weights."""
        self.assertEqual(set(got[0]), set(expected[0]))
        for name, values in expected[0].items():
            np.testing.assert_allclose(got[0][name], values, tolerance, tolerance, err_msg=name)
        for a, b in zip(got[1], expected[1], strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-4)


class WorkersTest(WorkersCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.pair = cls.enter_context(WorkerPair())

    def both(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """The result on both workers, which must be the same."""
        chief, other = self.pair.call(function, *args, **kwargs)
        np.testing.assert_equal(chief, other)
        return chief

    def refused(self, pattern: str, function: Any, *args: Any, **kwargs: Any) -> None:
        for answer in self.pair.call(function, *args, **kwargs):
            kind, message = answer
            self.assertEqual(kind, "ValueError")
            self.assertRegex(message, pattern)
            self.assertNotIn("\n", message)

    def test_two_workers_train_as_one_device(self) -> None:
        for kind in ("dense", "quiet"):
            with self.subTest(kind):
                got = self.both(runs.trained, runs.workers, kind)
                self.assert_same(got, runs.trained(runs.one_device, kind))

    def test_kl_counts_once(self) -> None:
        history, _ = self.both(runs.trained, runs.workers, "bayes")
        penalty = np.subtract(history["loss"], history["cent"])
        np.testing.assert_allclose(penalty, np.array(history["kl"]) / runs.N, rtol=1e-4)

    def test_noise_is_of_the_same_law_and_its_own_on_each_worker(self) -> None:
        """Outputs at (1, 1, 1, 1) are normal with variance sigma^2 (4 + 1), drawn once a worker."""
        variance = 5 * np.log(2.0) ** 2
        first, second = self.both(runs.output_moments, runs.workers)
        alone, _ = runs.output_moments(runs.one_device)
        for seconds, draws in ((second, 2), (alone**2, 1)):
            error = np.sqrt(2.0 / (draws * len(seconds))) * variance
            self.assertLess(abs(np.mean(seconds) - variance), 4 * error)
        within = np.mean(second - first**2)  # (a - b)^2 / 4 of the draws a, b of the two workers
        self.assertLess(abs(within - variance / 2), 4 * variance / np.sqrt(2 * len(first)))

    def test_the_chief_alone_writes_and_prints(self) -> None:
        folders = [self.folder / "chief", self.folder / "other"]
        chief, other = self.pair.call(runs.printed, each=[{"savedir": f} for f in folders])
        self.assertEqual(other, "")
        self.assertFalse(folders[1].exists())
        names = sorted(path.name for path in folders[0].iterdir())
        self.assertEqual(names, ["checkpoint.npz", "train.log"])
        self.assertEqual(chief, (folders[0] / "train.log").read_text())
        self.assertEqual(len(tfbdl.read_log(folders[0] / "train.log").epochs), 3)

    def test_resume_from_the_folder_of_the_chief(self) -> None:
        """Bitwise as without a stop; the other worker has never seen the folder."""
        whole = self.both(
            runs.trained, runs.workers, "dropout", epochs=4, savedir=self.folder / "whole"
        )
        folders = [{"folder": self.folder / name} for name in ("chief", "other")]
        answers = self.pair.call(runs.in_parts, each=folders)
        for first, second, weights in answers:
            for name, values in whole[0].items():
                self.assertEqual(first[name] + second[name], values)
            for a, b in zip(weights, whole[1], strict=True):
                np.testing.assert_array_equal(a, b)
        self.assertEqual(
            without_seconds(self.folder / "chief"), without_seconds(self.folder / "whole")
        )
        self.assertFalse((self.folder / "other").exists())

    def test_another_run_in_the_folder(self) -> None:
        self.both(runs.trained, runs.workers, "dense", savedir=self.folder)
        self.refused(
            "^savedir=.* holds a run with seed=7, not 8; name another",
            runs.trained,
            runs.workers,
            "dense",
            savedir=self.folder,
            seed=8,
        )

    def test_bytes_of_the_chief(self) -> None:
        """Pieces of bytes, of which the last may be short; none at all."""
        for size, chunk in ((0, 64), (1, 64), (64, 64), (1001, 64), (3_000_001, 2**26)):
            self.assertTrue(self.both(runs.bytes_of_chief, size, chunk), size)

    def test_workers_that_differ(self) -> None:
        self.refused(
            "^batch_size is 8 on the chief and 16 on worker 1; run the same",
            runs.trained,
            runs.workers,
            "dense",
            each=[{"batch_size": 8}, {"batch_size": 16}],
        )
        self.refused(
            "^the checksum of x and y is .* on worker 1; run the same",
            runs.trained,
            runs.workers,
            "dense",
            each=[{}, {"x": runs.X + 1}],
        )

    def test_data_sets_are_shared_out(self) -> None:
        """The same batches as of arrays in the same order, on two workers and on one device."""
        arrays = runs.trained(runs.one_device, "dense")
        self.assert_same(runs.streamed(runs.one_device, "dense"), arrays)
        self.assert_same(self.both(runs.streamed, runs.workers, "dense"), arrays)

    def test_data_sets_that_are_not_shared_out(self) -> None:
        self.refused(
            "^x gives all workers the same examples; .*shard",
            runs.streamed,
            runs.workers,
            "dense",
            runs.everything,
        )

    def test_predict(self) -> None:
        """Each worker predicts by itself, so that one alone may ask."""
        expected = runs.predictions(runs.one_device)
        np.testing.assert_allclose(self.both(runs.predictions, runs.workers), expected, 1e-5, 1e-6)

    def test_deep_ensemble(self) -> None:
        expected = runs.ensemble(runs.one_device)
        folders = [{"savedir": self.folder / name} for name in ("chief", "other")]
        for got in self.pair.call(runs.ensemble, runs.workers, each=folders):
            np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
        self.assertEqual(len(list(self.folder.glob("chief/member_*/checkpoint.npz"))), 2)
        self.assertFalse((self.folder / "other").exists())

    def test_samples_of_the_posterior(self) -> None:
        """The chief draws them, as it does those of `SGLD`."""
        folders = [{"savedir": self.folder / name} for name in ("chief", "other")]
        self.assertEqual(self.pair.call(runs.samples, each=folders), [2, 0])
        self.assertFalse((self.folder / "other").exists())

    def test_chains_need_no_other_worker(self) -> None:
        self.refused("^strategy spans .* processes; .*seed", runs.sample_over_workers)

    def test_fit_of_keras(self) -> None:
        """It cannot, of which the guide warns; where this fails, the guide can be mended."""
        for kind, _ in self.pair.call(runs.fit):
            self.assertEqual(kind, "ValueError")


class LostWorkerTest(WorkersCase):
    """SIGKILL of one worker, then of the chief, and the run taken up again by two."""

    def run_pair(self, name: str, epochs_of_death: Any) -> Any:
        with WorkerPair() as pair:
            deaths = [{"epoch": epoch} for epoch in epochs_of_death]
            return pair.call(runs.killed, self.folder / name, each=deaths)

    def test_killed_and_resumed(self) -> None:
        for dying, epochs in ((1, (None, 2)), (0, (3, None))):
            answers = self.run_pair("killed", epochs)
            self.assertIsNone(answers[dying])
            kind, message = answers[1 - dying]
            self.assertEqual(kind, "TrainingError")
            self.assertRegex(message, "^another worker is gone.*start all workers again.*/killed$")
            self.assertNotIn("\n", message)
            tfbdl.read_log(self.folder / "killed" / "train.log")
        resumed = self.run_pair("killed", (None, None))
        whole = self.run_pair("whole", (None, None))
        self.assertEqual(
            without_seconds(self.folder / "killed"), without_seconds(self.folder / "whole")
        )
        for (_, got), (_, expected) in zip(resumed, whole, strict=True):
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_array_equal(a, b)


if __name__ == "__main__":
    absltest.main()
