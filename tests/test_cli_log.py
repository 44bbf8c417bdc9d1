"""The command `tfbdl log`: its table, figure, errors and exit codes."""

import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tfbdl.cli import main
from tfbdl.training.log import epoch_header, epoch_line

PNG = b"\x89PNG\r\n"


class LogCommandTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def write(self, run: str, **metrics: list[float]) -> Path:
        path = self.root / run / "train.log"
        path.parent.mkdir(parents=True)
        rows = [dict(zip(metrics, row, strict=True)) for row in zip(*metrics.values(), strict=True)]
        path.write_text(
            "".join(
                epoch_header(epoch, 0.001) + epoch_line(epoch, 0.5, row)
                for epoch, row in enumerate(rows, 1)
            )
        )
        return path

    def run_log(self, *args: str | Path, width: int = 80) -> tuple[int, list[str], str]:
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, {"COLUMNS": str(width)}),
        ):
            try:
                code = main(["log", *map(str, args)])
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, out.getvalue().splitlines(), err.getvalue()

    def assert_one_error(self, err: str, text: str) -> None:
        self.assertTrue(err.startswith("tfbdl: error: "), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn(text, err)

    def test_starts_without_tensorflow(self) -> None:
        log = self.write("vae", elbo=[-400.0, -300.0])
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "tfbdl", "log", str(log)],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertIn("tfbdl.training.log", done.stderr)
        for slow in ("tensorflow", "keras", "sklearn"):
            self.assertNotRegex(done.stderr, rf"\| +{slow}\n")

    def test_table_and_figure(self) -> None:
        vae = self.write("vae", elbo=[-400.160945, -218.883324, -100.0, -206.140288])
        bnn = self.write("bnn", cent=[2.0, 0.5, 1.0], acc=[0.25, 0.75, 0.5])
        code, lines, err = self.run_log(vae, bnn.parent)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([line.rstrip() for line in lines if "─" not in line], [
            "run      epochs secs /epoch last lr metric  first   last best curve",
            "vae           4  2.0    0.5   0.001 elbo   -400.2 -206.1 -100 ▁▅█▆",
            "bnn           3  1.5    0.5   0.001 cent        2      1  0.5 █▁▃",
            "                                    acc      0.25    0.5 0.75 ▁█▅",
            f"figure: {vae.with_name('train_log.png')}",
        ])  # fmt: skip
        self.assertTrue(vae.with_name("train_log.png").read_bytes().startswith(PNG))

    def test_runs_are_named_by_what_distinguishes_them(self) -> None:
        for run in ("a/x", "b/x", "b/y"):
            self.write(run, elbo=[1.0])
        other = self.root / "b" / "other.log"
        other.write_bytes((self.root / "a/x/train.log").read_bytes())
        paths = [self.root / "a/x", self.root / "b/x/train.log", self.root / "b/y", other]
        _, lines, _ = self.run_log(*paths, paths[0])
        names = [line.split()[0] for line in lines[2:-1]]
        self.assertEqual(names, ["a/x", "b/x", "y", "other.log"])

    def test_a_diverged_run_and_a_run_without_epochs(self) -> None:
        bad = self.write("bad", elbo=[-2.0, float("nan"), -1.0, float("inf")])
        lost = self.write("lost", loss=[float("nan")] * 3)
        new = self.write("new")
        code, lines, _ = self.run_log(bad, lost, new)
        self.assertEqual(code, 0)
        self.assertIn("-2  inf   -1 ▁!█!", lines[2])
        self.assertIn("nan  nan  nan !!!", lines[3])
        self.assertEqual(lines[4].split(), ["new", "0"])

    def test_the_table_fits_the_terminal_and_keeps_its_numbers(self) -> None:
        values = [-400.160945 + i for i in range(200)]
        path = self.write("a_long_name_of_a_run", elbo=values, kl=values)
        for width, curve in ((40, 8), (80, 8), (120, 40), (300, 40)):
            _, lines, _ = self.run_log(path, "--force", width=width)
            self.assertLessEqual(max(map(len, lines[:-1])), max(width, 80))
            self.assertEqual(len(lines[2].split()[-1]), curve)
            self.assertIn("-400.2 -201.2 -201.2", lines[2])

    def test_markup_in_names_is_text(self) -> None:
        path = self.write("[red]", **{"[bold]": [1.0], "$x": [2.0]})
        code, lines, _ = self.run_log(path)
        self.assertEqual(code, 0)
        self.assertIn("[red]", lines[2])
        self.assertIn("[bold]", lines[2])

    def test_an_existing_figure_is_kept_without_force(self) -> None:
        path = self.write("run", elbo=[1.0, 2.0])
        figure = self.root / "curves.png"
        figure.write_text("precious")
        code, lines, err = self.run_log(path, "--figure", figure)
        self.assertEqual((code, figure.read_text()), (1, "precious"))
        self.assertIn("elbo", lines[2])
        self.assert_one_error(err, f"{figure}: already exists; add --force")
        code, _, err = self.run_log(path, "--figure", figure, "--force")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(figure.read_bytes().startswith(PNG))

    def test_a_full_disk_costs_no_figure(self) -> None:
        path = self.write("run", elbo=[1.0, 2.0])
        figure = self.root / "curves.png"
        figure.write_text("precious")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            code, _, err = self.run_log(path, "--figure", figure, "--force")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertEqual((code, figure.read_text()), (1, "precious"))
        self.assert_one_error(err, f"{figure}: cannot write, File too large")
        self.assertEqual({p.name for p in self.root.iterdir()}, {"run", "curves.png"})

    def test_figures_that_cannot_be_drawn(self) -> None:
        path = self.write("run", elbo=[1.0])
        for figure, text in (("no/curves.png", "cannot write, No such"), ("a.xyz", "'xyz' is not")):
            code, lines, err = self.run_log(path, "--figure", self.root / figure)
            self.assertEqual(code, 1)
            self.assertIn("elbo", lines[2])
            self.assert_one_error(err, text)
        code, _, err = self.run_log(self.write("new"))
        self.assertEqual(code, 1)
        self.assert_one_error(err, "no complete epoch, so no figure")

    def test_the_suffix_chooses_the_format_and_none_means_png(self) -> None:
        path = self.write("run", elbo=[1.0])
        for name, start in (("a.pdf", b"%PDF"), ("a.svg", b"<?xml"), ("a", PNG)):
            code, _, _ = self.run_log(path, "--figure", self.root / name)
            self.assertEqual(code, 0)
            self.assertTrue((self.root / name).read_bytes().startswith(start))

    def test_unreadable_logs(self) -> None:
        good = self.write("run", elbo=[1.0])
        other = self.root / "other.txt"
        other.write_text("hello\n")
        for path, text in (
            (other, f"{other}, line 1: expected 'Epoch 1 start"),
            (self.root / "missing", "cannot read, No such file"),
            (self.root, f"{self.root / 'train.log'}: cannot read"),
        ):
            code, lines, err = self.run_log(good, path)
            self.assertEqual((code, lines), (2, []))
            self.assert_one_error(err, text)

    def test_wrong_usage_and_help(self) -> None:
        for args in ((), ("x", "--unknown")):
            code, _, err = self.run_log(*args)
            self.assertEqual(code, 2)
            self.assert_one_error(err, "--help")
        code, lines, _ = self.run_log("--help")
        self.assertEqual(code, 0)
        self.assertIn("  tfbdl log results/vae results/bnn/train.log --figure curves.png", lines)
