"""Bayesian deep learning for TensorFlow 2 and Keras 3.

`import tfbdl` registers the package's layers with Keras, so that saved models load. The command
line imports only what a command needs.
"""

from tfbdl import startup

__version__ = "0.2.0.dev0"

if not startup.is_command():
    if startup.is_quiet():
        startup.import_tensorflow()
    startup.check_keras()

    from tfbdl import (
        acquire,
        checking,
        conformal,
        data,
        detection,
        inference,
        layers,
        likelihoods,
        metrics,
        models,
        optimizers,
        plots,
        posteriors,
        priors,
    )
    from tfbdl.convert import (
        prune,
        to_batch_ensemble,
        to_bayesian,
        to_deterministic,
        to_mc_dropout,
        to_sngp,
    )
    from tfbdl.kl_term import set_weight as set_kl_weight
    from tfbdl.loading import load
    from tfbdl.predictive import Prediction, elbo, log_predictive_density, predict
    from tfbdl.serving import export
    from tfbdl.training.checkpoint import CheckpointError
    from tfbdl.training.kl_annealing import KLAnnealing
    from tfbdl.training.kl_schedule import KLSchedule
    from tfbdl.training.log import LogError, TrainLog, read_log
    from tfbdl.training.loop import TrainingError, train
    from tfbdl.training.minibatch_kl import MinibatchKL
    from tfbdl.training.num_samples import set_num_samples
    from tfbdl.training.observer import ELBOLogger
    from tfbdl.training.tensorboard import PosteriorTensorBoard
    from tfbdl.training.train_logger import TrainLogger

    __all__ = [
        "CheckpointError",
        "ELBOLogger",
        "KLAnnealing",
        "KLSchedule",
        "LogError",
        "MinibatchKL",
        "PosteriorTensorBoard",
        "Prediction",
        "TrainLog",
        "TrainLogger",
        "TrainingError",
        "acquire",
        "checking",
        "conformal",
        "data",
        "detection",
        "elbo",
        "export",
        "inference",
        "layers",
        "likelihoods",
        "load",
        "log_predictive_density",
        "metrics",
        "models",
        "optimizers",
        "plots",
        "posteriors",
        "predict",
        "priors",
        "prune",
        "read_log",
        "set_kl_weight",
        "set_num_samples",
        "to_batch_ensemble",
        "to_bayesian",
        "to_deterministic",
        "to_mc_dropout",
        "to_sngp",
        "train",
    ]
