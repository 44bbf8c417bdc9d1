"""Thompson sampling: the inputs at which drawn functions are largest."""

from __future__ import annotations

import numpy as np

from tfbdl.arguments import boolean, generator, instance, positive_integer
from tfbdl.predictive import Prediction


def thompson(
    prediction: Prediction, num: int = 1, *, maximize: bool = True, seed: int = 0
) -> np.ndarray:
    """Indices of inputs to try in search of the largest y, in the order of choice: shape (num,).

    Each is where one function, drawn without replacement, has its largest E[y | f(x)] of the inputs
    not chosen before (Thompson 1933; in parallel, Kandasamy et al. 2018). It looks where y may be
    large, not where a label would teach most.

    Args:
        prediction: what `tfbdl.predict(..., return_samples=True)` gives for the inputs to choose
            from, with S functions and one y for each input.
        num: how many, at most S and N.
        maximize: whether the largest y is looked for; else the smallest.
        seed: the seed of the functions.

    Raises:
        ValueError: if an argument is out of its range, the functions were not kept, or an input has
            several outputs.
    """
    instance("prediction", prediction, Prediction, "what tfbdl.predict gives")
    rewards = prediction.samples
    rewards = rewards[..., 0] if rewards.shape[2:] == (1,) else rewards
    if rewards.ndim != 2:
        raise ValueError(
            f"prediction has means of shape {prediction.mean.shape}; Thompson sampling needs one "
            "number for each input, shape (N,) or (N, 1)"
        )
    S, N = rewards.shape
    num = positive_integer("num", num, ", of the functions and of the inputs", most=min(S, N))
    rewards = np.array(rewards if boolean("maximize", maximize) else -rewards)
    chosen = []
    for s in generator("seed", seed).permutation(S)[:num]:
        chosen.append(int(np.argmax(rewards[s])))
        rewards[:, chosen[-1]] = -np.inf
    return np.array(chosen)
