"""Optimizers that sample, and the schedule of their rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from soak.calls.case import TARGETS, Case, N, X, shaped
from soak.calls.networks import network
from tfbdl import optimizers


def _steps(kind: type, **given: Any) -> dict[str, Any]:
    """Weights after two steps, and the config."""
    optimizer = kind(**given)
    w = keras.Variable(np.linspace(-1.0, 1.0, 5, dtype="float32"))
    optimizer.build([w])
    for _ in range(2):
        optimizer.apply([tf.convert_to_tensor(w) * 0.1], [w])
    return {"w": shaped(w.numpy(), 5), "config": optimizer.get_config()}


def _variational(**given: Any) -> dict[str, Any]:
    """What a short training makes of a line, and the config."""
    optimizer = optimizers.IVON(**given)
    model = network(keras.layers.Dense(1, kernel_initializer="ones"), optimizer=optimizer)
    model.compile(optimizer, "mse", jit_compile=False)
    tfbdl.train(model, X, TARGETS, epochs=2, batch_size=3, verbose=0)
    return {"w": shaped(model.get_weights()[0], 4, 1), "config": optimizer.get_config()}


def _under_fit(**given: Any) -> Any:
    model = network(keras.layers.Dense(1, kernel_initializer="ones"), loss="mse")
    model.compile(optimizers.IVON(num_data=N, seed=1), "mse", jit_compile=False)
    callbacks = [optimizers.DrawnWeights(**given)]
    return model.fit(X, TARGETS, batch_size=3, verbose=0, callbacks=callbacks).history


def _rates(**given: Any) -> list[Any]:
    schedule = optimizers.CyclicalSchedule(**given)
    return [schedule, *(schedule(step) for step in range(5))]


def cases() -> Iterator[Case]:
    """Each class."""
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
    ivon = {
        **{name: sampler[name] for name in ("learning_rate", "num_data", "temperature", "seed")},
        **of_keras,
        "prior": (1.0, 0.5),
        "beta_1": (0.9, 0.5),
        "beta_2": (0.999, 0.9),
        "initial_hessian": (1.0, 0.5),
        "num_samples": (1, 2),
    }
    yield Case("tfbdl.optimizers.IVON", optimizers.IVON, _variational, ivon, slow=True)
    yield Case("tfbdl.optimizers.DrawnWeights", optimizers.DrawnWeights, _under_fit, {}, slow=True)
    cycle = {"initial_rate": (0.1, 0.2), "steps_per_cycle": (4, 3), "exploration": (0.5, 0.7)}
    name = "tfbdl.optimizers.CyclicalSchedule"
    yield Case(name, optimizers.CyclicalSchedule, _rates, cycle)
