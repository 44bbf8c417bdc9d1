"""Models with a way of their own: with their own loss, or with many weights for one network."""

from tfbdl.models.batch_ensemble import BatchEnsemble
from tfbdl.models.ensemble import WeightEnsemble
from tfbdl.models.normal_weights import NormalWeights
from tfbdl.models.vae import VAE

__all__ = ["VAE", "BatchEnsemble", "NormalWeights", "WeightEnsemble"]
