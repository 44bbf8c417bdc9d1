"""KL(q || p) of each family from each prior: by integration, by TFP, and by its own samples."""

import functools
from typing import Any

import numpy as np
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized
from posterior_families import NORMAL, keys, law, make

from tfbdl import priors

tfd = tfp.distributions
SHAPE = (3, 2)
NUM = 100_000
FAMILIES = (*NORMAL, "logistic", "laplace")


def log_mixture(w: Any) -> Any:
    parts = [np.log(p) + scipy.stats.norm(0, s).logpdf(w) for p, s in ((0.3, 1.0), (0.7, 0.1))]
    return np.logaddexp(*parts)


PRIORS = {
    "normal": (lambda: priors.Normal(0.7), scipy.stats.norm(0, 0.7).logpdf),
    "laplace": (lambda: priors.Laplace(0.5), scipy.stats.laplace(0, 0.5).logpdf),
    "student_t": (lambda: priors.StudentT(3.0, 0.5), scipy.stats.t(3, 0, 0.5).logpdf),
    "scale_mixture": (lambda: priors.ScaleMixture(0.3, 1.0, 0.1), log_mixture),
}
CLOSED = {(family, prior) for family in NORMAL for prior in ("normal", "laplace")}
CLOSED |= {("logistic", "normal"), ("laplace", "normal"), ("laplace", "laplace")}


@functools.cache
def by_integration(family: Any, prior: Any) -> Any:
    """-H(q) - E[log p(w)], the expectation element by element under the marginals of q."""
    p = law(make(family, PRIORS[prior][0](), shape=SHAPE))
    logpdf = PRIORS[prior][1]

    def expected(marginal: Any) -> Any:
        """Integral in v with w = Q(v), so that tails and peaks are where the integrator looks."""
        v = np.linspace(-36.0, 36.0, 40_001)
        w = marginal.ppf(scipy.special.expit(-np.abs(v)))
        w = np.where(v > 0, 2.0 * marginal.mean() - w, w)
        return scipy.integrate.simpson(scipy.stats.logistic.pdf(v) * logpdf(w), x=v)

    return -p.entropy - sum(map(expected, p.marginals))


class KLTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(family=FAMILIES, prior=tuple(PRIORS))
    def test_closed_form(self, family: Any, prior: Any) -> None:
        q = make(family, PRIORS[prior][0](), shape=SHAPE)
        got = q.exact_kl()
        self.assertEqual(got is not None, (family, prior) in CLOSED)
        if got is not None:
            self.assertAllClose(got, by_integration(family, prior), 1e-6)

    @parameterized.product(family=FAMILIES, prior=tuple(PRIORS))
    def test_estimates(self, family: Any, prior: Any) -> None:
        """`NUM` of them, one w each."""
        q = make(family, PRIORS[prior][0](), shape=SHAPE)
        q.exact = False
        estimates = tf.function(lambda keys: tf.vectorized_map(q.kl, keys))(keys(NUM)).numpy()
        error = estimates.std() / np.sqrt(NUM)
        self.assertGreater(error, 0.0)
        self.assertLess(abs(estimates.mean() - by_integration(family, prior)), 4 * error)

    @parameterized.product(family=NORMAL, learned=(False, True))
    def test_against_tfp(self, family: Any, learned: Any) -> None:
        """KL of two multivariate normals, and its gradient in a learned prior scale."""
        q = make(family, priors.Normal(0.7, trainable=learned))
        p = law(q)
        joint = tfd.MultivariateNormalFullCovariance(tf.constant(p.mean), p.covariance)

        def expected(scale: Any) -> Any:
            return joint.kl_divergence(tfd.MultivariateNormalDiag(scale_diag=scale * np.ones(12)))

        scale = tf.cast(q.prior.scale, tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(scale)
            reference, got = expected(scale), q.exact_kl()
        self.assertAllClose(got, reference, 1e-6 if learned else 1e-10)
        if learned:
            slope = tape.gradient(got, q.prior.trainable_variables[0].value)
            self.assertAllClose(slope, scale * tape.gradient(reference, scale), 1e-5)

    @parameterized.product(family=NORMAL, prior=("inverse_gamma_scale", "ard", "horseshoe"))
    def test_hierarchical_priors(self, family: Any, prior: Any) -> None:
        """The closed form, of marginals alone, is the mean of estimates at correlated weights."""
        q = make(family, prior, shape=SHAPE)
        exact, q.exact = q.exact_kl(), False
        estimates = tf.function(lambda keys: tf.vectorized_map(q.kl, keys))(keys(NUM)).numpy()
        error = estimates.std() / np.sqrt(NUM)
        self.assertLess(abs(estimates.mean() - exact), 4 * error)

    @parameterized.parameters(*FAMILIES)
    def test_is_never_negative_and_zero_for_equal_laws(self, family: Any) -> None:
        """q with mean 0 and independent elements, against the prior of its own family."""
        prior = {"laplace": priors.Laplace(np.sqrt(0.5) * 0.7)}.get(family, priors.Normal(0.7))
        q = make(family, prior)
        for variable in q.trainable_variables:
            rho = "rho" in variable.name
            variable.assign(tf.fill(variable.shape, tf.constant(np.log(np.expm1(0.7)) * rho)))
        if family == "matrix_normal":
            q.row_factor.rho.assign(tf.fill([3], tf.constant(np.log(np.expm1(1.0)))))
        if family == "logistic":
            self.assertGreater(float(q.exact_kl()), 0.0)
        else:
            self.assertAllClose(q.exact_kl(), 0.0, atol=1e-6)

    def test_learned_laplace_scale(self) -> None:
        """The slope in log scale is D - sum E|w| / scale, by brute force."""
        q = make("laplace", priors.Laplace(0.5, trainable=True))
        with tf.GradientTape() as tape:
            kl = q.exact_kl()
        slope = tape.gradient(kl, q.prior.trainable_variables[0].value)
        absolute = sum(abs(m.rvs(NUM, random_state=i)) for i, m in enumerate(law(q).marginals))
        slopes = 12 - absolute / float(q.prior.scale)
        self.assertLess(abs(slope - slopes.mean()), 4 * slopes.std() / np.sqrt(NUM))

    @parameterized.parameters(*NORMAL)
    def test_priors_over_whole_matrices_are_estimated(self, family: Any) -> None:
        """A prior whose elements depend on each other has no expected log density of each."""

        class Equicorrelated(priors.Prior):
            COVARIANCE = 0.5 * np.eye(6) + 0.3

            def log_prob(self, w: Any) -> Any:
                joint = tfd.MultivariateNormalFullCovariance(np.zeros(6), self.COVARIANCE)
                return joint.log_prob(tf.reshape(w, (6,)))

            def sample(self, key: Any, shape: Any) -> None:
                raise NotImplementedError

        q = make(family, Equicorrelated(), shape=SHAPE)
        self.assertIsNone(q.exact_kl())
        p = law(q)
        expected = tfd.MultivariateNormalFullCovariance(p.mean, p.covariance).kl_divergence(
            tfd.MultivariateNormalFullCovariance(np.zeros(6), Equicorrelated.COVARIANCE)
        )
        num = 20_000
        estimates = tf.function(lambda keys: tf.vectorized_map(q.kl, keys))(keys(num)).numpy()
        self.assertLess(abs(estimates.mean() - expected), 4 * estimates.std() / np.sqrt(num))


if __name__ == "__main__":
    tf.test.main()
