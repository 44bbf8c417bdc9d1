"""posteriors: variational inference, and chains by stochastic gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import posteriors
import torch
import torchopt
import work
from torch import nn
from with_torch import Round, batches, chain_resnet20, photographs, stack


def updates(transform: Any, sizes: tuple[int, ...], batch: int, **settings: Any) -> Round:
    """Steps on all weights of dense layers."""
    data = batches(batch, *work.images(work.STEPS * batch))
    return updates_of(transform, stack(sizes, nn.Linear), data, **settings)


def updates_of(transform: Any, model: nn.Module, data: list[Any], **settings: Any) -> Round:
    """Steps on all weights of a network."""
    n = sum(len(part[0]) for part in data)
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


def sghmc_resnet() -> Round:
    """Steps of a network with filter response normalisation."""
    data = batches(work.CHAIN_BATCH, *photographs(work.CHAIN_STEPS * work.CHAIN_BATCH))
    return updates_of(posteriors.sgmcmc.sghmc, chain_resnet20(), data, lr=1e-3, alpha=0.1)
