"""What the workers of `test_workers.py` run, and what one device runs beside them."""

import contextlib
import io
import os
import signal
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
import worker_pair
from output_metrics import Moments

import tfbdl
from tfbdl.training.workers import from_chief, is_chief

N, BATCH = 41, 16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)


def one_device() -> Any:
    return contextlib.nullcontext()


def workers() -> Any:
    return worker_pair.strategy().scope()


def classifier(scope: Any, kind: Any) -> Any:
    """A compiled model; the same on every call, whatever the global seed."""
    keras.utils.set_random_seed(3)
    quiet = tfbdl.posteriors.MeanFieldNormal(keras.initializers.Constant(-20.0))
    with scope():
        hidden = {
            "dense": lambda: keras.layers.Dense(8, "tanh", kernel_regularizer="l2"),
            "quiet": lambda: tfbdl.layers.BayesDense(8, num_data=N, posterior=quiet, seed=1),
            "bayes": lambda: tfbdl.layers.BayesDense(8, num_data=N, seed=1),
            "dropout": lambda: tfbdl.layers.MCDropout(0.5, seed=1),
        }[kind]()
        model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(3)])
        model.compile(
            keras.optimizers.Adam(0.05),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=[
                keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
                keras.metrics.SparseCategoricalAccuracy(name="acc"),
            ],
        )
    return model


def train(model: Any, x: Any = X, y: Any = Y, **kwargs: Any) -> Any:
    arguments = {"epochs": 3, "batch_size": BATCH, "seed": 7, "verbose": 0, "jit_compile": False}
    return tfbdl.train(model, x, y, **{**arguments, **kwargs})


def trained(scope: Any, kind: Any, **kwargs: Any) -> Any:
    """History and weights."""
    model = classifier(scope, kind)
    return train(model, **kwargs), model.get_weights()


def in_order(epoch: int, context: Any) -> Any:
    """The arrays as a data set, in the order that `tfbdl.train` gives them in an epoch."""
    order = tf.random.experimental.stateless_shuffle(tf.range(N), seed=(7, epoch)).numpy()
    data = tf.data.Dataset.from_tensor_slices((X[order], Y[order]))
    return data.shard(context.num_input_pipelines, context.input_pipeline_id)


def everything(epoch: int, context: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y))


def streamed(scope: Any, kind: Any, data: Any = in_order, **kwargs: Any) -> Any:
    model = classifier(scope, kind)
    return train(model, data, None, num_data=N, **kwargs), model.get_weights()


def printed(**kwargs: Any) -> Any:
    """What a run on all workers shows here."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        train(classifier(workers, "dense"), verbose=1, **kwargs)
    return output.getvalue()


def in_parts(folder: Any) -> Any:
    """Histories of two epochs, and of two more by a model that starts with other weights."""
    first = train(classifier(workers, "dropout"), savedir=folder, epochs=2)
    model = classifier(workers, "dropout")
    for weight in model.weights:
        weight.assign(weight.value * 0 + tf.cast(5, weight.dtype))
    second = train(model, savedir=folder, epochs=4)
    return first, second, model.get_weights()


def output_moments(scope: Any, epochs: int = 100) -> Any:
    """First and second moment of the outputs at 8 equal rows, for each epoch of one step."""
    keras.utils.set_random_seed(3)
    with scope():
        layer = tfbdl.layers.BayesDense(
            1,
            num_data=N,
            posterior=tfbdl.posteriors.MeanFieldNormal(keras.initializers.Constant(0.0)),
            kernel_initializer="zeros",
            seed=1,
        )
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(
            keras.optimizers.SGD(0.0), "mse", metrics=[Moments(1, "first"), Moments(2, "second")]
        )
    history = train(model, np.ones((8, 4)), np.zeros((8, 1)), epochs=epochs, batch_size=8)
    return np.array(history["first"]), np.array(history["second"])


def killed(folder: Any, epoch: int, epochs: int = 4) -> Any:
    """A run in which this worker kills itself while it trains in `epoch`; None lets it live."""

    def die(number: Any, logs: Any = None) -> None:
        if number + 1 == epoch:
            os.kill(os.getpid(), signal.SIGKILL)

    callback = keras.callbacks.LambdaCallback(on_epoch_begin=die)
    return trained(workers, "dropout", savedir=folder, epochs=epochs, callbacks=[callback])


def bytes_of_chief(size: Any, chunk: Any) -> Any:
    """Whether what comes from the chief is what it gave, here known as well."""
    data = np.random.default_rng(size).bytes(size)
    given = data if is_chief(worker_pair.strategy()) else b"other"
    with mock.patch("tfbdl.training.workers.CHUNK", chunk):
        return from_chief(worker_pair.strategy(), given) == data


def samples(savedir: Any) -> Any:
    """How many weight samples a sampler's run has kept, as seen from here."""
    model = classifier(workers, "dense")
    with workers():
        model.compile(tfbdl.optimizers.SGLD(1e-3, num_data=N), model.loss)
    kept = tfbdl.inference.WeightSnapshots(start=1, savedir=savedir)
    train(model, callbacks=[kept])
    return len(kept.epochs)


def fit() -> Any:
    return classifier(workers, "dense").fit(X, Y, batch_size=BATCH, verbose=0).history


def predictions(scope: Any) -> Any:
    model = classifier(scope, "bayes")
    return tfbdl.predict(model, X, num_samples=20, seed=5, verbose=0).mean


def ensemble(scope: Any, savedir: Any = None) -> Any:
    deep = tfbdl.inference.DeepEnsemble(
        lambda: classifier(scope, "dense"), num_members=2, jit_compile=False
    )
    deep.fit(X, Y, epochs=2, batch_size=BATCH, verbose=0, savedir=savedir)
    return tfbdl.predict(deep, X, verbose=0).mean


def sample(strategy: Any) -> Any:
    def log_density(theta: Any) -> Any:
        return -0.5 * tf.reduce_sum(theta**2, axis=1)

    return tfbdl.inference.MCMC(
        log_density, initial=np.zeros(2), num_chains=2, strategy=strategy
    ).fit()


def sample_over_workers() -> None:
    sample(worker_pair.strategy())
