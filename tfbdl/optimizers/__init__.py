"""Stochastic-gradient Markov chain Monte Carlo as Keras optimizers."""

from tfbdl.optimizers.cyclical import CyclicalSchedule
from tfbdl.optimizers.preconditioned_sghmc import PreconditionedSGHMC
from tfbdl.optimizers.preconditioned_sgld import PreconditionedSGLD
from tfbdl.optimizers.sghmc import SGHMC
from tfbdl.optimizers.sgld import SGLD

__all__ = ["SGHMC", "SGLD", "CyclicalSchedule", "PreconditionedSGHMC", "PreconditionedSGLD"]
