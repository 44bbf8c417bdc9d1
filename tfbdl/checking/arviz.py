"""Functions of posteriors, and data at their x, for ArviZ."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, likelihoods, random
from tfbdl.arguments import instance
from tfbdl.calls import apart
from tfbdl.inference import MCMC
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.positions import masks_of
from tfbdl.model_arguments import output_on
from tfbdl.predictive import Prediction
from tfbdl.predictive.replicates import log_likelihoods, replicated
from tfbdl.sources import NO_INPUTS


def to_arviz(source: Prediction | MCMC, y: Any, x: Any = None, *, seed: int = 0) -> Any:
    """An `arviz.InferenceData` of the functions of a posterior, and of data y.

    Its groups are `log_likelihood`, log p(y | f(x)) of each function and example, which `arviz.loo`
    and `arviz.waic` take; `posterior_predictive`, as `replicate` makes it, for `arviz.plot_ppc`;
    and `observed_data`. For `MCMC` the groups of `MCMC.to_arviz` are there as well, with the chains
    apart. For a prediction the group `posterior` holds the outputs, and its functions count as one
    chain of independent draws.

    Args:
        source: a fitted `inference.MCMC`, or what `tfbdl.predict` gives at the x that a posterior
            was fitted to, with the functions kept (`return_samples=True`) and a likelihood.
        y: the targets that it was fitted to, shape (N, ...).
        x: the inputs there, shape (N, ...), for `MCMC`; None for a prediction, which has its own.
        seed: an integer of 64 bits, of the noise of `posterior_predictive`.

    Raises:
        ImportError: if ArviZ is missing.
        ValueError: if the functions were not kept, no likelihood is known, or x or y does not fit.
    """
    try:
        import arviz  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_arviz needs ArviZ; pip install 'tfbdl[arviz]'") from None
    wanted = "a fitted inference.MCMC, or what tfbdl.predict gives"
    instance("source", source, (Prediction, MCMC), wanted)
    seed = arguments.seed("seed", seed)
    if isinstance(source, MCMC):
        if x is None:
            raise ValueError(NO_INPUTS)
        chains = np.swapaxes(source.outputs(x), 0, 1)
        likelihood = likelihoods.required_likelihood(source.model, source.likelihood)
        inputs = keras.tree.map_structure(tf.constant, x)
        (mask,) = masks_of(apart()(output_on)(source.model, inputs))
        groups = _groups(chains, likelihood, y, seed, mask)
        return source.to_arviz() + arviz.from_dict(**groups)
    if x is not None:
        raise ValueError("x is for MCMC; a prediction has its own, so leave x out")
    functions, likelihood = kept(source)
    groups = _groups(functions[np.newaxis], likelihood, y, seed, source.mask)
    return arviz.from_dict(posterior={"f(x)": functions[np.newaxis]}, **groups)


def kept(prediction: Prediction) -> tuple[np.ndarray, Likelihood]:
    """The functions of a prediction, (S, N, ...), and its likelihood.

    Raises:
        ValueError: if it has not both.
    """
    if prediction.likelihood is None:
        raise ValueError("prediction has no likelihood, and so no noise; give predict one")
    if prediction.outputs is None:
        raise ValueError("prediction kept no functions; call predict with return_samples=True")
    return prediction.outputs, prediction.likelihood


def _groups(
    outputs: np.ndarray, likelihood: Likelihood, y: Any, seed: int, mask: Any = None
) -> Any:
    """The groups of data, from the network's outputs for each sample, (C, S, N, ...)."""
    chains, size = outputs.shape[:2]
    functions = outputs.reshape(-1, *outputs.shape[2:])
    logs = log_likelihoods(functions, likelihood, y, mask)
    made = replicated(functions, likelihood, random.key_of(seed, "replicates"))
    return {
        "log_likelihood": {"y": logs.reshape(chains, size, -1)},
        "posterior_predictive": {"y": made.reshape(chains, size, *made.shape[1:])},
        "observed_data": {"y": np.reshape(y, made.shape[1:])},
    }
