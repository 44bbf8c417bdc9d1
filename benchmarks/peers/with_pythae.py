"""pythae."""

from __future__ import annotations

from functools import partial

import torch
import work
from pythae.models import VAE, VAEConfig
from pythae.models.base.base_utils import ModelOutput
from pythae.models.nn import BaseDecoder, BaseEncoder
from torch import nn
from with_torch import Round, epoch, stack, train


class Encoder(BaseEncoder):
    """784-500-500, twice 20."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Sequential(stack((784, 500, 500), nn.Linear), nn.ReLU())
        self.mu, self.log_variance = nn.Linear(500, 20), nn.Linear(500, 20)

    def forward(self, x: torch.Tensor) -> ModelOutput:
        hidden = self.stack(x)
        return ModelOutput(embedding=self.mu(hidden), log_covariance=self.log_variance(hidden))


class Decoder(BaseDecoder):
    """20-500-500-784."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Sequential(stack((20, 500, 500, 784), nn.Linear), nn.Sigmoid())

    def forward(self, z: torch.Tensor) -> ModelOutput:
        return ModelOutput(reconstruction=self.stack(z))


def vae(num_data: int = 1000) -> Round:
    """An epoch on its loss."""
    config = VAEConfig(input_dim=(784,), latent_dim=20, reconstruction_loss="bce")
    model = VAE(config, Encoder(), Decoder())
    x = work.images(num_data)[0]
    return epoch(train(model, lambda x: model({"data": x}).loss, work.BATCH, x))


vae_full = partial(vae, 60_000)
