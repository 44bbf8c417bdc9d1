"""Markov chains: kernels, their adaptation, runs, storage, diagnostics."""

from tfbdl.inference.mcmc.chains import SamplingError
from tfbdl.inference.mcmc.diagnostics import bfmi, ess, rhat
from tfbdl.inference.mcmc.mcmc import MCMC

__all__ = ["MCMC", "SamplingError", "bfmi", "ess", "rhat"]
