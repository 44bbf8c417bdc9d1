"""Priors and posteriors: in a layer that they are for, and looked up by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from soak.calls.case import Case, Made, X, shaped
from soak.calls.layers import IMAGES
from tfbdl import layers, posteriors, priors, random

COVARIANCE = np.array([[1.0, 0.2, 0.1, 0.0]] * 4) + np.diag([1.0, 2.0, 3.0, 4.0])
COVARIANCE = 0.5 * (COVARIANCE + COVARIANCE.T)
TRAINABLE = {"trainable": (False, True)}
LEARNED = {"trainable": (True, False)}
SCALE = {"scale": (1.0, 0.5)}
PRIORS: dict[str, tuple[Any, Any]] = {
    "Normal": ({**SCALE, "sigma": (None, 0.5), **TRAINABLE}, {}),
    "Normal, 'fan_in'": ({"scale": ("fan_in", 1.0), "sigma": (0.5, 1.0), **TRAINABLE}, {}),
    "Laplace": ({**SCALE, **TRAINABLE}, {}),
    "StudentT": ({**SCALE, "df": (3.0, 4.0), **TRAINABLE}, {}),
    "ScaleMixture": (
        {"pi": (0.25, 0.5), "sigma1": (0.4, 0.5), "sigma2": (0.1, 0.01), **TRAINABLE},
        {},
    ),
    "Flat": (LEARNED, {}),
    "LogUniform": ({"approximation": ("molchanov", "kingma")}, {}),
    "Horseshoe": ({**SCALE, "groups": ("weight", "input"), **LEARNED}, {}),
    "ARD": (
        {
            "shape": (0.5, 1.0),
            "rate": (0.1, 0.2),
            "groups": ("input", "weight"),
            **LEARNED,
        },
        {},
    ),
    "InverseGammaScale": (
        {
            **SCALE,
            "df": (3.0, 4.0),
            "groups": ("weight", "output"),
            **LEARNED,
        },
        {},
    ),
    "MultivariateNormal": (
        {**SCALE, "covariance": (np.eye(12), 2.0 * np.eye(12)), **TRAINABLE},
        {},
    ),
    "MatrixNormal": (
        {
            **SCALE,
            "row_covariance": (COVARIANCE, np.eye(4)),
            "column_covariance": (np.eye(3), 2.0 * np.eye(3)),
            **TRAINABLE,
        },
        {},
    ),
    "SpatialNormal": (
        {**SCALE, "lengthscale": (1.0, 0.5), **TRAINABLE},
        {"images": True},
    ),
    "Bernoulli": (
        {"prob": (0.5, 0.4), "values": ((-1.0, 1.0), (-0.5, 0.5))},
        {"posterior": "relaxed_bernoulli"},
    ),
}
"""Arguments of each family, and the layer that it is tried in."""


def under(prior: Any, posterior: Any = "mean_field", images: bool = False) -> dict[str, Any]:
    """A layer with this prior and posterior of its kernel, in training and at its mean."""
    bias = "flat" if isinstance(prior, priors.Prior) and not prior.discrete else prior
    given = {
        "num_data": 10,
        "seed": 1,
        "prior": prior,
        "posterior": posterior,
        "bias_prior": bias,
        "bias_posterior": posterior if bias is prior else "point",
    }
    layer = layers.BayesConv2D(2, 3, **given) if images else layers.BayesDense(3, **given)
    x, shape = (IMAGES, (6, 3, 3, 2)) if images else (X, (6, 3))
    losses = {"training": shaped(layer(x, training=True), *shape), "losses": list(layer.losses)}
    return {**losses, "mean": shaped(layer(x), *shape), "prior": layer.prior, "q": layer.posterior}


def _drawn(prior: priors.Prior, *shape: int) -> dict[str, Any]:
    """Weights of a prior, and their density."""
    w = shaped(prior.sample(random.key_of(0, "weights"), shape), *shape)
    return {"w": w, "log_prob": prior.log_prob(tf.constant(w)), "prior": prior}


def cases() -> Iterator[Case]:
    """Each family, and `get`."""
    yield from _priors()
    yield from _posteriors()
    for module, other in ((priors, "laplace"), (posteriors, "logistic")):
        kind = module.__name__.rpartition(".")[2].removesuffix("s")
        first = {"priors": 1.0, "posteriors": "mean_field"}[f"{kind}s"]
        arguments = {"identifier": (first, other), "argument": (kind, Made(lambda: "other"))}
        yield Case(
            f"{module.__name__}.get",
            module.get,
            lambda get=module.get, **given: {"value": get(**given), "name": given["argument"]},
            arguments,
            called={"identifier": kind, "argument": "must be|is unknown"},
        )


def _priors() -> Iterator[Case]:
    for name, (arguments, mode) in PRIORS.items():
        kind = getattr(priors, name.partition(",")[0])

        def run(kind: Any = kind, mode: Any = mode, **given: Any) -> dict[str, Any]:
            return under(kind(**given), **mode)

        yield Case(f"tfbdl.priors.{name}", kind, run, arguments, slow=True)
    yield from _densities()


def _densities() -> Iterator[Case]:
    gamma = {"concentration": (0.5, 1.0), "rate": (1.0, 2.0)}
    yield Case(
        "tfbdl.priors.GammaScale",
        priors.GammaScale,
        lambda **given: _drawn(priors.GammaScale(**given), 3),
        gamma,
    )
    of_tau = {"tau": (None, 0.5), "w": (np.float32([0.5, 1.0]), np.float32([0.5, 2.0]))}
    yield Case(
        "Horseshoe.marginal_log_prob",
        priors.Horseshoe.marginal_log_prob,
        _of_horseshoe,
        of_tau,
    )


def _of_horseshoe(w: Any, tau: Any) -> Any:
    """Log densities, but not those at the pole."""
    log_prob = shaped(priors.Horseshoe().marginal_log_prob(w, tau), *np.shape(w))
    return np.where((np.asarray(w) == 0) & (log_prob == np.inf), 0.0, log_prob)


def _posteriors() -> Iterator[Case]:
    rho = {"rho_initializer": (None, "zeros")}
    families = {
        "MeanFieldNormal": rho,
        "FullCovarianceNormal": rho,
        "PerOutputNormal": rho,
        "MatrixNormal": rho,
        "LowRankNormal": {**rho, "rank": (4, 2)},
        "Laplace": rho,
        "Logistic": rho,
        "MultiplicativeNormal": {"initial_alpha": (0.25, 0.5)},
        "RelaxedBernoulli": {"temperature": (0.6, 0.7)},
        "PointMass": {},
        "PriorItself": {},
    }
    own_priors = {"MultiplicativeNormal": "log_uniform", "RelaxedBernoulli": "bernoulli"}
    for name, arguments in families.items():
        kind = getattr(posteriors, name)
        prior = own_priors.get(name, 1.0)

        def run(kind: Any = kind, prior: Any = prior, **given: Any) -> Any:
            return under(prior, kind(**given))

        yield Case(f"tfbdl.posteriors.{name}", kind, run, arguments, slow=True)


BASES = (
    priors.Prior,
    priors.Hierarchical,
    priors.KroneckerNormal,
    posteriors.Posterior,
    posteriors.InverseCDF,
)
"""What cannot be used itself."""
