"""Single weights and Adam in this package's compiled steps: what the methods add to training."""

from __future__ import annotations

from with_tfbdl import Round, classifier, dense, steps  # isort: skip  (before TensorFlow)

import keras
import work

from benchmarks.plain_networks import resnet20
from tfbdl.likelihoods import Categorical


def deterministic() -> Round:
    """Steps of dense layers."""
    model = classifier(dense(work.NETWORK, keras.layers.Dense))
    return steps(model, work.BATCH, *work.images(work.STEPS * work.BATCH))


ivon = vbll = batch_ensemble = deterministic


def ivon_resnet() -> Round:
    """Steps of the ResNet-20."""
    model = resnet20().model
    model.compile(keras.optimizers.Adam(work.LEARNING_RATE), Categorical())
    return steps(model, work.BATCH, *work.photographs(work.STEPS * work.BATCH))
