"""Active learning: which of many inputs to have labelled next, from a prediction of all of them."""

from tfbdl.acquire.joint import Batch, batch_bald
from tfbdl.acquire.scores import bald, entropy, top, variation_ratios
from tfbdl.acquire.thompson import thompson

__all__ = ["Batch", "bald", "batch_bald", "entropy", "thompson", "top", "variation_ratios"]
