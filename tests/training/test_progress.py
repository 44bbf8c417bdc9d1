"""What a training run shows in a terminal."""

import fcntl
import multiprocessing
import os
import pty
import re
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
from absl.testing import absltest

import tfbdl

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])
BAR = re.compile("[━╸╺]{5}")


def train_in(tty: Any, folder: Any, what: Any) -> None:
    """Trains a small model with the terminal `tty` as its screen."""
    for name in ("NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CI"):
        os.environ.pop(name, None)
    os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
    screen = os.open(tty, os.O_RDWR)
    os.dup2(screen, 1)
    os.dup2(screen, 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)

    def slowly(epoch: int, logs: Any) -> None:
        time.sleep(0.15)
        if what == "callback prints":
            print(f"said by a callback in epoch {epoch + 1}")
        if what == "fails" and epoch == 1:
            model.layers[-1].kernel.assign(np.full((2, 1), np.nan))
        if what == "interrupt" and epoch == 1:
            raise KeyboardInterrupt

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    metrics = [keras.metrics.MeanSquaredError(name=f"a_rather_long_name_{i}") for i in range(4)]
    model.compile("sgd", "mse", metrics=metrics if what == "long lines" else [])
    x = np.random.default_rng(0).normal(size=(40, 2)).astype("float32")
    try:
        tfbdl.train(
            model,
            x,
            x[:, :1],
            epochs=3,
            batch_size=4,
            savedir=folder,
            callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=slowly)],
            jit_compile=False,
            verbose=0 if what == "silent" else 1,
        )
    except (tfbdl.TrainingError, KeyboardInterrupt) as error:
        print(type(error).__name__)
    sys.stdout.flush()


class Terminal:
    """As much of a terminal as the bar uses: lines that wrap, a cursor, erasing."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = [""]
        self.continues = [False]  # whether a row is the rest of the row above
        self.row = self.column = 0
        self.cursor_visible = True
        self.unknown: set[Any] = set()

    def feed(self, text: Any) -> None:
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.|[^\x1b]", text, re.DOTALL):
            if part.startswith("\x1b"):
                self.control(part)
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.down()
            else:
                self.put(part)

    def put(self, character: Any) -> None:
        if self.column == self.width:
            self.down()
            self.column = 0
            self.continues[self.row] = True
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
            self.continues.append(False)

    def control(self, code: Any) -> None:
        number = int(re.sub(r"\D", "", code) or 1)
        if code.endswith("A"):
            self.row = max(self.row - number, 0)
        elif code == "\x1b[2K":
            self.rows[self.row] = ""
            self.continues[self.row] = False
        elif code in ("\x1b[?25l", "\x1b[?25h"):
            self.cursor_visible = code.endswith("h")
        elif not code.endswith("m"):
            self.unknown.add(code)

    def lines(self) -> Any:
        """The text on the screen, with the lines that the terminal folded put together."""
        lines: list[Any] = []
        for row, continues in zip(self.rows, self.continues, strict=True):
            if continues:
                lines[-1] += row
            else:
                lines.append(row)
        return [line.rstrip() for line in lines]


class TerminalTest(absltest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory())) / "run"

    def watch(self, what: Any, width: int = 100) -> Any:
        """The screens that a run goes through, the last one at its end, and the terminal."""
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        child = CONTEXT.Process(
            target=train_in, args=(os.ttyname(follower), str(self.folder), what)
        )
        child.start()
        terminal = Terminal(width)
        screens = []
        pending = b""
        os.set_blocking(leader, False)
        while True:
            alive = child.is_alive()
            try:
                pending += os.read(leader, 65536)
            except BlockingIOError:
                if not alive:
                    break
                time.sleep(0.01)
                continue
            try:
                text = pending.decode()
            except UnicodeDecodeError:
                continue
            pending = b""
            terminal.feed(text)
            screens.append(terminal.lines())
        os.close(follower)
        child.join(10)
        self.assertEqual(child.exitcode, 0)
        self.assertEqual(terminal.unknown, set())
        return screens, terminal

    def log_lines(self) -> Any:
        return (self.folder / "train.log").read_text().split("\n")

    def strip_end(self, lines: Any) -> Any:
        while lines and not lines[-1]:
            lines = lines[:-1]
        return lines

    def assert_log_on_screen(self, lines: Any) -> None:
        self.assertEqual(self.strip_end(lines), self.strip_end(self.log_lines()))

    def assert_bar_below_the_log(self, screens: Any) -> None:
        """A bar appeared, below whole lines of the log, and names the step."""
        log = self.log_lines()
        with_bar = [s for s in map(self.strip_end, screens) if s and BAR.search(s[-1])]
        self.assertGreaterEqual(len(with_bar), 3)
        for screen in with_bar:
            above = screen[:-1]
            self.assertEqual(above, log[: len(above)])
        self.assertTrue(any("step 10/10" in screen[-1] for screen in with_bar))
        self.assertTrue(any("1/3" in screen[-1] for screen in with_bar))

    def test_log_and_bar(self) -> None:
        screens, terminal = self.watch("plain")
        self.assert_log_on_screen(terminal.lines())
        self.assert_bar_below_the_log(screens)
        self.assertTrue(terminal.cursor_visible)

    def test_lines_longer_than_the_screen(self) -> None:
        screens, terminal = self.watch("long lines", width=60)
        self.assertGreater(max(map(len, self.log_lines())), 120)
        self.assert_log_on_screen(terminal.lines())
        self.assertTrue(any(BAR.search(line) for screen in screens for line in screen))

    def test_what_callbacks_print(self) -> None:
        _, terminal = self.watch("callback prints")
        lines = terminal.lines()
        for epoch in (1, 2, 3):
            self.assertIn(f"said by a callback in epoch {epoch}", lines)
        self.assert_log_on_screen([line for line in lines if not line.startswith("said")])

    def test_silence(self) -> None:
        screens, _ = self.watch("silent")
        self.assertEqual(screens, [])

    def test_an_error_leaves_the_screen_in_order(self) -> None:
        for what, error in (("fails", "TrainingError"), ("interrupt", "KeyboardInterrupt")):
            with self.subTest(what):
                self.folder = self.folder.with_name(what)
                _, terminal = self.watch(what)
                lines = self.strip_end(terminal.lines())
                self.assertEqual(lines[-1], error)
                self.assertTrue(terminal.cursor_visible)
                self.assertFalse(any(BAR.search(line) for line in lines))
                log = self.strip_end(self.log_lines())
                self.assertEqual(lines[: len(log)], log)


if __name__ == "__main__":
    absltest.main()
