"""Bayesian deep learning for TensorFlow 2 and Keras 3.

`import tfbdl` registers the package's layers with Keras, so that saved models load. The command
line imports only what a command needs.
"""

from tfbdl import startup

__version__ = "0.1.0"

if not startup.is_command():
    if startup.is_quiet():
        startup.import_tensorflow()

    from tfbdl import (
        data,
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
    from tfbdl.complexity import set_weight as set_kl_weight
    from tfbdl.convert import prune, to_bayesian, to_deterministic, to_mc_dropout
    from tfbdl.predictive import Prediction, elbo, log_predictive_density, predict
    from tfbdl.serving import export
    from tfbdl.training.callbacks import TrainLogger
    from tfbdl.training.checkpoint import CheckpointError
    from tfbdl.training.kl_annealing import KLAnnealing
    from tfbdl.training.kl_schedule import KLSchedule
    from tfbdl.training.log import LogError, TrainLog, read_log
    from tfbdl.training.loop import TrainingError, train
    from tfbdl.training.minibatch_kl import MinibatchKL
    from tfbdl.training.observer import Bound
    from tfbdl.training.tensorboard import PosteriorBoard

    __all__ = [
        "Bound",
        "CheckpointError",
        "KLAnnealing",
        "KLSchedule",
        "LogError",
        "MinibatchKL",
        "PosteriorBoard",
        "Prediction",
        "TrainLog",
        "TrainLogger",
        "TrainingError",
        "data",
        "elbo",
        "export",
        "inference",
        "layers",
        "likelihoods",
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
        "to_bayesian",
        "to_deterministic",
        "to_mc_dropout",
        "train",
    ]
