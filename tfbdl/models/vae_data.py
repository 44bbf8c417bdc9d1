"""The data that a VAE takes, and their likelihoods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.arguments import shown
from tfbdl.example_weights import sample_weights
from tfbdl.examples import as_array, check_finite, examples
from tfbdl.likelihoods import Bernoulli, ContinuousBernoulli, Likelihood, LikelihoodLike

_OF_PIXELS = Bernoulli, ContinuousBernoulli


def likelihood_of(given: LikelihoodLike, *, own_decoder: bool) -> Likelihood:
    """The likelihood of x that a user means.

    Raises:
        ValueError: if it is not one of numbers, each with outputs of its own; or one of
            probabilities, which the decoder that is made here does not give.
    """
    likelihood = likelihoods.get(given)
    if isinstance(likelihood, (likelihoods.Categorical, likelihoods.Joint)):
        raise ValueError(
            f"likelihood={shown(given)} is not for elements of x; choose 'bernoulli' or "
            "'continuous_bernoulli' for pixels, or one of real numbers, positive ones or counts"
        )
    if not getattr(likelihood, "from_logits", True) and not own_decoder:
        raise ValueError(
            f"likelihood={shown(given)} takes probabilities, and the decoder that is made here "
            "gives logits; leave from_logits out, or give a decoder that ends in a sigmoid"
        )
    return likelihood


def outputs_shape(likelihood: Likelihood, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the decoder's outputs for an x of `shape`: longer, where they hold scales."""
    return (*shape[:-1], likelihood.outputs_per_function * shape[-1])


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


def check_fed(data: Any, likelihood: Likelihood, shape: tuple[int, ...] | None) -> None:
    """Checks arrays, or the first of batches that can be read again, as `check` does."""
    if not are_in_batches(data):
        check(data, likelihood, shape)
        return
    check_spec(data, shape)
    first = None
    if isinstance(data, keras.utils.PyDataset):
        first = data[0]
    elif isinstance(data, tf.data.Dataset):
        first = next(iter(data.take(1)), None)
    x = first[0] if isinstance(first, (tuple, list)) else first
    if x is not None:
        check(x, likelihood, shape)


def with_weights(x: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Targets and weights; weights bring targets with them, which nothing looks at.

    Keras drops weights that come without targets.

    Raises:
        ValueError: unless there is one weight of at least 0 for each example.
    """
    if sample_weight is None or are_in_batches(x):
        return y, sample_weight
    return np.zeros(len(x)) if y is None else y, sample_weights(sample_weight, len(x))


def check(x: Any, likelihood: Likelihood, shape: tuple[int, ...] | None) -> np.ndarray:
    """X as an array of examples of a shape, with values that the likelihood has.

    Args:
        x: the value that was given.
        likelihood: the likelihood of the elements of x.
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
    check_finite("x", x, "float32")
    if isinstance(likelihood, _OF_PIXELS):
        if x.min() < 0 or x.max() > 1:
            raise ValueError(
                f"x has values from {x.min():g} to {x.max():g}; likelihood={likelihood} needs "
                "pixels in [0, 1] (divide by 255)"
            )
        return x
    try:
        likelihood.check_targets(x, tf.zeros([1, *outputs_shape(likelihood, x.shape[1:])]))
    except ValueError as error:
        raise ValueError(str(error).replace("y has", "x has", 1)) from None
    return x


def check_with_codes(x: Any, z: Any, vae: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """A VAE's data, and a code for each.

    Raises:
        ValueError: if x is not what `check` wants, or z not finite, or their shapes are others.
    """
    x = check(x, vae.likelihood, vae.data_shape)
    z = examples("z", z, "float32")
    if z.shape != (len(x), vae.latent_dim):
        raise ValueError(f"z has shape {z.shape}; give {(len(x), vae.latent_dim)}")
    return tf.constant(x, tf.float32), tf.constant(z, tf.float32)
