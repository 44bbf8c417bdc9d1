"""Training: the package's loop, its log, and callbacks for `model.fit`."""

from tfbdl.training.callbacks import KLAnnealing, TrainLogger
from tfbdl.training.checkpoint import CheckpointError
from tfbdl.training.log import LogError, LogWriter, TrainLog, read_log
from tfbdl.training.loop import TrainingError, train

__all__ = [
    "CheckpointError",
    "KLAnnealing",
    "LogError",
    "LogWriter",
    "TrainLog",
    "TrainLogger",
    "TrainingError",
    "read_log",
    "train",
]
