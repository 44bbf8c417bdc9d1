"""Likelihoods p(y | f(x)) as Keras losses, one family a file."""

from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.bernoulli import Bernoulli
from tfbdl.likelihoods.beta import Beta
from tfbdl.likelihoods.categorical import Categorical
from tfbdl.likelihoods.choice import LikelihoodLike as LikelihoodLike
from tfbdl.likelihoods.choice import get
from tfbdl.likelihoods.choice import of_model as of_model
from tfbdl.likelihoods.choice import required_likelihood as required_likelihood
from tfbdl.likelihoods.continuous_bernoulli import ContinuousBernoulli
from tfbdl.likelihoods.expected import Expected
from tfbdl.likelihoods.gamma import Gamma
from tfbdl.likelihoods.joint import Joint
from tfbdl.likelihoods.log_normal import LogNormal
from tfbdl.likelihoods.negative_binomial import NegativeBinomial
from tfbdl.likelihoods.normal import Normal
from tfbdl.likelihoods.normal_mixture import NormalMixture
from tfbdl.likelihoods.of_keras import of_loss
from tfbdl.likelihoods.of_outputs import check_targets as check_targets
from tfbdl.likelihoods.poisson import Poisson
from tfbdl.likelihoods.quantiles import Quantiles
from tfbdl.likelihoods.reduction import check_is_mean as check_is_mean
from tfbdl.likelihoods.stock_metrics import check_metrics as check_metrics
from tfbdl.likelihoods.student_t import StudentT

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "ContinuousBernoulli",
    "Expected",
    "Gamma",
    "Joint",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Normal",
    "NormalMixture",
    "Poisson",
    "Quantiles",
    "StudentT",
    "get",
    "of_loss",
]
