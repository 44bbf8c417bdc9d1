"""Samplers and variational inference as Keras optimizers."""

from tfbdl.optimizers.cyclical import CyclicalSchedule
from tfbdl.optimizers.drawn_weights import DrawnWeights
from tfbdl.optimizers.ivon import IVON
from tfbdl.optimizers.preconditioned_sghmc import PreconditionedSGHMC
from tfbdl.optimizers.preconditioned_sgld import PreconditionedSGLD
from tfbdl.optimizers.sghmc import SGHMC
from tfbdl.optimizers.sgld import SGLD

__all__ = [
    "IVON",
    "SGHMC",
    "SGLD",
    "CyclicalSchedule",
    "DrawnWeights",
    "PreconditionedSGHMC",
    "PreconditionedSGLD",
]
