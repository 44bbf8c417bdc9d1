"""Models that bring their own loss."""

from tfbdl.models.vae import VAE

__all__ = ["VAE"]
