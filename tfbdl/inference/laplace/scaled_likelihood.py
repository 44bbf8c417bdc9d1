"""A likelihood with its normal noise taken out, so that the noise can be chosen afterwards."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl.arguments import positive, shown
from tfbdl.inference.laplace.joint_rows import joint_rows
from tfbdl.inference.laplace.output_fisher import Link, in_logits
from tfbdl.likelihoods import Joint, Likelihood, LikelihoodLike, Normal, required_likelihood


class ScaledLikelihood:
    """P(y | f) of a family, and for normal noise how all depends on its scale.

    Args:
        model: asked for its loss, where `likelihood` leaves the family open.
        likelihood: as `likelihoods.get` takes it, where a name leaves the noise open; None for that
            of the loss the model was compiled with.
        sigma_noise: the noise's standard deviation; None for that of the object, else 1.

    Attributes:
        unit: the likelihood at noise 1, of outputs that are logits where there are classes; those
            of several outputs side by side.
        link: the function from the network's outputs to those.
        has_noise: whether there is a noise to choose.
        sigma_noise: the noise, or 1.

    Raises:
        ValueError: if `likelihood` is none or has no curvature, or `sigma_noise` is given to one
            without a noise, or beside an object that has its own.
    """

    unit: Likelihood
    link: Link

    def __init__(
        self, model: keras.Model, likelihood: LikelihoodLike | None, sigma_noise: float | None
    ) -> None:
        self._given = required_likelihood(model, likelihood)
        self.has_noise = isinstance(self._given, Normal) and self._given.scale != "predicted"
        has_its_own = likelihood is not None and not isinstance(likelihood, str)
        if sigma_noise is not None and has_its_own and self.has_noise:
            raise ValueError(
                f"sigma_noise={shown(sigma_noise)} is given beside likelihood={shown(likelihood)}, "
                "which has a scale of its own; leave one out"
            )
        if self.has_noise:
            sigma_noise = self._given.scale if sigma_noise is None else sigma_noise
            self.unit, self.link = Normal(1.0), lambda outputs: outputs
        elif sigma_noise is None:
            sigma_noise = 1.0
            if isinstance(self._given, Joint):
                self.unit, self.link = joint_rows(model, self._given)
            else:
                self.unit, self.link = in_logits(self._given)
        else:
            raise ValueError(
                f"sigma_noise={shown(sigma_noise)} is for regression with one noise, not for "
                f"{type(self._given).__name__}"
            )
        self.sigma_noise = positive("sigma_noise", sigma_noise)

    def of_network(self, sigma: float) -> Likelihood:
        """P(y | outputs of the network) at noise sigma."""
        return Normal(sigma) if self.has_noise else self._given

    def of_links(self, sigma: float) -> Likelihood:
        """P(y | link(outputs)) at noise sigma."""
        return Normal(sigma) if self.has_noise else self.unit

    def log_likelihood(self, at_one: tf.Tensor, count: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
        """The sum of log p(y | f) over `count` numbers, from that at noise 1."""
        if not self.has_noise:
            return at_one
        normaliser = 0.5 * math.log(2.0 * math.pi) * count
        return (at_one + normaliser) / sigma**2 - normaliser - count * tf.math.log(sigma)

    def curvature(self, kind: str, sigma: tf.Tensor) -> tf.Tensor:
        """The factor between the curvature of a kind and that at noise 1."""
        return sigma ** (-4 if kind == "ef" else -2)
