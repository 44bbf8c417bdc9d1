"""Robustness under load and faults: kills, full disks, damaged files, long runs. `make soak`."""
