"""The ``tfbdl`` command line: every subcommand adds itself to one parser."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import NoReturn

import tfbdl
from tfbdl.cli import log, predict, summary
from tfbdl.cli.errors import NotSaved


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand and returns its exit code.

    Args:
        argv: the arguments; None takes those of the process.

    Returns:
        0, or 1 when a result could not be saved, or 2 for wrong arguments or unreadable files.
        An error is one line on stderr.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without unicode blocks
    parser = _Parser(
        prog="tfbdl",
        description="Bayesian deep learning for TensorFlow and Keras.",
        epilog="tfbdl COMMAND --help explains a command, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"tfbdl {tfbdl.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (log, predict, summary):
        command.add_command(subparsers)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except NotSaved as error:
        return _fail(error, 1)
    except (ImportError, OSError, ValueError) as error:
        return _fail(error, 2)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tfbdl: error: {message}; see {self.prog} --help\n")


def _fail(error: Exception, code: int) -> int:
    print("tfbdl: error:", *str(error).splitlines(), file=sys.stderr)
    return code
