"""The pixels that a VAE takes, and their likelihoods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.arguments import shown
from tfbdl.examples import as_array, examples
from tfbdl.likelihoods import Bernoulli, ContinuousBernoulli, Likelihood, LikelihoodLike


def likelihood_of(given: LikelihoodLike) -> Likelihood:
    """The likelihood of pixels that a user means.

    Raises:
        ValueError: if it is not one of logits.
    """
    likelihood = likelihoods.get(given)
    of_logits = getattr(likelihood, "from_logits", True)
    if not isinstance(likelihood, (Bernoulli, ContinuousBernoulli)) or not of_logits:
        raise ValueError(
            f"likelihood={shown(given)} is not for pixels; choose 'bernoulli' or "
            "'continuous_bernoulli', of logits"
        )
    return likelihood


def are_in_batches(data: Any) -> bool:
    """Whether Keras takes the data a batch at a time: a data set, a generator."""
    return isinstance(data, (Iterator, keras.utils.PyDataset)) or hasattr(data, "element_spec")


def check_spec(data: Any, shape: tuple[int, ...] | None) -> None:
    """Raises ValueError where a data set says that its examples have another shape than this."""
    spec = getattr(data, "element_spec", None)
    first = spec[0] if isinstance(spec, tuple) else spec
    known = getattr(first, "shape", None)
    if known is None or known.rank is None:
        return
    if known.rank < 2 or (shape is not None and not known[1:].is_compatible_with(shape)):
        wanted = "(B, ...)" if shape is None else f"(B, {', '.join(map(str, shape))})"
        raise ValueError(f"x has batches of shape {tuple(known)}; give them of shape {wanted}")


def check(x: Any, likelihood: Likelihood, shape: tuple[int, ...] | None) -> np.ndarray:
    """X as an array of examples of a shape, with values in [0, 1], where the likelihoods hold.

    Args:
        x: the value that was given.
        likelihood: shown in messages.
        shape: the shape of one example; None takes any.

    Raises:
        ValueError: if it is none.
    """
    x = as_array("x", x)
    if x.ndim < 2 or x.size == 0:
        raise ValueError(f"x has shape {x.shape}; give (N, ...) with at least one example")
    if shape is not None and x.shape[1:] != shape:
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"x has shape {x.shape}; this model takes (N, {wanted})")
    if not np.isfinite(x).all():
        raise ValueError("x is not finite; remove or fill in NaN and Inf")
    if x.min() < 0 or x.max() > 1:
        raise ValueError(
            f"x has values from {x.min():g} to {x.max():g}; likelihood={likelihood} needs "
            "pixels in [0, 1] (divide by 255)"
        )
    return x


def check_with_codes(x: Any, z: Any, vae: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Flat pixels of a VAE's data, and a code for each.

    Raises:
        ValueError: if x is not in [0, 1] or z not finite, or their shapes are others.
    """
    x = check(x, vae.likelihood, (math.prod(vae.data_shape),))
    z = examples("z", z, "float32")
    if z.shape != (len(x), vae.latent_dim):
        raise ValueError(f"z has shape {z.shape}; give {(len(x), vae.latent_dim)}")
    return tf.constant(x, tf.float32), tf.constant(z, tf.float32)
