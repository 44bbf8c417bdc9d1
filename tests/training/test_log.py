"""The format of train.log: to the character, at every cut, and against damage."""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tfbdl.training import log as log_module
from tfbdl.training.log import LogError, TrainLog, epoch_header, epoch_line, read_log
from tfbdl.training.log_writer import LogWriter

ELBO_SLIDE = """\
2 Epoch 1 start, learning rate 0.001000
3 train: epoch 1, (0.535 secs), elbo -400.160945
4
5 Epoch 2 start, learning rate 0.001000
6 train: epoch 2, (0.039 secs), elbo -218.883324
7
8 Epoch 3 start, learning rate 0.001000
9 train: epoch 3, (0.039 secs), elbo -206.140288
10
11 Epoch 4 start, learning rate 0.001000
12 train: epoch 4, (0.040 secs), elbo -202.247569
13
14 Epoch 5 start, learning rate 0.001000
15 train: epoch 5, (0.039 secs), elbo -200.175874
16
17 Epoch 6 start, learning rate 0.001000
18 train: epoch 6, (0.039 secs), elbo -197.606540
"""
CLASSIFIER_SLIDE = """\
2 Epoch 1 start, learning rate 0.001000
3 train: epoch 1, (0.230 secs), cent 1.979612, wd 0.054315, acc 0.336000
4
5 Epoch 2 start, learning rate 0.001000
6 train: epoch 2, (0.053 secs), cent 1.094547, wd 0.051379, acc 0.686000
7
8 Epoch 3 start, learning rate 0.001000
9 train: epoch 3, (0.048 secs), cent 0.715212, wd 0.049918, acc 0.760000
10
11 Epoch 4 start, learning rate 0.001000
12 train: epoch 4, (0.046 secs), cent 0.523885, wd 0.049172, acc 0.831000
13
14 Epoch 5 start, learning rate 0.001000
15 train: epoch 5, (0.043 secs), cent 0.433346, wd 0.048822, acc 0.862000
16
17 Epoch 6 start, learning rate 0.001000
18 train: epoch 6, (0.040 secs), cent 0.366523, wd 0.048710, acc 0.891000
19
20 Epoch 7 start, learning rate 0.001000
21 train: epoch 7, (0.042 secs), cent 0.276434, wd 0.048749, acc 0.926000
22
23 Epoch 8 start, learning rate 0.001000
24 train: epoch 8, (0.050 secs), cent 0.225711, wd 0.048887, acc 0.936000
25
26 Epoch 9 start, learning rate 0.001000
27 train: epoch 9, (0.046 secs), cent 0.204144, wd 0.049059, acc 0.945000
28
29 Epoch 10 start, learning rate 0.001000
30 train: epoch 10, (0.045 secs), cent 0.164487, wd 0.049250, acc 0.950000
31
"""
# What the run of the classifier slide wrote: no line numbers, line 1 blank.
CLASSIFIER_LOG = re.sub(r"(?m)^[0-9]+(?: |$)", "", "1\n" + CLASSIFIER_SLIDE[:-3])

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
    lambda name: name.isprintable() and not re.search(r"[\s,]", name)
)
finite = st.floats(allow_nan=False, allow_infinity=False)


class LogTestCase(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "train.log"

    def read(self, content: str | bytes) -> TrainLog:
        self.path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_log(self.path)

    def assert_refused(self, content: str | bytes, line: int, expected: str) -> None:
        with self.assertRaises(LogError) as caught:
            self.read(content)
        message = str(caught.exception)
        self.assertIn(f"{self.path}, line {line}: expected {expected}", message)
        self.assertNotIn("\n", message)

    def write(self, metrics: dict[str, float], epochs: int = 2) -> None:
        with LogWriter(self.path) as log:
            for epoch in range(1, epochs + 1):
                log.start(epoch, 0.001)
                log.end(epoch, 0.5, metrics)


class FormatTest(LogTestCase):
    def test_reproduces_the_slides_to_the_character(self) -> None:
        for slide in (ELBO_SLIDE, CLASSIFIER_SLIDE):
            log = self.read(slide)
            text = "".join(
                epoch_header(epoch, log.learning_rates[i])
                + epoch_line(epoch, log.seconds[i], {k: v[i] for k, v in log.metrics.items()})
                for i, epoch in enumerate(log.epochs)
            )
            numbered = [f"{i} {line}".rstrip() for i, line in enumerate(text.splitlines(), 1)]
            self.assertEqual(numbered[1:], slide.removesuffix("31\n").splitlines())

    def test_writes_the_literal_lines(self) -> None:
        self.assertEqual(epoch_header(1, 0.001), "\nEpoch 1 start, learning rate 0.001000\n")
        line = epoch_line(1, 0.535, {"elbo": -400.160945})
        self.assertEqual(line, "train: epoch 1, (0.535 secs), elbo -400.160945\n")
        line = epoch_line(1, -0.0, {"elbo": -0.0})
        self.assertEqual(line, "train: epoch 1, (0.000 secs), elbo -0.000000\n")
        line = epoch_line(7, 12.3456, {"cent": np.float32(0.5), "kl": float("nan"), "acc": 1})
        self.assertEqual(
            line, "train: epoch 7, (12.346 secs), cent 0.500000, kl nan, acc 1.000000\n"
        )

    def test_refuses_what_could_not_be_read_back(self) -> None:
        for name in ("", "a b", "a,b", "a\n", "\ud800", "a\x85b", "\x1b[31m"):
            with self.assertRaisesRegex(ValueError, "^metric name"):
                epoch_line(1, 0.1, {name: 1.0})
        with self.assertRaisesRegex(ValueError, "^metrics is empty"):
            epoch_line(1, 0.1, {})
        for seconds in (-1.0, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "^seconds is"):
                epoch_line(1, seconds, {"elbo": 1.0})


class ReadTest(LogTestCase):
    def test_reads_the_slides(self) -> None:
        log = self.read(CLASSIFIER_SLIDE)
        np.testing.assert_array_equal(log.epochs, np.arange(1, 11))
        self.assertEqual(log.epochs.dtype, np.int64)
        np.testing.assert_array_equal(log.learning_rates, np.full(10, 0.001))
        self.assertEqual(list(log.metrics), ["cent", "wd", "acc"])
        self.assertEqual((log.metrics["cent"][0], log.metrics["acc"][9]), (1.979612, 0.95))
        self.assertEqual((log.seconds[0], log.seconds[9]), (0.230, 0.045))

    def test_reads_a_slide_without_final_newline(self) -> None:
        log = self.read(ELBO_SLIDE[:-1])
        np.testing.assert_array_equal(
            log.metrics["elbo"],
            [-400.160945, -218.883324, -206.140288, -202.247569, -200.175874, -197.606540],
        )

    def test_reads_windows_newlines(self) -> None:
        self.assertEqual(len(self.read(CLASSIFIER_SLIDE.replace("\n", "\r\n")).epochs), 10)

    def test_reads_nan_and_inf(self) -> None:
        metrics = {"nan": float("nan"), "inf": float("inf"), "low": -float("inf"), "0": -0.0}
        self.write(metrics)
        log = read_log(self.path)
        for name, value in metrics.items():
            np.testing.assert_array_equal(log.metrics[name], [value, value])

    def test_a_cut_at_any_byte_leaves_the_complete_epochs(self) -> None:
        infinite = "".join(
            epoch_header(epoch, 0.1) + epoch_line(epoch, 0.1, {"größe": x, "b": -x})
            for epoch, x in ((1, float("inf")), (2, float("nan")))
        )
        for text in (CLASSIFIER_LOG, CLASSIFIER_SLIDE, infinite):
            whole = self.read(text)
            data = text.encode()
            ends = [m.end() for m in re.finditer(rb"train: .*", data)]
            for cut in range(len(data) + 1):
                # Nothing tells the columns of the first epoch, so that one needs its newline.
                complete = sum(end + (i == 0) <= cut for i, end in enumerate(ends))
                log = self.read(data[:cut])
                np.testing.assert_array_equal(log.epochs, whole.epochs[:complete], str(cut))
                for name, values in log.metrics.items():
                    np.testing.assert_array_equal(values, whole.metrics[name][:complete])

    def test_an_empty_file_has_no_epochs(self) -> None:
        for content in ("", "\n", "1\n", "\nEpoch 1 start, learning rate 0.001000\n"):
            log = self.read(content)
            self.assertEqual((len(log.epochs), len(log.seconds), log.metrics), (0, 0, {}))

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(1, 10**6), finite, st.floats(0, 1e9)), max_size=4),
        st.lists(names, min_size=1, max_size=4, unique=True),
        st.data(),
    )
    def test_round_trip(
        self, steps: list[tuple[int, float, float]], columns: list[str], data: st.DataObject
    ) -> None:
        epochs = np.cumsum([step for step, _, _ in steps])
        values = data.draw(st.lists(finite, min_size=len(columns), max_size=len(columns)))
        self.path.unlink(missing_ok=True)
        with LogWriter(self.path) as writer:
            for epoch, (_, rate, seconds) in zip(epochs, steps, strict=True):
                writer.start(epoch, rate)
                writer.end(epoch, seconds, dict(zip(columns, values, strict=True)))
        log = read_log(self.path)
        np.testing.assert_array_equal(log.epochs, epochs)
        np.testing.assert_array_equal(log.learning_rates, [float(f"{r:f}") for _, r, _ in steps])
        np.testing.assert_array_equal(log.seconds, [float(f"{s:.3f}") for _, _, s in steps])
        self.assertEqual(list(log.metrics), columns if steps else [])
        for name, value in zip(log.metrics, values, strict=bool(steps)):
            np.testing.assert_array_equal(log.metrics[name], [float(f"{value:f}")] * len(steps))


class RefuseTest(LogTestCase):
    header = "\nEpoch 1 start, learning rate 0.001000\n"
    line = "train: epoch 1, (0.535 secs), elbo -400.160945\n"

    def test_other_text(self) -> None:
        self.assert_refused("hello\n", 1, "'Epoch 1 start, learning rate 0.001000', got 'hello'")
        self.assert_refused("hello", 1, "'Epoch 1 start")
        self.assert_refused("Epoch of the dinosaurs", 1, "'Epoch 1 start")
        self.assert_refused("Epoch 1 start, learning rate 0.001\n", 1, "'Epoch 1 start")
        self.assert_refused(self.header.replace("1", "1" * 5000, 1), 2, "'Epoch 1 start")
        self.assert_refused(self.header + self.line + "{}\n", 4, "'Epoch 1 start")
        self.assert_refused(self.header + "train: epoch 1, (0.5 secs)\n", 3, "'train: epoch 1, (")
        self.assert_refused("\x00" * 100, 1, "printable text")
        self.assert_refused(b"\n\x89PNG\r\n\xff\xfe\n", 2, "UTF-8 text")

    def test_inconsistent_epochs(self) -> None:
        epoch = self.header + self.line
        self.assert_refused(self.line, 1, "'Epoch 1 start")
        self.assert_refused(self.header + self.header, 4, "'train: epoch 1, (")
        self.assert_refused(epoch + epoch, 5, "an epoch after 1, got 'Epoch 1 start")
        self.assert_refused(self.header + self.line.replace("1", "2", 1), 3, "'train: epoch 1, (")
        second = epoch.replace("ch 1", "ch 2")
        self.assert_refused(epoch + second.replace("elbo", "kl"), 6, "the columns elbo, got")
        doubled = self.line.replace("elbo", "kl 0.000000, kl")
        self.assert_refused(self.header + doubled, 3, "the columns with different names")

    def test_unreadable_paths(self) -> None:
        for path in (self.path, self.path.parent):
            with self.assertRaisesRegex(LogError, rf"^{path}: cannot read, .*; give a train.log"):
                read_log(path)

    def test_a_huge_line_costs_neither_memory_nor_time(self) -> None:
        with self.path.open("wb") as file:
            file.truncate(10**11)
        began = time.perf_counter()
        with self.assertRaises(LogError):
            read_log(self.path)
        for start in (
            "Epoch 1",
            self.header + "train: epoch 1, (0.1 secs), " + "a 1.000000, " * 999,
        ):
            self.assert_refused(start + "1" * 20000, start.count("\n") + 1, "printable text of at")
            with self.assertRaises(LogError):
                self.read(start + "?" * 4000)
        self.assertLess(time.perf_counter() - began, 5.0)

    @settings(max_examples=300, deadline=2000)
    @given(st.integers(0, len(CLASSIFIER_LOG)), st.integers(0, 20), st.binary(max_size=20))
    def test_damage_gives_a_log_or_a_log_error(self, at: int, cut: int, patch: bytes) -> None:
        data = CLASSIFIER_LOG.encode()
        try:
            log = self.read(data[:at] + patch + data[at + cut :])
        except LogError as error:
            self.assertNotIn("\n", str(error))
        else:
            self.assertLessEqual(len(log.epochs), 11)


class WriterTest(LogTestCase):
    def test_writes_the_file_of_the_slide(self) -> None:
        slide = self.read(CLASSIFIER_SLIDE)
        self.path.unlink()
        echoed: list[str] = []
        with LogWriter(self.path, echo=echoed.append) as log:
            for i, epoch in enumerate(slide.epochs):
                log.start(epoch, slide.learning_rates[i])
                log.end(epoch, slide.seconds[i], {k: v[i] for k, v in slide.metrics.items()})
        self.assertEqual(self.path.read_text(), CLASSIFIER_LOG)
        self.assertEqual("".join(echoed), CLASSIFIER_LOG)

    def test_a_new_run_never_touches_a_log(self) -> None:
        self.path.write_text("precious")
        with self.assertRaisesRegex(LogError, "line 1: expected"):
            LogWriter(self.path)
        self.assertEqual(self.path.read_text(), "precious")
        self.path.write_text(CLASSIFIER_LOG)
        with self.assertRaisesRegex(ValueError, "already has a log; .* another path$"):
            LogWriter(self.path)
        self.assertEqual(self.path.read_text(), CLASSIFIER_LOG)

    def test_a_log_that_was_killed_in_its_first_epoch_is_started_anew(self) -> None:
        self.path.write_text(epoch_header(1, 0.1))
        with LogWriter(self.path) as log:
            log.start(1, 0.2)
            log.end(1, 0.1, {"elbo": 1.0})
        self.assertEqual(read_log(self.path).learning_rates.tolist(), [0.2])

    def test_an_empty_file_is_a_new_run(self) -> None:
        self.path.touch()
        self.write({"elbo": 1.0})
        self.assertEqual(len(read_log(self.path).epochs), 2)

    def test_resumes_after_the_kept_epochs(self) -> None:
        kept = CLASSIFIER_LOG[: CLASSIFIER_LOG.index("\nEpoch 4")]
        metrics = {"cent": 1.0, "wd": 2.0, "acc": 3.0}
        for text in (CLASSIFIER_LOG, CLASSIFIER_LOG[:-30], CLASSIFIER_SLIDE):
            self.path.write_text(text)
            with LogWriter(self.path, keep_epochs=3) as log:
                self.assertEqual(self.path.read_text(), kept)
                log.start(4, 0.5)
                log.end(4, 1.0, metrics)
            appended = epoch_header(4, 0.5) + epoch_line(4, 1.0, metrics)
            self.assertEqual(self.path.read_text(), kept + appended)
            self.assertEqual(os.listdir(self.path.parent), ["train.log"])

    def test_keeping_epochs_that_are_not_there_changes_nothing(self) -> None:
        self.path.write_text(CLASSIFIER_LOG)
        for keep in (11, -1):
            with self.assertRaisesRegex(ValueError, f"keep_epochs is {keep}, .* has 10 complete"):
                LogWriter(self.path, keep_epochs=keep)
            self.assertEqual(self.path.read_text(), CLASSIFIER_LOG)
        with self.assertRaises(LogError):
            LogWriter(self.path.with_name("missing.log"), keep_epochs=1)

    def test_a_failed_rewrite_keeps_the_old_log(self) -> None:
        self.path.write_text(CLASSIFIER_LOG)
        with (
            mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")),
            self.assertRaisesRegex(OSError, "cannot write the log, No space left"),
        ):
            LogWriter(self.path, keep_epochs=3)
        self.assertEqual(self.path.read_text(), CLASSIFIER_LOG)

    def test_an_unfinished_epoch_is_discarded(self) -> None:
        with LogWriter(self.path) as log:
            log.start(1, 0.1)
            log.end(1, 0.1, {"elbo": 1.0})
            whole = self.path.read_text()
            log.start(2, 0.1)
            self.assertNotEqual(self.path.read_text(), whole)
            log.close()
            self.assertEqual(self.path.read_text(), whole)
            log.close()
            log.start(2, 0.2)
            log.end(2, 0.1, {"elbo": 2.0})
            whole += epoch_header(2, 0.2) + epoch_line(2, 0.1, {"elbo": 2.0})
            self.assertEqual(self.path.read_text(), whole)
            log.start(3, 0.1)
        self.assertEqual(self.path.read_text(), whole)
        log.close()

    def test_an_interrupted_run_ends_with_a_whole_epoch(self) -> None:
        with self.assertRaises(KeyboardInterrupt), LogWriter(self.path) as log:
            log.start(1, 0.1)
            raise KeyboardInterrupt
        self.assertEqual(self.path.read_text(), "")

    def test_a_killed_run_can_be_read_and_resumed(self) -> None:
        script = (
            "import os, sys; sys.argv[0] = 'tfbdl'\n"
            "from tfbdl.training.log_writer import LogWriter\n"
            "log = LogWriter(sys.argv[1])\n"
            "log.start(1, 0.1); log.end(1, 0.1, {'elbo': 1.0}); log.start(2, 0.1)\n"
            "os.kill(os.getpid(), 9)"
        )
        command = [sys.executable, "-c", script, self.path]
        run = subprocess.run(command, check=False)
        self.assertEqual(run.returncode, -9)
        self.assertTrue(self.path.read_text().endswith(epoch_header(2, 0.1)))
        self.assertEqual(len(read_log(self.path).epochs), 1)
        LogWriter(self.path, keep_epochs=1).close()
        self.assertTrue(self.path.read_text().endswith("elbo 1.000000\n"))

    def test_writes_only_what_can_be_read(self) -> None:
        with LogWriter(self.path) as log:
            with self.assertRaisesRegex(LogError, "expected 'Epoch 1 start"):
                log.end(1, 0.1, {"elbo": 1.0})
            log.start(1, 0.1)
            with self.assertRaisesRegex(LogError, "expected 'train: epoch 1"):
                log.start(2, 0.1)
            log.end(1, 0.1, {"elbo": 1.0})
            log.start(2, 0.1)
            with self.assertRaisesRegex(LogError, "expected the columns elbo"):
                log.end(2, 0.1, {"kl": 1.0})
            log.end(2, 0.1, {"elbo": 1.0})
        self.assertEqual(len(read_log(self.path).epochs), 2)

    def test_an_unwritable_path_is_one_clear_error(self) -> None:
        for path in (self.path.parent, self.path / "train.log", Path("/proc/train.log")):
            with self.assertRaisesRegex(OSError, "cannot write the log, .*; give a writable") as c:
                LogWriter(path)
            self.assertIn(str(path), str(c.exception))
            self.assertNotIn("\n", str(c.exception))

    def test_the_module_needs_no_tensorflow(self) -> None:
        script = (
            "import runpy, sys; runpy.run_path(sys.argv[1])\n"
            "assert not {'tensorflow', 'keras', 'tfbdl'} & sys.modules.keys()"
        )
        subprocess.run([sys.executable, "-c", script, log_module.__file__], check=True)
