"""Whether chains agree, and how many independent draws they are worth.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021, "Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC"), with the details of ArviZ.

The diagnostics of `tfp.mcmc` are older: its R-hat compares means alone, and so sees neither chains
of different spread nor of heavy tails; its effective sample size has no monotone sequence, and
takes short chains that mix slowly for more than they are worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
import scipy.special
import scipy.stats

from tfbdl.arguments import option
from tfbdl.examples import as_array

FEWEST = 4
TAILS = (0.05, 0.95)


def rhat(samples: Any) -> np.ndarray:
    """Rank-normalised split R-hat, section 4.1: near 1 where the chains have one distribution.

    Each chain is split into halves, so that one chain has an R-hat too. The result is the greater
    of two: R-hat of the samples' ranks, and R-hat of the ranks of their distances to the median.
    Vehtari et al. ask for less than 1.01.

    Args:
        samples: shape (S, C, ...), S samples of each of C chains.

    Returns:
        Shape (...); NaN where the samples are all equal or not finite.

    Raises:
        ValueError: if S < 4, or the samples are no such array.
    """
    halves = _split(samples)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))


def ess(samples: Any, kind: str = "bulk") -> np.ndarray:
    """Effective sample size: how many independent draws would say as much; sections 3.2 and 4.3.

    Autocorrelations are summed by Geyer's initial monotone sequence over all chains together, so
    that chains that disagree count for little. It is at most S C log10(S C).

    Args:
        samples: shape (S, C, ...), S samples of each of C chains.
        kind: "bulk" counts by the ranks, for the centre of the distribution; "tail" takes the
            lesser of the sizes for the 5 % and 95 % quantiles; "mean" counts by the values, and the
            standard error of the mean is then sd / sqrt(ess).

    Returns:
        Shape (...); S C where the samples are all equal, NaN where they are not finite.

    Raises:
        ValueError: if S < 4, the samples are no such array, or the kind is unknown.
    """
    option("kind", kind, ("bulk", "tail", "mean"))
    halves = _split(samples)
    if kind == "bulk":
        return _ess(_normal_scores(halves))
    if kind == "mean":
        return _ess(halves)
    values = np.asarray(samples, np.float64)
    quantiles = np.quantile(values, TAILS, axis=(0, 1))
    return np.minimum(*(_ess(_split(values <= quantile)) for quantile in quantiles))


def bfmi(energy: Any) -> np.ndarray:
    """The energy's Bayesian fraction of missing information, E-BFMI, of each chain: shape (C,).

    sum_s (E_s - E_{s-1})^2 / (S - 1) over the variance of the energy (Betancourt 2016, "Diagnosing
    suboptimal cotangent disintegrations in Hamiltonian Monte Carlo", equation 2). Momenta drawn
    anew should take a chain to any energy of the target at once; below about 0.3 they do not, and
    the tails are explored slowly, as those of a funnel.

    Args:
        energy: the energy of each sample, shape (S, C), without thinning, which makes the fraction
            larger.

    Returns:
        Shape (C,); NaN where the energy is constant or not finite.

    Raises:
        ValueError: if S < 4, or the energies are no such array.
    """
    energy = as_array("energy", energy).astype(np.float64)
    if energy.ndim != 2 or not energy.shape[1] or len(energy) < FEWEST:
        raise ValueError(
            f"energy has shape {energy.shape}; give (S, C), at least {FEWEST} of each of C chains"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.square(np.diff(energy, axis=0)).mean(axis=0) / energy.var(axis=0, ddof=1)


def _split(samples: Any) -> np.ndarray:
    """The two halves of each chain as chains, in float64; a sample in the middle is left out."""
    samples = as_array("samples", samples).astype(np.float64)
    if samples.ndim < 2 or not samples.shape[1]:
        raise ValueError(f"samples has shape {samples.shape}; give (S, C, ...), of C chains")
    if len(samples) < FEWEST:
        raise ValueError(
            f"num_samples={len(samples)} is too few for diagnostics; take at least {FEWEST}"
        )
    half = len(samples) // 2
    return np.concatenate([samples[:half], samples[-half:]], axis=1)


def _normal_scores(samples: np.ndarray) -> np.ndarray:
    """Ranks over all chains, as quantiles of the standard normal, equation 14."""
    flat = samples.reshape(samples.shape[0] * samples.shape[1], -1)
    ranks = scipy.stats.rankdata(flat, axis=0)
    ranks[:, ~np.isfinite(flat).all(axis=0)] = np.nan
    return scipy.special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(samples.shape)


def _rhat(samples: np.ndarray) -> np.ndarray:
    """Equations 1 to 4."""
    n = len(samples)
    between = n * samples.mean(axis=0).var(axis=0, ddof=1)
    within = samples.var(axis=0, ddof=1).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((between / within + n - 1) / n)


def _ess(samples: np.ndarray) -> np.ndarray:
    """Equations 10 to 13, for chains (n, m, ...)."""
    n, m = samples.shape[:2]
    autocovariance = _autocovariance(samples).mean(axis=1)
    within = autocovariance[0] * n / (n - 1)
    var_plus = autocovariance[0] + (samples.mean(axis=0).var(axis=0, ddof=1) if m > 1 else 0.0)
    constant = var_plus == 0
    rho = 1 - (within - autocovariance) / np.where(constant, 1.0, var_plus)
    rho[0] = 1.0
    last = max((n - 3) // 2, 0)
    even, odd = rho[0 : 2 * last + 1 : 2], rho[1 : 2 * last + 2 : 2]
    pairs = even + odd
    ended = pairs <= 0
    ended[-1] = True
    end = ended.argmax(axis=0)[None]
    index = np.arange(last + 1).reshape(-1, *[1] * (pairs.ndim - 1))
    monotone = np.minimum.accumulate(np.where(index < end, pairs, 0.0), axis=0)
    left = np.take_along_axis(np.where((even > 0) | (pairs >= 0), even, 0.0), end, axis=0)[0]
    tau = -1 + 2 * monotone.sum(axis=0) + left
    size = np.where(constant, 1.0, 1 / np.maximum(tau, 1 / np.log10(n * m))) * n * m
    return np.where(np.isfinite(samples).all(axis=(0, 1)), size, np.nan)


def _autocovariance(samples: np.ndarray) -> np.ndarray:
    """The autocovariance of each chain at all lags, divided by n whatever the lag."""
    n = len(samples)
    centred = samples - samples.mean(axis=0)
    length = scipy.fft.next_fast_len(2 * n)
    spectrum = scipy.fft.rfft(centred, length, axis=0)
    return scipy.fft.irfft(np.abs(spectrum) ** 2, length, axis=0)[:n] / n
