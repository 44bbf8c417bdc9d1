"""Likelihoods, on outputs such as each is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from soak.calls.case import LABELS, TARGETS, Case, Made, N, is_true, shaped
from tfbdl import likelihoods

LOGITS = np.linspace(-2.0, 2.0, 3 * N, dtype="float32").reshape(N, 3)
PROBABILITIES = np.asarray(tf.nn.softmax(LOGITS))
YES_NO = (LABELS > 0).astype("float32")[:, None]


def _loss(kind: type, **given: Any) -> dict[str, Any]:
    """Value, mean, noise and entropy for outputs such as the likelihood is for."""
    likelihood = kind(**given)
    y, outputs = TARGETS, TARGETS + 0.5
    if kind is likelihoods.Categorical:
        y, outputs = LABELS, LOGITS if is_true(given["from_logits"]) else PROBABILITIES
    elif kind is likelihoods.Bernoulli:
        y, outputs = (
            YES_NO,
            LOGITS[:, :1] if is_true(given["from_logits"]) else PROBABILITIES[:, :1],
        )
    elif kind is likelihoods.Expected:
        outputs = np.concatenate([outputs, outputs**2], axis=1)
    elif kind is likelihoods.ContinuousBernoulli:
        y = YES_NO
    elif kind is likelihoods.Poisson:
        y = LABELS[:, None]
    elif kind is likelihoods.LogNormal:
        y = np.exp(TARGETS)
    elif kind is likelihoods.NegativeBinomial:
        y, outputs = LABELS[:, None], np.concatenate([outputs, outputs], axis=1)
    elif kind is likelihoods.Gamma:
        y = np.exp(TARGETS)
    elif kind is likelihoods.Beta:
        y = 1.0 / (1.0 + np.exp(-TARGETS))
        outputs = np.concatenate([outputs, outputs], axis=1)
    elif kind in (likelihoods.NormalMixture, likelihoods.Quantiles):
        columns = [k * outputs for k in range(likelihood.outputs_per_function)]
        outputs = np.concatenate(columns, axis=1)
    elif likelihood.scale == "predicted":
        outputs = np.concatenate([outputs, outputs], axis=1)
    mean, variance = likelihood.mean(outputs), likelihood.variance(outputs)
    if kind is likelihoods.LogNormal:  # documented: they overflow, at large scales
        mean, variance = (tf.minimum(v, v.dtype.max) for v in (mean, variance))
    log_prob = {
        "loss": likelihood(y, outputs),
        "log_prob": shaped(likelihood.log_prob(y, outputs), N),
        "mean": shaped(mean, N, 3 if kind is likelihoods.Categorical else 1),
        "variance": variance,
        "config": likelihood.get_config(),
    }
    likelihood.check(tf.constant(outputs))
    likelihood.check_targets(y, tf.constant(outputs))
    return log_prob


def _joint(**given: Any) -> Any:
    joint = likelihoods.Joint(**given)
    y = keras.tree.map_structure(lambda _: TARGETS, joint.likelihoods)
    return {"log_prob": shaped(joint.log_prob(y, y), N), "config": joint.get_config()}


def cases() -> Iterator[Case]:
    """Each class, `get` and `of_loss`."""
    name = {"name": ("a", Made(lambda: "b"))}
    families = {
        "Normal": {"scale": (1.0, 0.5)},
        "Normal, 'predicted'": {"scale": ("predicted", "predicted ")},
        "LogNormal": {"scale": (1.0, 0.5)},
        "StudentT": {"scale": (1.0, 0.5), "df": (4.0, 5.0)},
        "Categorical": {"from_logits": (True, False), "ignore_class": (None, 1)},
        "Bernoulli": {"from_logits": (True, False)},
        "ContinuousBernoulli": {},
        "Poisson": {},
        "NegativeBinomial": {},
        "Gamma": {"shape": (1.0, 0.5)},
        "Beta": {},
        "Quantiles": {"levels": ((0.1, 0.9), (0.2, 0.5, 0.7)), "scale": (1.0, 0.5)},
        "NormalMixture": {"num_components": (2, 3)},
        "Expected": {"likelihood": (likelihoods.Normal(0.5), likelihoods.Normal(2.0))},
    }
    for family, arguments in families.items():
        kind = getattr(likelihoods, family.partition(",")[0])
        yield Case(
            f"tfbdl.likelihoods.{family}",
            kind,
            lambda kind=kind, **given: _loss(kind, **given),
            {**arguments, **name},
        )
    yield Case(
        "tfbdl.likelihoods.Joint",
        likelihoods.Joint,
        _joint,
        {
            "likelihoods": ({"a": likelihoods.Normal()}, {"a": likelihoods.StudentT()}),
            "weights": ({"a": 1.0}, {"a": 0.5}),
            **name,
        },
    )
    crossentropies = ("sparse_categorical_crossentropy", "binary_crossentropy")
    of_loss = likelihoods.of_loss
    yield Case("tfbdl.likelihoods.of_loss", of_loss, of_loss, {"loss": crossentropies})
    get = likelihoods.get
    yield Case("tfbdl.likelihoods.get", get, get, {"likelihood": ("student_t", "poisson")})


BASES = (likelihoods.Likelihood,)
"""What cannot be used itself."""
