"""Keras layers with random weights or activations."""

from tfbdl.layers.batch_ensemble_wrapper import BatchEnsembleWrapper
from tfbdl.layers.bayes_batch_ensemble_wrapper import BayesBatchEnsembleWrapper
from tfbdl.layers.bayes_conv import BayesConv1D, BayesConv2D, BayesConv3D
from tfbdl.layers.bayes_conv_transpose import (
    BayesConv1DTranspose,
    BayesConv2DTranspose,
    BayesConv3DTranspose,
)
from tfbdl.layers.bayes_dense import BayesDense
from tfbdl.layers.bayes_einsum_dense import BayesEinsumDense
from tfbdl.layers.bayes_embedding import BayesEmbedding
from tfbdl.layers.bayes_recurrent import BayesGRU, BayesLSTM
from tfbdl.layers.bayes_wrapper import BayesWrapper
from tfbdl.layers.bounded_spectral_normalization import BoundedSpectralNormalization
from tfbdl.layers.concrete_dropout import ConcreteDropout
from tfbdl.layers.exchanged import Exchanged
from tfbdl.layers.filter_response_normalization import FilterResponseNormalization
from tfbdl.layers.heteroscedastic_logits import HeteroscedasticLogits
from tfbdl.layers.learned_scale import LearnedScale
from tfbdl.layers.mc_dropout import MCDropout
from tfbdl.layers.mc_gaussian_dropout import MCGaussianDropout
from tfbdl.layers.random_feature_gp import RandomFeatureGP
from tfbdl.layers.variational_dropout import VariationalDropout
from tfbdl.layers.variational_last_layer import VariationalLastLayer

__all__ = [
    "BatchEnsembleWrapper",
    "BayesBatchEnsembleWrapper",
    "BayesConv1D",
    "BayesConv1DTranspose",
    "BayesConv2D",
    "BayesConv2DTranspose",
    "BayesConv3D",
    "BayesConv3DTranspose",
    "BayesDense",
    "BayesEinsumDense",
    "BayesEmbedding",
    "BayesGRU",
    "BayesLSTM",
    "BayesWrapper",
    "BoundedSpectralNormalization",
    "ConcreteDropout",
    "Exchanged",
    "FilterResponseNormalization",
    "HeteroscedasticLogits",
    "LearnedScale",
    "MCDropout",
    "MCGaussianDropout",
    "RandomFeatureGP",
    "VariationalDropout",
    "VariationalLastLayer",
]
