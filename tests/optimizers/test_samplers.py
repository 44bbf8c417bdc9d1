"""The samplers as optimizers: steps by hand, laws of the discretised dynamics, Keras' ways."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import scipy.linalg
import scipy.stats
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl import priors
from tfbdl.optimizers import (
    SGHMC,
    SGLD,
    CyclicalSchedule,
    PreconditionedSGHMC,
    PreconditionedSGLD,
)

ALL = (SGLD, PreconditionedSGLD, SGHMC, PreconditionedSGHMC)
N = 20
CHAINS = 20_000


def run(optimizer: Any, curvature: Any, steps: Any, chains: Any = CHAINS) -> Any:
    """Many chains on U = curvature w^2 / 2, from 0; where they are after `steps`."""
    w = keras.Variable(np.zeros(chains, "float32"))
    optimizer.build([w])

    @tf.function(jit_compile=True)
    def go() -> None:
        for _ in tf.range(steps):
            optimizer.apply([curvature * w.value], [w])

    go()
    return w.numpy().astype(np.float64)


def assert_normal(samples: Any, variance: Any) -> None:
    law = scipy.stats.norm(0, np.sqrt(variance))
    pvalue = scipy.stats.kstest(samples, law.cdf, method="asymp").pvalue
    assert pvalue > 1e-5, (pvalue, samples.var() / variance)


class LawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(lr=(0.05, 0.5), temperature=(1.0, 0.1))
    def test_sgld_has_the_variance_of_its_discretisation(self, lr: Any, temperature: Any) -> None:
        """w' = (1 - lr a) w + sqrt(2 lr T / N) e, so Var = (T / N) / (a (1 - lr a / 2))."""
        a = 1.5
        w = run(SGLD(lr, num_data=N, temperature=temperature, seed=1), a, int(40 / lr))
        assert_normal(w, temperature / N / (a * (1 - lr * a / 2)))

    @parameterized.product(lr=(0.01, 0.2), momentum=(0.0, 0.5, 0.9))
    def test_sghmc_has_the_variance_of_its_discretisation(self, lr: Any, momentum: Any) -> None:
        """The covariance of (w, v) solves its discrete Lyapunov equation."""
        a = 1.5
        f = np.array([[1 - lr * a, momentum], [-lr * a, momentum]])
        noise = 2 * (1 - momentum) * lr / N * np.ones((2, 2))
        expected = scipy.linalg.solve_discrete_lyapunov(f, noise)[0, 0]
        steps = int(np.log(1e-4) / np.log(np.abs(np.linalg.eigvals(f)).max())) + 5
        w = run(SGHMC(lr, momentum=momentum, num_data=N, seed=2), a, steps)
        assert_normal(w, expected)

    @parameterized.product(kind=(SGHMC, PreconditionedSGHMC), momentum=(0.0, 0.9))
    def test_velocities_have_the_temperature_that_noise_of_gradients_adds_to(
        self, kind: Any, momentum: Any
    ) -> None:
        """A free particle has T, and lr N Var(g) / (2 (1 - momentum)) of gradients g around 0."""
        lr, temperature, sigma = 0.05, 0.5, 0.4
        arguments = {"rho": 1 - 1e-7} if kind is PreconditionedSGHMC else {}
        sampler = kind(
            lr, momentum=momentum, num_data=N, temperature=temperature, seed=3, **arguments
        )
        still, shaken = (keras.Variable(np.zeros(CHAINS, "float32"), name=n) for n in "ab")
        sampler.build([still, shaken])
        generator = tf.random.Generator.from_seed(7)

        @tf.function
        def go() -> None:
            for _ in tf.range(100):
                noisy = sigma * generator.normal([CHAINS])
                sampler.apply([tf.zeros(CHAINS), noisy], [still, shaken])

        go()
        heated = temperature + lr * N * sigma**2 / (2 * (1 - momentum))
        measured = sampler.kinetic_temperatures()
        self.assertAllClose(measured, {"a": temperature, "b": heated}, 5 * np.sqrt(2 / CHAINS))

    @parameterized.parameters(None, 2)
    def test_the_temperature_is_that_of_the_last_rate(self, accumulated: Any) -> None:
        """A schedule that jumps behind the last step changes nothing."""
        jump = keras.optimizers.schedules.PiecewiseConstantDecay([9], [0.01, 1.0])
        measured = []
        for rate in (0.01, jump):
            sampler = SGHMC(rate, num_data=N, seed=3, gradient_accumulation_steps=accumulated)
            w = keras.Variable(np.zeros(100, "float32"), name="w")
            sampler.build([w])
            for _ in range(10):
                sampler.apply([tf.zeros(100)], [w])
            measured.append(sampler.kinetic_temperatures()["w"])
        self.assertAllClose(*measured, 1e-6)

    def test_there_is_no_temperature_before_the_first_step(self) -> None:
        with self.assertRaisesRegex(ValueError, "has no velocities before its first step"):
            SGHMC(num_data=N).kinetic_temperatures()

    @parameterized.parameters((SGLD, {}), (SGHMC, {"momentum": 0.9}))
    def test_the_bias_vanishes_with_the_step(self, kind: Any, arguments: Any) -> None:
        """Both tend to the posterior's variance T / (N a) as lr goes to 0."""
        a = 2.0
        lr = 0.02 if kind is SGLD else 0.004
        w = run(kind(lr, num_data=N, seed=3, **arguments), a, 1500)
        error = np.sqrt(2 / CHAINS)
        self.assertLess(abs(w.var() * N * a - 1), 4 * error + lr * a)

    @parameterized.parameters(PreconditionedSGLD, PreconditionedSGHMC)
    def test_preconditioned_noise_fits_its_step(self, kind: Any) -> None:
        """A constant gradient c has V = c^2: steps lr / |c|, and noise of that step."""
        c, lr = 4.0, 0.01
        extra = {"momentum": 0.0} if kind is PreconditionedSGHMC else {}
        optimizer = kind(lr, num_data=N, rho=0.0, epsilon=1e-12, seed=4, **extra)
        w = keras.Variable(np.zeros(CHAINS, "float32"))
        optimizer.build([w])
        optimizer.apply([tf.fill([CHAINS], c)], [w])
        step = lr / c
        law = scipy.stats.norm(-step * c, np.sqrt(2 * step / N))
        self.assertGreater(scipy.stats.kstest(w.numpy(), law.cdf, method="asymp").pvalue, 1e-5)

    @parameterized.parameters(PreconditionedSGLD, PreconditionedSGHMC)
    def test_preconditioned_samplers_reach_the_posterior(self, kind: Any) -> None:
        """Two curvatures; a slow preconditioner and a small step, within a few percent."""
        for a in (0.5, 20.0):
            optimizer = kind(0.002, num_data=N, rho=0.9999, seed=5)
            w = run(optimizer, a, 20_000, chains=4000)
            self.assertLess(abs(w.var() * N * a - 1), 0.1)

    @parameterized.parameters(*ALL)
    def test_noise_differs_between_steps_weights_and_variables(self, kind: Any) -> None:
        optimizer = kind(0.1, num_data=N, seed=6)
        variables = [keras.Variable(np.zeros(1000, "float32")) for _ in range(2)]
        optimizer.build(variables)
        noises = []
        for _ in range(2):
            noises += [optimizer.noise(v).numpy() for v in variables]
            optimizer.apply([tf.ones(1000)] * 2, variables)
        self.assertLess(np.abs(np.corrcoef(noises) - np.eye(4)).max(), 5 / np.sqrt(1000))


class StepTest(tf.test.TestCase, parameterized.TestCase):
    START = np.random.default_rng(0).normal(size=(3, 2)).astype("float32")

    def after(self, optimizer: Any, steps: int = 5) -> Any:
        w = keras.Variable(self.START)
        for i in range(steps):
            optimizer.apply([tf.sin(w.value + i)], [w])
        return w.numpy()

    @parameterized.parameters(
        (lambda: SGLD(0.1, num_data=N, temperature=0.0), lambda: keras.optimizers.SGD(0.1)),
        (
            lambda: SGHMC(0.1, momentum=0.7, num_data=N, temperature=0.0),
            lambda: keras.optimizers.SGD(0.1, momentum=0.7),
        ),
    )
    def test_at_temperature_0_they_are_sgd(self, sampler: Any, sgd: Any) -> None:
        self.assertAllClose(self.after(sampler()), self.after(sgd()), 1e-6)

    def test_preconditioned_steps_by_hand(self) -> None:
        for kind in (PreconditionedSGLD, PreconditionedSGHMC):
            optimizer = kind(0.1, num_data=N, temperature=0.0, rho=0.9, epsilon=1e-3)
            layerwise = kind is PreconditionedSGHMC
            w, v, squares = self.START.astype("float64"), 0.0, float(layerwise)
            for i in range(5):
                g = np.sin(w + i)
                squares = 0.9 * squares + 0.1 * (np.mean(g**2) if layerwise else g**2)
                v = (0.9 if layerwise else 0.0) * v - 0.1 / (1e-3 + np.sqrt(squares)) * g
                w = w + v
            self.assertAllClose(self.after(optimizer), w, 1e-5)

    @parameterized.parameters(*ALL)
    def test_prior_enters_once(self, kind: Any) -> None:
        """Its slope is w / (scale^2 N) beside that of the mean loss, where V does not see it."""
        w = keras.Variable(self.START)
        optimizer = kind(0.1, num_data=N, temperature=0.0, prior=0.5)
        optimizer.build([w])
        gradient = tf.ones((3, 2))
        expected = 1.0 + self.START / (0.25 * N)
        self.assertAllClose(optimizer.slope(gradient, w), expected, 1e-6)
        laplace = kind(0.1, num_data=N, prior=priors.Laplace(0.5))
        laplace.build([w])
        expected = 1.0 + np.sign(self.START) / (0.5 * N)
        self.assertAllClose(laplace.slope(gradient, w), expected, 1e-6)


class PosteriorTest(tf.test.TestCase, parameterized.TestCase):
    def test_linear_regression_through_the_loop(self) -> None:
        """400 chains as the units of one layer; mean and covariance with the step's own bias."""
        rng = np.random.default_rng(1)
        n, chains, noise, scale, lr = 30, 400, 0.5, 1.3, 0.02
        x = rng.normal(size=(n, 2)).astype("float32")
        y = x @ [1.0, -0.5] + rng.normal(0, noise, n)
        targets = np.tile(y[:, None], [1, chains]).astype("float32")
        curvature = (x.T @ x / noise**2 + np.eye(2) / scale**2) / n
        mean = np.linalg.solve(curvature, x.T @ y / noise**2 / n)
        covariance = np.linalg.inv(curvature @ (np.eye(2) - 0.5 * lr * curvature)) / n
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(chains, use_bias=False)])
        sampler = SGLD(lr, num_data=n, prior=scale, seed=3)
        model.compile(sampler, tfbdl.likelihoods.Normal(noise))
        tfbdl.train(model, x, targets, epochs=200, batch_size=n, verbose=0)
        w = model.get_weights()[0].astype(np.float64)
        error = np.sqrt(np.diag(covariance) / chains)
        self.assertLess(np.max(np.abs(w.mean(axis=1) - mean) / error), 4)
        got = np.cov(w)
        error = np.sqrt((np.outer(*[np.diag(covariance)] * 2) + covariance**2) / chains)
        self.assertLess(np.max(np.abs(got - covariance) / error), 4)


class KerasTest(tf.test.TestCase, parameterized.TestCase):
    X = np.random.default_rng(2).normal(size=(24, 3)).astype("float32")
    Y = np.random.default_rng(3).normal(size=(24, 1)).astype("float32")

    def model(self, kind: Any, **arguments: Any) -> Any:
        keras.utils.set_random_seed(4)
        hidden = keras.layers.Dense(4, "tanh")
        model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
        model.compile(kind(0.01, num_data=24, prior=1.0, seed=5, **arguments), "mse")
        return model

    def fit(self, model: Any, epochs: int, initial: int = 0) -> None:
        arguments = {"batch_size": 8, "shuffle": False, "verbose": 0}
        model.fit(self.X, self.Y, epochs=epochs, initial_epoch=initial, **arguments)

    @parameterized.parameters(*ALL)
    def test_a_saved_run_goes_on_as_if_it_had_not_stopped(self, kind: Any) -> None:
        whole = self.model(kind)
        self.fit(whole, 6)
        model = self.model(kind)
        self.fit(model, 3)
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "m.keras")
            again = keras.models.load_model(Path(folder) / "m.keras")
        self.assertEqual(again.optimizer.get_config(), model.optimizer.get_config())
        self.fit(again, 6, initial=3)
        for a, b in zip(whole.get_weights(), again.get_weights(), strict=True):
            self.assertAllClose(a, b, 1e-6)

    @parameterized.product(kind=ALL, loop=(False, True))
    def test_replicas_stay_in_step(self, kind: Any, loop: Any) -> None:
        """All variables are the same on both, and those of one device.

        To the bit, but for weights of one number: TensorFlow may order their products differently.
        Beside one device, sums over the batch are rounded otherwise, and preconditioners divide by
        gradients that may be near 0.
        """
        strategy = two_replicas.strategy()
        alone = self.model(kind)
        with strategy.scope():
            model = self.model(kind)
        for m in (alone, model):
            if loop:
                tfbdl.train(m, self.X, self.Y, epochs=3, batch_size=8, verbose=0, jit_compile=False)
            else:
                self.fit(m, 3)
        for variable in (*model.variables, *model.optimizer.variables):
            first, second = strategy.experimental_local_results(variable.value)
            self.assertAllClose(first, second, 1e-6 if variable.shape == (1,) else 0.0, 0.0)
        for a, b in zip(alone.get_weights(), model.get_weights(), strict=True):
            self.assertAllClose(a, b, 2e-3, 1e-5)

    @parameterized.parameters(*ALL)
    def test_accumulated_gradients_are_those_of_a_larger_batch(self, kind: Any) -> None:
        """One step, and one draw of noise, for two batches of half the size.

        In float64: preconditioners amplify the rounding of gradients that nearly cancel.
        """
        keras.config.set_dtype_policy("float64")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        whole = self.model(kind)
        self.fit(whole, 3)
        halves = self.model(kind, gradient_accumulation_steps=2)
        halves.fit(self.X, self.Y, 4, 3, shuffle=False, verbose=0)
        for a, b in zip(whole.get_weights(), halves.get_weights(), strict=True):
            self.assertEqual(a.dtype, np.float64)
            self.assertAllClose(a, b, 1e-9, 1e-10)

    @parameterized.parameters(SGLD, SGHMC)
    def test_a_cycle_counts_batches_when_gradients_accumulate(self, kind: Any) -> None:
        """8 batches a cycle are 4 steps, of which the first two explore."""
        schedule = CyclicalSchedule(0.1, 8, exploration=0.5)
        sampler = kind(schedule, num_data=5, seed=0, gradient_accumulation_steps=2)
        w = keras.Variable(np.ones(100, "float32"))
        sampler.build([w])
        spreads = []
        for _ in range(8):
            sampler.apply([tf.ones(100)], [w])
            spreads.append(np.std(w))
        noisy = np.abs(np.diff(spreads, prepend=0.0)) > 1e-4
        self.assertAllEqual(noisy, [0, 0, 0, 0, 0, 1, 0, 1])

    @parameterized.parameters(*ALL)
    def test_a_scaled_loss_changes_no_step(self, kind: Any) -> None:
        plain, scaled = self.model(kind), self.model(kind, loss_scale_factor=64.0)
        for model in (plain, scaled):
            self.fit(model, 3)
        for a, b in zip(plain.get_weights(), scaled.get_weights(), strict=True):
            self.assertAllClose(a, b, 1e-6)

    @parameterized.parameters(*ALL)
    def test_what_is_no_sampling_is_refused(self, kind: Any) -> None:
        with self.assertRaisesRegex(
            ValueError, r"^weight_decay=0\.04 is no prior .*; give prior=0\.5, which is 1 / sqrt"
        ):
            kind(0.1, num_data=100, weight_decay=0.04)
        with self.assertRaisesRegex(ValueError, "^use_ema=True .*; keep samples by tfbdl.infere"):
            kind(0.1, num_data=100, use_ema=True)
        for name in ("clipnorm", "global_clipnorm", "clipvalue"):
            with self.assertRaisesRegex(ValueError, rf"^{name}=2\.0 .*; take a smaller learning"):
                kind(0.1, num_data=100, **{name: 2.0})

    def test_the_prior_named_for_a_weight_decay_has_its_slope(self) -> None:
        """Decay by lr * 0.04 * w, of SGD, is a step of SGLD on the prior of scale 0.5."""
        w = [keras.Variable(StepTest.START) for _ in range(2)]
        decayed = keras.optimizers.SGD(0.1, weight_decay=0.04)
        sampler = SGLD(0.1, num_data=100, temperature=0.0, prior=0.5)
        for optimizer, v in ((decayed, w[0]), (sampler, w[1])):
            optimizer.apply([tf.ones((3, 2))], [v])
        self.assertAllClose(*w, 1e-6)

    @parameterized.parameters(*ALL)
    def test_sparse_gradients(self, kind: Any) -> None:
        """Gradients of an embedding are those of a dense layer on one-hot inputs."""
        x = np.random.default_rng(5).integers(0, 5, (24, 3))
        embedding = keras.Sequential([keras.Input((3,), dtype="int32")])
        embedding.add(keras.layers.Embedding(5, 2))
        dense = keras.Sequential([keras.Input((3, 5)), keras.layers.Dense(2, use_bias=False)])
        dense.set_weights(embedding.get_weights())
        for model, inputs in ((embedding, x), (dense, np.eye(5)[x])):
            model.compile(kind(0.01, num_data=24, prior=1.0, seed=5), "mse")
            model.fit(inputs, np.zeros((24, 3, 2)), 8, 3, shuffle=False, verbose=0)
        self.assertAllClose(embedding.get_weights(), dense.get_weights(), 1e-5)

    @parameterized.parameters(*ALL)
    def test_arguments(self, kind: Any) -> None:
        for name, wrong in (("num_data", 0), ("temperature", -1.0), ("prior", "gauss")):
            arguments = {"num_data": 3, name: wrong}
            with self.assertRaisesRegex(ValueError, f"^{name}="):
                kind(0.1, **arguments)
        with self.assertRaisesRegex(ValueError, "^prior='bernoulli' is discrete, which has no"):
            kind(0.1, num_data=3, prior="bernoulli")
        with self.assertRaisesRegex(ValueError, "^prior=Horseshoe has scales with a posterior of"):
            kind(0.1, num_data=3, prior="horseshoe")
        with self.assertRaises(TypeError):
            kind(0.1)

    def test_arguments_of_single_samplers(self) -> None:
        for kind, name, wrong in (
            (SGHMC, "momentum", 1.0),
            (PreconditionedSGLD, "rho", 1.0),
            (PreconditionedSGHMC, "epsilon", 0.0),
        ):
            with self.assertRaisesRegex(ValueError, f"^{name}={wrong} must be"):
                kind(0.1, num_data=3, **{name: wrong})


if __name__ == "__main__":
    tf.test.main()
