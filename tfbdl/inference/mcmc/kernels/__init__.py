"""Transitions of Markov chains, one family a file."""

from tfbdl.identifiers import choose
from tfbdl.inference.mcmc.kernels.base import Adaptive, Kernel
from tfbdl.inference.mcmc.kernels.chees import ChEES
from tfbdl.inference.mcmc.kernels.flip import Flip
from tfbdl.inference.mcmc.kernels.hmc import HMC
from tfbdl.inference.mcmc.kernels.langevin import MALA, Langevin
from tfbdl.inference.mcmc.kernels.mams import MAMS
from tfbdl.inference.mcmc.kernels.mclmc import MCLMC
from tfbdl.inference.mcmc.kernels.nuts import NUTS
from tfbdl.inference.mcmc.kernels.random_walk import RandomWalk

__all__ = [
    "HMC",
    "MALA",
    "MAMS",
    "MCLMC",
    "NUTS",
    "Adaptive",
    "ChEES",
    "Flip",
    "Kernel",
    "Langevin",
    "RandomWalk",
    "get",
]

KERNELS: dict[str, type[Kernel]] = {
    "hmc": HMC,
    "nuts": NUTS,
    "chees": ChEES,
    "mams": MAMS,
    "mclmc": MCLMC,
    "mala": MALA,
    "langevin": Langevin,
    "rwmh": RandomWalk,
    "flip": Flip,
}


def get(kernel: str | Kernel) -> Kernel:
    """The kernel of that name, or `kernel` itself.

    Raises:
        ValueError: if there is none; the message lists the names.
    """
    return choose("kernel", kernel, Kernel, KERNELS)
