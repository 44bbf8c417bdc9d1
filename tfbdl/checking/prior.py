"""What the priors hold for likely: predictions of functions whose weights are drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import reduce
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, likelihoods, random
from tfbdl.arguments import optional, positive_integer
from tfbdl.calls import apart
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.flat_model import FlatModel
from tfbdl.inference.weight_priors import is_joint, prior_of_each
from tfbdl.keras_private import walk
from tfbdl.likelihoods import Likelihood, LikelihoodLike
from tfbdl.model_arguments import keras_model
from tfbdl.models import WeightEnsemble
from tfbdl.posteriors import Posterior
from tfbdl.predictive import Prediction, predict
from tfbdl.predictive.functions import Functions
from tfbdl.predictive.moments import Moments, merge, of_one
from tfbdl.predictive.predict import Outputs, in_batches, predictions
from tfbdl.sources import Source
from tfbdl.threads import replaced


def prior_predictive(
    model: keras.Model,
    x: Any,
    num_samples: int = 100,
    *,
    prior: Any = None,
    batch_size: int | None = None,
    seed: int = 0,
    likelihood: LikelihoodLike | None = None,
) -> Prediction:
    """The prediction of functions whose weights are drawn from their priors, before any data.

    Its mean, its intervals and the data that `replicate` makes from it should be values that y
    could have: priors that look vague on weights may be absurd on functions (Gelman et al. 2020,
    "Bayesian workflow", section 2.4). The functions are kept.

    Args:
        model: a model with random layers, each weight of which has its prior; all other weights
            stay as they are. Or any model, beside `prior`.
        x: inputs, in every form that `tfbdl.predict` takes.
        num_samples: S, the number of functions.
        prior: p(w) of all weights of a model without random layers, as `inference.MCMC` takes it:
            one prior, or a mapping from names to priors.
        batch_size: as in `tfbdl.predict`.
        seed: an integer of 64 bits; equal seeds draw equal functions.
        likelihood: as in `tfbdl.predict`.

    Raises:
        ValueError: if an argument is out of its range, nothing has a prior, or a prior is improper,
            joint, or has no samples.
    """
    keras_model("model", model)
    num_samples = positive_integer("num_samples", num_samples)
    optional(positive_integer, "batch_size", batch_size)
    seed = arguments.seed("seed", seed)
    source = Source.of(x, model)
    given = likelihoods.of_model(model, likelihood)
    if prior is not None:
        return predict(
            _drawn(model, prior, num_samples, seed),
            source,
            num_samples,
            batch_size=batch_size,
            seed=seed,
            likelihood=given,
            return_samples=True,
            verbose=0,
        )
    return _of_layers(model, source, num_samples, given, batch_size=batch_size, seed=seed)


def _drawn(model: keras.Model, prior: Any, num_samples: int, seed: int) -> WeightEnsemble:
    """The model with weights from a prior that is given."""
    if any(isinstance(layer, Posterior) for layer in walk(model)):
        raise ValueError(f"prior is given, but layers of model={model.name} have theirs; leave it")
    if is_joint(prior) and not isinstance(prior, Mapping):
        raise ValueError("prior is a function, which cannot be drawn from; give priors of weights")
    flat = FlatModel(model)
    flat.check_no_scales()
    priors = prior_of_each(prior, flat)
    key = random.key_of(seed, "prior predictive")

    def theta(key: tf.Tensor) -> np.ndarray:
        parts = zip(priors, flat.shapes.values(), strict=True)
        weights = [p.sample(random.fold_in(key, i), shape) for i, (p, shape) in enumerate(parts)]
        return np.concatenate([np.ravel(w) for w in weights])

    members = np.stack([theta(k) for k in random.split(key, num_samples)])
    return WeightEnsemble(model, members.astype("float32"))


def _of_layers(
    model: keras.Model,
    source: Source,
    num_samples: int,
    likelihood: Likelihood | None,
    *,
    batch_size: int | None,
    seed: int,
) -> Prediction:
    """The prediction of random layers whose weights come from their priors."""
    moments: list[Moments] = []
    drawn: list[list[np.ndarray]] = []
    outputs = Outputs(Functions.of(model, likelihood))
    function: Callable[..., tf.Tensor] | None = None
    with ExitStack() as stack:
        for batch in in_batches(source, batch_size, needs_y=False).parts:
            outputs.add(batch)
            if function is None:
                if keras.tree.is_nested(outputs.some):
                    raise ValueError(f"model={model.name} has several outputs; give one of them")
                _draw_from_priors(model, stack)
                function = _function(model)
            of_each = [
                function(batch.x, make_draw(seed, s))[: batch.size] for s in range(num_samples)
            ]
            moments.append(reduce(merge, (_in_float64(of_one(f, likelihood)) for f in of_each)))
            drawn.append([np.stack([f.numpy() for f in of_each])])
    return predictions(model, likelihood, outputs, moments, drawn, num_samples=num_samples)


def _function(model: keras.Model) -> Callable[..., tf.Tensor]:
    """The model's output for inputs and a draw, as a graph that no other call uses."""
    sampler = DrawnModel(model)

    @tf.function(autograph=False)
    @apart()
    def drawn(x: Any, draw: tf.Tensor) -> tf.Tensor:
        return sampler(x, draw=draw)

    return drawn


def _draw_from_priors(model: keras.Model, stack: ExitStack) -> None:
    """Has all posteriors in the model draw from their priors, in this thread, on the stack.

    Raises:
        ValueError: if there are none.
    """
    random_weights = [q for q in walk(model) if isinstance(q, Posterior) and hasattr(q, "prior")]
    if not random_weights:
        raise ValueError(
            f"model={model.name} has no layer with priors; give prior=, such as prior=1.0"
        )
    for q in random_weights:
        shape, dtype = tuple(q.mean.shape), q.mean.dtype

        def sample(key: tf.Tensor, p: Any = q.prior, s: Any = shape, t: Any = dtype) -> tf.Tensor:
            return tf.cast(p.sample(key, s), t)

        stack.enter_context(replaced(q, "sample", lambda _, sample=sample: sample))


def _in_float64(moments: Moments) -> Moments:
    return Moments(*(np.asarray(value, np.float64) for value in moments))
