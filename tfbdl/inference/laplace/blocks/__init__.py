"""The data's curvature in the forms that it is kept in, one a file."""

from tfbdl.inference.laplace.blocks.base import Block
from tfbdl.inference.laplace.blocks.diagonal import DiagonalBlock
from tfbdl.inference.laplace.blocks.full import FullBlock
from tfbdl.inference.laplace.blocks.kronecker import KroneckerBlock
from tfbdl.inference.laplace.blocks.low_rank import LowRankBlock
from tfbdl.inference.laplace.blocks.subnetwork import SubnetworkBlock

__all__ = [
    "Block",
    "DiagonalBlock",
    "FullBlock",
    "KroneckerBlock",
    "LowRankBlock",
    "SubnetworkBlock",
]
