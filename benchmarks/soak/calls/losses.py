"""Likelihoods, samplers and their schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from soak.calls.case import LABELS, TARGETS, Case, Made, N, is_true, shaped
from tfbdl import likelihoods, optimizers

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
    elif kind is likelihoods.ContinuousBernoulli:
        y = YES_NO
    elif kind is likelihoods.Poisson:
        y = LABELS[:, None]
    elif likelihood.scale == "predicted":
        outputs = np.concatenate([outputs, outputs], axis=1)
    found = {
        "loss": likelihood(y, outputs),
        "log_prob": shaped(likelihood.log_prob(y, outputs), N),
        "mean": shaped(likelihood.mean(outputs), N, 3 if kind is likelihoods.Categorical else 1),
        "variance": likelihood.variance(outputs),
        "config": likelihood.get_config(),
    }
    likelihood.check(tf.constant(outputs))
    likelihood.check_targets(y, tf.constant(outputs))
    return found


def _steps(kind: type, **given: Any) -> dict[str, Any]:
    """Weights after two steps, and the config."""
    optimizer = kind(**given)
    w = keras.Variable(np.linspace(-1.0, 1.0, 5, dtype="float32"))
    optimizer.build([w])
    for _ in range(2):
        optimizer.apply([tf.convert_to_tensor(w) * 0.1], [w])
    return {"w": shaped(w.numpy(), 5), "config": optimizer.get_config()}


def _of_loss(loss: Any) -> Any:
    return likelihoods.of_loss(loss)


def cases() -> Iterator[Case]:
    """Each class, and `of_loss`."""
    name = {"name": ("a", Made(lambda: "b"))}
    families = {
        "Normal": {"scale": (1.0, 0.5)},
        "Normal, 'predicted'": {"scale": ("predicted", "predicted ")},
        "StudentT": {"scale": (1.0, 0.5), "df": (4.0, 5.0)},
        "Categorical": {"from_logits": (True, False)},
        "Bernoulli": {"from_logits": (True, False)},
        "ContinuousBernoulli": {},
        "Poisson": {},
    }
    for family, arguments in families.items():
        kind = getattr(likelihoods, family.partition(",")[0])
        yield Case(
            f"tfbdl.likelihoods.{family}",
            kind,
            lambda kind=kind, **given: _loss(kind, **given),
            {**arguments, **name},
        )
    crossentropies = ("sparse_categorical_crossentropy", "binary_crossentropy")
    yield Case("tfbdl.likelihoods.of_loss", likelihoods.of_loss, _of_loss, {"loss": crossentropies})
    sampler = {
        "learning_rate": (0.1, 0.2),
        "num_data": (10, 20),
        "temperature": (1.0, 0.5),
        "prior": (1.0, "laplace"),
        "seed": (1, 2),
    }
    of_keras = {
        "weight_decay": (None, 0.1),
        "clipnorm": (None, 1.0),
        "clipvalue": (None, 1.0),
        "global_clipnorm": (None, 1.0),
        "use_ema": (False, True),
        "ema_momentum": (0.99, 0.5),
        "ema_overwrite_frequency": (None, 2),
        "loss_scale_factor": (None, 2.0),
        "gradient_accumulation_steps": (None, 2),
    }
    rho = {"rho": (0.99, 0.9), "epsilon": (1e-5, 1e-4)}
    own = {
        "SGLD": {},
        "SGHMC": {"momentum": (0.9, 0.5)},
        "PreconditionedSGLD": rho,
        "PreconditionedSGHMC": {**rho, "momentum": (0.9, 0.5)},
    }
    for family, arguments in own.items():
        kind = getattr(optimizers, family)
        yield Case(
            f"tfbdl.optimizers.{family}",
            kind,
            lambda kind=kind, **given: _steps(kind, **given),
            {**sampler, **of_keras, **arguments},
        )
    yield Case(
        "tfbdl.optimizers.CyclicalSchedule",
        optimizers.CyclicalSchedule,
        lambda **given: (
            [optimizers.CyclicalSchedule(**given)(i) for i in range(5)]
            + [optimizers.CyclicalSchedule(**given)]
        ),
        {"initial_rate": (0.1, 0.2), "steps_per_cycle": (4, 3), "exploration": (0.5, 0.7)},
    )


BASES = (likelihoods.Likelihood,)
"""What cannot be used itself."""
