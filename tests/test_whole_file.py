"""Files that replace others: whole, on the disk, safe from links, and without litter."""

import contextlib
import multiprocessing
import os
import signal
import stat
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

from tfbdl import whole_file
from tfbdl.whole_file import replacing, write_whole

CONTEXT = multiprocessing.get_context("forkserver")


def half_written(path: Any, pipe: Any) -> None:
    with replacing(path) as file:
        file.write(b"half")
        file.flush()
        pipe.send(file.name)
        pipe.recv()


class WholeFileTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "a.json"

    def write(self, content: Any = b"new") -> None:
        write_whole(self.path, lambda file: file.write(content))

    def assert_only(self, content: Any = b"new") -> None:
        self.assertEqual(self.path.read_bytes(), content)
        self.assertEqual(os.listdir(self.folder), [self.path.name])

    def test_writes_and_replaces(self) -> None:
        for content in (b"first", b""):
            self.write(content)
            self.assert_only(content)

    def test_permissions_are_what_umask_leaves(self) -> None:
        for mask, mode in ((0o022, 0o644), (0o027, 0o640), (0o077, 0o600)):
            before = os.umask(mask)
            try:
                self.write()
            finally:
                os.umask(before)
            self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), mode)

    def test_is_on_the_disk(self) -> None:
        """The file before it has its name, the folder when it has."""
        done = []
        fsync, replace = os.fsync, os.replace

        def synced(descriptor: Any) -> None:
            done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
            fsync(descriptor)

        def replaced(*paths: Any) -> None:
            done.append("name")
            replace(*paths)

        with mock.patch("os.fsync", synced), mock.patch("os.replace", replaced):
            self.write()
        self.assertEqual(done, ["file", "name", "folder"])

    def test_names_cannot_be_foretold(self) -> None:
        names = set()
        for _ in range(20):
            with replacing(self.path) as file:
                names.add(file.name)
                self.assertRegex(Path(file.name).name, r"^\.tfbdl-[0-9a-f]{16}\.tmp$")
        self.assertEqual(len(names), 20)

    def test_links_are_not_followed(self) -> None:
        """Neither one in the place of the file, nor those of the names on the way."""
        victim = self.folder / "victim"
        victim.write_text("precious")
        self.path.symlink_to(victim)
        (self.folder / f".tfbdl-{'a' * 16}.tmp").symlink_to(victim)
        (self.folder / "a.json.tmp").symlink_to(victim)
        with (
            mock.patch("secrets.token_hex", return_value="a" * 16),
            self.assertRaises(FileExistsError),
        ):
            self.write()
        self.write()
        self.assertFalse(self.path.is_symlink())
        self.assertEqual((victim.read_text(), self.path.read_text()), ("precious", "new"))

    def test_devices_and_pipes_stay(self) -> None:
        """As root, a file in the place of /dev/null breaks the machine."""
        os.mkfifo(self.path)
        with self.assertRaisesRegex(OSError, "cannot be written, it is no regular file"):
            self.write()
        self.assertTrue(stat.S_ISFIFO(self.path.stat().st_mode))

    def test_failures_keep_what_was_there(self) -> None:
        self.write(b"old")

        def failing(error: Any) -> Any:
            def write(file: Any) -> None:
                file.write(b"half")
                raise error

            return write

        for error, expected in (
            (
                OSError(28, "No space left on device"),
                "cannot be written, No space left on dev.*stays",
            ),
            (KeyboardInterrupt(), ""),
            (ValueError("mine"), "^mine$"),
        ):
            with self.assertRaisesRegex(type(error), expected):
                write_whole(self.path, failing(error))
            self.assert_only(b"old")
        with (
            mock.patch("os.replace", side_effect=PermissionError(13, "Permission denied")),
            self.assertRaisesRegex(OSError, "cannot be written, Permission denied"),
        ):
            self.write()
        self.assert_only(b"old")
        with self.assertRaisesRegex(OSError, "cannot be written, Is a directory"):
            write_whole(self.folder, lambda file: None)
        with self.assertRaisesRegex(OSError, "cannot be written, No such file or directory"):
            write_whole(self.folder / "none" / "a", lambda file: None)

    def test_what_killed_processes_leave_goes(self) -> None:
        """But not what others are still writing."""
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=half_written, args=(self.path, there))
        process.start()
        name = Path(here.recv())
        self.write()
        self.assertTrue(name.exists())
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        self.assertTrue(name.exists())
        self.write()
        self.assert_only()

    def test_a_file_that_is_taken_for_abandoned_is_made_anew(self) -> None:
        """Between its making and its lock another process may remove it."""
        flock = whole_file.fcntl.flock
        made: list[Any] = []

        def removing(file: Any, how: Any) -> None:
            if not made:
                made.append(file.name)
                os.unlink(file.name)
            flock(file, how)

        with mock.patch("fcntl.flock", removing):
            self.write()
        self.assert_only()

    def test_file_systems_without_locks_or_syncs_of_folders(self) -> None:
        fsync = os.fsync

        def of_files(descriptor: Any) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(22, "Invalid argument")
            fsync(descriptor)

        (self.folder / ".tfbdl-0.tmp").touch()
        with mock.patch("fcntl.flock", side_effect=OSError(95)), mock.patch("os.fsync", of_files):
            self.write()
        self.assertEqual(len(os.listdir(self.folder)), 2)  # whether anybody holds it is not known

    def test_without_fcntl(self) -> None:
        with mock.patch.object(whole_file, "fcntl", None):
            self.write()
        self.assert_only()

    def test_threads(self) -> None:
        def one(k: Any) -> Any:
            write_whole(self.path, lambda file: file.write(b"%d" % k * 5000))
            content = self.path.read_bytes()
            return len(content) == 5000 * len(b"%d" % (content[0] - 48)) and len({*content}) == 1

        with ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(one, [k % 10 for k in range(200)])))
        self.assertEqual(os.listdir(self.folder), [self.path.name])

    def test_any_name(self) -> None:
        for name in ("ä ö/ü.json", "x" * 255, "日本" * 40):
            self.path = self.folder / name
            with contextlib.suppress(FileExistsError):
                self.path.parent.mkdir()
            self.write()
            self.assertEqual(self.path.read_bytes(), b"new")


if __name__ == "__main__":
    unittest.main()
