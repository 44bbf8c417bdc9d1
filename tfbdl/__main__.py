"""Runs the command line as ``python -m tfbdl``."""

import sys

from tfbdl.cli import main

sys.exit(main())
