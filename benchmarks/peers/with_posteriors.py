"""posteriors: variational inference, and chains by stochastic gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import posteriors
import torch
import torchopt
import work
from torch import nn
from with_torch import Round, batches, stack


def updates(transform: Any, sizes: tuple[int, ...], batch: int, **settings: Any) -> Round:
    """Steps on all weights of a network."""
    n = work.STEPS * batch
    data = batches(batch, *work.images(n))
    model = stack(sizes, nn.Linear)
    params = dict(model.named_parameters())

    def log_posterior(params: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        logits = torch.func.functional_call(model, params, (batch[0],))
        prior = posteriors.diag_normal_log_prob(params, normalize=False) / n
        return -nn.functional.cross_entropy(logits, batch[1]) + prior, logits

    made = transform.build(log_posterior, temperature=1 / n, **settings)
    state = made.init(params)

    def run() -> dict[str, float]:
        nonlocal state
        for part in data:
            state, _ = made.update(state, part)
        return {"units": len(data)}

    return run


def bbb_one(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """Mean-field variational inference, one weight sample a batch."""
    adam = torchopt.adam(lr=work.LEARNING_RATE)
    return updates(posteriors.vi.diag, sizes, batch, optimizer=adam, init_log_sds=-3.0)


bbb_wide = partial(bbb_one, work.WIDE, work.WIDE_BATCH)
chain = partial(updates, sizes=work.NETWORK, batch=work.BATCH, lr=1e-3)
sgld = partial(chain, posteriors.sgmcmc.sgld)
sghmc = partial(chain, posteriors.sgmcmc.sghmc, alpha=0.1)
