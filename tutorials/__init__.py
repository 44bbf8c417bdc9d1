"""The lecture course as programs, run from the top level: `python -m tutorials.part1_vae`."""

import os

os.environ["TFBDL_QUIET"] = "1"
