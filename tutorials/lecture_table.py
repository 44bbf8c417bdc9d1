"""The lecture's table of posterior inference: ResNet-20 on CIFAR-10, beside HMC."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """Parts of the test images, and a distance between distributions."""

    accuracy: float
    agreement: float
    total_variation: float


LECTURE_TABLE = {
    "HMC": Row(0.8964, 0.9401, 0.074),
    "MFVI": Row(0.8645, 0.8875, 0.136),
    "SGLD": Row(0.8932, 0.9154, 0.110),
    "SGHMC": Row(0.8938, 0.9198, 0.109),
    "SGHMC CLR": Row(0.8963, 0.9267, 0.099),
    "SGHMC CLR-Prec": Row(0.8746, 0.9096, 0.111),
}
"""HMC's is of one chain, beside the others."""
