"""Compiled steps of chains, which targets of one structure share.

Compiling takes seconds, and depends on data by their shapes alone: the data of a `LogPosterior` are
arguments of its programs, not constants in them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.mcmc.stepping import Stepper
from tfbdl.replicas import Replicas

KEPT = 16
"""Programs that are kept, those of the latest use."""


class CompiledSteps(NamedTuple):
    """`Stepper.start` and `Stepper.run`, compiled."""

    start: Callable[..., Any]
    run: Callable[..., Any]


_made: OrderedDict[Any, CompiledSteps] = OrderedDict()
_lock = Lock()


def steps_of(stepper: Stepper, replicas: Replicas, theta: np.ndarray) -> CompiledSteps:
    """The compiled steps, shared with an earlier target of the same structure if there was one.

    Args:
        stepper: the steps.
        replicas: the devices that they run on.
        theta: where the chains start, shape (C, D).
    """
    target = stepper.target
    key = None if replicas.strategy is not None else _key(stepper)
    if key is None or not isinstance(target, LogPosterior):
        return CompiledSteps(replicas.compile(stepper.start), replicas.compile(stepper.run))
    specs = tf.nest.map_structure(lambda a: a if a is None else (a.shape, a.dtype), target.data)
    key = (key, replicas.jit_compile, theta.shape, repr(specs))
    with _lock:
        steps = _made.pop(key, None) or _of_any_data(stepper, target, replicas)
        _made[key] = steps
        while len(_made) > KEPT:
            _made.popitem(last=False)
    return CompiledSteps(*(partial(step, target.data) for step in steps))


def _key(stepper: Stepper) -> Any:
    """What the steps are but for arrays; None where that is not known."""
    kernel, target = stepper.kernel, stepper.target
    if not isinstance(target, LogPosterior) or not type(kernel).__module__.startswith("tfbdl."):
        return None
    structure = target.structure
    settings = repr(kernel), stepper.adaptation.num_warmup, stepper.block
    return None if structure is None else (structure, settings)


def _of_any_data(stepper: Stepper, target: LogPosterior, replicas: Replicas) -> CompiledSteps:
    """Steps whose first argument is the data of the target."""
    empty = target.on((None, None, None, None))
    parts, block = (stepper.kernel, stepper.adaptation), stepper.block

    def on(data: tuple[Any, ...]) -> Stepper:
        return Stepper(empty.on(data), *parts, block=block)

    return CompiledSteps(
        replicas.compile(lambda data, *args: on(data).start(*args)),
        replicas.compile(lambda data, *args: on(data).run(*args)),
    )
