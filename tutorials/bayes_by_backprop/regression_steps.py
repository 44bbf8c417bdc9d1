"""The networks of `regression`: the report's, and what is changed in it step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import keras
from keras.initializers import Constant, Initializer, RandomNormal, RandomUniform

import tfbdl
from tfbdl.layers import BayesDense, LearnedScale
from tfbdl.likelihoods import Normal
from tfbdl.posteriors import MeanFieldNormal


@dataclass(frozen=True)
class Settings:
    """Settings of one network and its training; the defaults are the report's.

    The report leaves open how many examples a step has; its equations are those of one.

    Attributes:
        noise_stddev: the standard deviation of the data's e: 0.02, as the figure of Blundell et al.
            shows, or the root of 0.02, as the report reads their "N(0, 0.02)".
        scale: standard deviation of the noise: a number, "learned" (one for all x), or "predicted"
            (one for each x, by a second output).
        adam: whether Adam trains, at 0.01 falling to 0 by a cosine, and not plain descent at 0.001.
        rho: where all rho start; None for N(0, 0.1^2), and U(-0.01, 0.01) for biases.
        kl_per_n: whether the KL counts once for all N points, as in equation 18, and not once for
            each, as equation 17 has it where its sum is taken over the points.
    """

    title: str
    noise_stddev: float = 0.02
    scale: float | str = 1.0
    adam: bool = False
    n_epochs: int = 100
    batch_size: int = 1
    rho: float | None = None
    estimator: str = "reparameterization"
    kl_per_n: bool = True


REPORT = Settings("the report's")
RHO = replace(REPORT, title=r"$\rho$ starts at -5", rho=-5.0)
REMEDY = replace(RHO, title="noise of variance 0.02", scale=0.02**0.5)
NOISE = replace(RHO, title="the noise's scale is learned", scale="learned")
ADAM = replace(NOISE, title="Adam, 1,000 epochs", adam=True, n_epochs=1000, batch_size=50)
FLIPOUT = replace(ADAM, title="flipout", estimator="flipout")
LOCAL = replace(ADAM, title="local reparameterisation", estimator="local_reparameterization")
PREDICTED = replace(
    LOCAL,
    title="noise that varies with x, 250 points a step",
    scale="predicted",
    n_epochs=2000,
    batch_size=250,
)
STEPS = {
    "report": REPORT,
    "rho": RHO,
    "remedy": REMEDY,
    "noise": NOISE,
    "adam": ADAM,
    "flipout": FLIPOUT,
    "local": LOCAL,
    "predicted": PREDICTED,
}
"""Each changes one thing in one before it; "remedy" is that of the report's section 7.1.

A noise for each x needs more points a step: with 50, noise settles where the curve is not learned
yet, and it never is.
"""
WITHOUT = {
    "without_rho": replace(LOCAL, title=r"$\rho$ starts near 0", rho=None),
    "without_noise": replace(LOCAL, title="the noise has variance 1", scale=1.0),
    "without_kl_per_n": replace(LOCAL, title="the KL counts N times", kl_per_n=False),
}
"""Each takes one thing back from "local"."""
WIDE = {
    f"variance_{name}": replace(settings, noise_stddev=0.02**0.5)
    for name, settings in (("report", REPORT), ("remedy", REMEDY), ("local", LOCAL))
}
"""Settings on data whose noise has the variance 0.02."""
NETWORKS = STEPS | WITHOUT | WIDE


def network(
    settings: Settings, num_data: int, seed: int, kl: str = "auto", dtype: str = "float32"
) -> keras.Model:
    """1-32-64-1 with ReLUs; mu ~ N(0, 0.1^2) for weights and U(-0.01, 0.01) for biases."""
    keras.utils.set_random_seed(seed)

    def rho(report: Initializer) -> MeanFieldNormal:
        return MeanFieldNormal(report if settings.rho is None else Constant(settings.rho))

    def layer(units: int, activation: str | None, seed: int) -> BayesDense:
        return BayesDense(
            units,
            activation,
            num_data=num_data,
            prior=1.0,
            posterior=rho(RandomNormal(0, 0.1)),
            bias_posterior=rho(RandomUniform(-0.01, 0.01)),
            estimator=settings.estimator,
            kl=kl,
            kernel_initializer=RandomNormal(0, 0.1),
            bias_initializer=RandomUniform(-0.01, 0.01),
            seed=seed,
            dtype=dtype,
        )

    outputs = 2 if settings.scale == "predicted" else 1
    layers = [layer(32, "relu", seed), layer(64, "relu", seed + 1), layer(outputs, None, seed + 2)]
    scale = [LearnedScale()] if settings.scale == "learned" else []
    model = keras.Sequential([keras.Input((1,), dtype=dtype), *layers, *scale])
    steps = settings.n_epochs * (num_data // min(settings.batch_size, num_data))
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, steps))
        if settings.adam
        else keras.optimizers.SGD(1e-3),
        Normal("predicted" if isinstance(settings.scale, str) else settings.scale),
    )
    tfbdl.set_kl_weight(model, 1.0 if settings.kl_per_n else num_data)
    return model
