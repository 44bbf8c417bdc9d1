"""Each method, from the plain network or beside it; what it gives is asked by `tfbdl.predict`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

import tfbdl
from tfbdl import inference, layers, likelihoods, optimizers, priors
from tutorials.uncertainty.networks import compiled, lenet
from tutorials.uncertainty.run import Run

Method = Callable[[Run], Any]

RATE = 0.2
"""The rate of MC dropout, before all layers with weights but the first."""
CURVATURE, CURVATURE_DECAY = 0.3, 0.9995
"""The beginning of IVON's curvature, and its decay, by which it forgets that in a training of 5,000
steps. Chosen on the images that are left out, of Fashion-MNIST."""
SWAG_EPOCHS, SWAG_RATE = 10, 0.02
"""Behind the plain training: one point of the path an epoch, at a constant rate of SGD."""
PRIOR = priors.Normal("fan_in", sigma=2**0.5)
"""The prior of variational weights: the scale at which He et al. start a ReLU network."""


def mc_dropout(run: Run) -> keras.Model:
    """Dropout in training, and in prediction (Gal and Ghahramani 2016)."""
    keras.utils.set_random_seed(run.seed())

    def dropped(layer: keras.layers.Layer) -> Callable[[Any], Any]:
        return lambda x: layer(layers.MCDropout(RATE)(x))

    return run.trained(run.compiled(lenet(dropped)), "mc_dropout")


def concrete_dropout(run: Run) -> keras.Model:
    """A learned rate for each of these layers (Gal, Hron, Kendall 2017)."""
    keras.utils.set_random_seed(run.seed())
    around = partial(layers.ConcreteDropout, num_data=run.num_data, lengthscale=0.1)
    return run.trained(run.compiled(lenet(around)), "concrete_dropout")


def bayes_by_backprop(run: Run) -> keras.Model:
    """Mean-field weights by flipout (Blundell et al. 2015; Wen et al. 2018)."""
    keras.utils.set_random_seed(run.seed())
    model = tfbdl.to_bayesian(lenet(), num_data=run.num_data, prior=PRIOR, estimator="flipout")
    return run.trained(run.compiled(model), "bayes_by_backprop")


def ivon(run: Run) -> inference.MeanFieldVI:
    """Mean-field weights by an optimizer (Shen et al. 2024)."""
    keras.utils.set_random_seed(run.seed())
    optimizer = optimizers.IVON(
        run.falling(0.2),
        num_data=run.num_data,
        beta_2=CURVATURE_DECAY,
        initial_hessian=CURVATURE,
        seed=run.seed(),
    )
    model = compiled(lenet(), optimizer)
    return run.fit(inference.MeanFieldVI(model, seed=run.seed()).fit, "ivon")


def vbll(run: Run) -> keras.Model:
    """A variational last layer, trained in closed form (Harrison et al. 2024)."""
    keras.utils.set_random_seed(run.seed())
    head = layers.VariationalLastLayer(10, num_data=run.num_data)
    loss = likelihoods.Expected(likelihoods.Categorical())
    return run.trained(run.compiled(lenet(head=head), loss), "vbll")


def sngp(run: Run) -> keras.Model:
    """A Gaussian process on features that keep distances (Liu et al. 2020)."""
    keras.utils.set_random_seed(run.seed())
    model = tfbdl.to_sngp(run.compiled(lenet()), num_data=run.num_data, seed=run.seed())
    return run.trained(model, "sngp")


def batch_ensemble(run: Run) -> keras.Model:
    """Four members in one network (Wen, Tran, Ba 2020)."""
    keras.utils.set_random_seed(run.seed())
    return run.trained(tfbdl.to_batch_ensemble(run.compiled(lenet()), 4), "batch_ensemble")


def swag(run: Run) -> inference.SWAG:
    """The path of SGD from the plain network on (Maddox et al. 2019)."""
    return swag_from(run, 0)


def swag_from(run: Run, member: int) -> inference.SWAG:
    """The path from one member of the ensemble on."""
    model = compiled(run.plain(member), keras.optimizers.SGD(SWAG_RATE, momentum=0.9))
    method = inference.SWAG(model, seed=run.seed(member))
    return run.fit(method.fit, f"swag_{member}", SWAG_EPOCHS)


def multi_swag(run: Run) -> inference.Mixture:
    """The paths from all members on (Wilson and Izmailov 2020)."""
    return inference.Mixture([swag_from(run, member) for member in range(run.args.K)])


def laplace(run: Run) -> inference.Laplace:
    """Around the plain network, of the last layer's weights (Daxberger et al. 2021)."""
    method = inference.Laplace(run.plain(), hessian_structure="kron")
    return method.fit(run.x, run.y).optimize_prior_precision()


def deep_ensemble(run: Run) -> keras.Model:
    """Plain networks from different starts (Lakshminarayanan et al. 2017)."""
    method = inference.DeepEnsemble(lambda: run.compiled(lenet()), run.args.K, seed=run.seed())
    return run.fit(method.fit, "ensemble").ensemble()


METHODS: dict[str, Method] = {
    "plain": Run.plain,
    "MC dropout": mc_dropout,
    "Concrete dropout": concrete_dropout,
    "Bayes by Backprop": bayes_by_backprop,
    "IVON": ivon,
    "VBLL": vbll,
    "SNGP": sngp,
    "batch ensemble": batch_ensemble,
    "last-layer Laplace": laplace,
    "SWAG": swag,
    "deep ensemble": deep_ensemble,
    "multi-SWAG": multi_swag,
}
