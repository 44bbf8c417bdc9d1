"""Markov chain Monte Carlo over the weights of any Keras model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import boolean, integer, not_negative, optional, positive_integer, verbosity
from tfbdl.inference.arviz import to_arviz
from tfbdl.inference.initial_points import PosteriorStarts, initial_points, points_of
from tfbdl.inference.log_posterior import in_type
from tfbdl.inference.mcmc import kernels
from tfbdl.inference.mcmc.chains import Chains
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.inference.mcmc.progress import ChainProgress
from tfbdl.inference.mcmc.stepping import Draws, Result
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.inference.mcmc.strategy import checked_strategy
from tfbdl.inference.mcmc.summary import ChainSummary
from tfbdl.inference.method import Method, at_most
from tfbdl.inference.target import Prior, Target, TargetMethod
from tfbdl.likelihoods import LikelihoodLike
from tfbdl.memory import require
from tfbdl.models import WeightEnsemble
from tfbdl.replicas import Replicas
from tfbdl.run_folder import held


@keras.saving.register_keras_serializable(package="tfbdl")
class MCMC(TargetMethod):
    """Chains whose samples are draws from a posterior over weights.

    They leave p(theta | x, y), proportional to p(y | x, theta) p(theta), as it is: what a step
    proposes it takes with the probability

        min(1, exp(H - H')),    H = -log p(y | x, theta) - log p(theta) + |m|^2 / 2,

    with momenta m ~ N(0, I) drawn anew, in units of the metric: HMC (Neal 2011), ChEES (Hoffman,
    Radul, Sountsov 2021), MALA (Roberts and Tweedie 1996); or without m: random walks (Metropolis
    et al. 1953) and flips. NUTS draws from a trajectory by exp(-H) (Hoffman and Gelman 2014;
    Betancourt 2017), MAMS has a test of its own energy (Robnik, Cohn-Gordon, Seljak 2025), MCLMC
    (Robnik and Seljak 2024) and unadjusted Langevin none: they are biased by their step size.

    In the limit of long chains this is the exact posterior, by which other methods are judged, for
    networks of up to some ten thousand weights. All chains move at once, in compiled calls of many
    steps, by the transitions of `tfp.mcmc`, and by this package's own for MAMS and MCLMC.
    Each chain has a step size and metric of its own, unless a kernel shares them. A run is a
    function of its seed, the number of chains, and the number of replicas they are spread over.

    Args:
        model: a built `keras.Model` that is deterministic in inference mode; or any function of
            theta, shape (C, D), to its log density up to a constant, (C,), in nats, with a gradient
            in TensorFlow, such as a `LogPosterior`.
        prior: p(w) of a network's weights, as in `LogPosterior`: the scale of a normal, a
            `tfbdl.priors.Prior` or its name, a mapping from names of layers or weights, or a joint
            log density. None beside a log density.
        likelihood: p(y | f(x)) of a network, as `tfbdl.likelihoods.get` takes it; by default that
            of the loss it was compiled with.
        kernel: an object such as `NUTS()`, or its name: "nuts", "hmc", "chees", "mams", "mclmc",
            "mala", "langevin", "rwmh" (random walk), or "flip" (of binary weights).
        num_warmup: steps before the samples, in which step sizes and metrics are tuned.
        num_samples: S, of each chain.
        num_chains: C. Several show whether they agree.
        thinning: steps from sample to sample.
        initial: where chains start: at draws of the "prior" (which spreads them, as R-hat wants);
            the weights of the "model"; points, (D,) or (C, D), as log densities need; or draws of a
            fitted posterior, saved as points: a `DeepEnsemble` gives its members (Sommer et al.
            2025).
        jitter: standard deviation of normal noise on the starts.
        seed: the seed of all noise.
        dtype: "float32" or "float64", of a network's weights and of all that is computed.
        strategy: the `tf.distribute` strategy, such as `MirroredStrategy`, over whose replicas
            chains are spread; it is not saved.
        jit_compile: whether XLA compiles the calls; by default unless the density has operations
            that it cannot compile, or convolves on a CPU, where XLA is slow.

    Attributes:
        initial: the starts as they were given; a posterior is held in a `PosteriorStarts`.

    Raises:
        ValueError: if an argument is out of its range or does not go with the others.
    """

    _result: Result | None

    def __init__(
        self,
        model: Target,
        prior: Prior = None,
        *,
        likelihood: LikelihoodLike | None = None,
        kernel: str | Kernel = "nuts",
        num_warmup: int = 1000,
        num_samples: int = 1000,
        num_chains: int = 4,
        thinning: int = 1,
        initial: Any = "prior",
        jitter: float = 0.0,
        seed: int = 0,
        dtype: str = "float32",
        strategy: tf.distribute.Strategy | None = None,
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(model, prior, likelihood, dtype=dtype, name=name)
        self.kernel = kernels.get(kernel)
        self.num_warmup = integer("num_warmup", num_warmup, least=0)
        self.num_samples = positive_integer("num_samples", num_samples)
        self.num_chains = positive_integer("num_chains", num_chains)
        self.thinning = positive_integer("thinning", thinning)
        if self.num_warmup + self.thinning * self.num_samples > arguments.LARGEST:
            raise ValueError(
                f"num_samples={num_samples} with thinning={thinning} and num_warmup={num_warmup} "
                f"takes more than {arguments.LARGEST} steps; take fewer"
            )
        self.jitter = not_negative("jitter", jitter)
        self.seed = arguments.seed("seed", seed)
        self.initial = PosteriorStarts(initial) if isinstance(initial, Method) else initial
        self.strategy = checked_strategy(strategy, self.num_chains)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        savedir: str | os.PathLike[str] | None = None,
        verbose: int = 1,
    ) -> MCMC:
        """Samples, or goes on where a run in `savedir` was; returns the object itself.

        Args:
            x: inputs of the network, shape (N, ...), or batches as in `MAP.fit`; or None.
            y: targets, shape (N, ...); None if x has them.
            sample_weight: w_n of p(y_n | f(x_n))^w_n, shape (N,).
            class_weight: weights by class in their place, as in Keras' `fit`.
            batch_size: examples at a time, to bound the memory; None takes all at once.
            steps: batches to take of a data set; None for all.
            savedir: a folder for samples and checkpoints. Samples are then memory maps of files. A
                run found there goes on as if it had not stopped, and beyond its end if
                `num_samples` is more. None keeps all in memory.
            verbose: 0 for no progress bar; it shows in terminals only.

        Raises:
            SamplingError: if a chain moves nowhere, or out of the finite numbers.
            ValueError: if x and y do not fit the network, its likelihood or each other, a chain
                starts where the density is not finite, or `savedir` holds another run.
            OSError: if it cannot be written, or another process writes into it.
        """
        folder = optional(arguments.path, "savedir", savedir)
        verbose = verbosity("verbose", verbose)
        weights = {"sample_weight": sample_weight, "class_weight": class_weight}
        target = self._density(x, y, **weights, batch_size=batch_size, steps=steps)
        priors = getattr(target, "priors", None) or []
        kernel = self.kernel.for_priors(priors).for_warmup(self.num_warmup)
        initial = points_of(self.initial, self.num_chains, self.seed)
        theta = initial_points(target, initial, self.num_chains, self.jitter, self.seed)
        if folder is None:
            require(
                self.num_samples * (theta.nbytes + 32 * self.num_chains),
                f"num_samples={self.num_samples} of {self.num_chains} chains",
                "take fewer, or a savedir",
            )
        chains = Chains(
            target,
            kernel,
            Replicas(self.strategy, self.jit_compile),
            theta,
            num_warmup=self.num_warmup,
            num_samples=self.num_samples,
            thinning=self.thinning,
        )
        with held(folder), ChainProgress(verbose) as progress:
            start = chains.start(self.seed)
            settings = chains.settings(self.seed, start)
            storage = ChainStorage(Draws.like(start), self.num_samples, folder, settings)
            position = storage.resumed(start)
            end = chains.to_the_end(position, storage, progress)
        self._keep(Result(storage.arrays, np.asarray(end.tuning.step_size), initial))
        self._hold(target)
        return self

    @property
    def draws(self) -> Draws:
        """The samples, and what came with them.

        Raises:
            NotFittedError: before `fit`.
        """
        return self._fitted("draws").draws

    @property
    def theta(self) -> np.ndarray:
        """Samples of the weights, shape (S, C, D)."""
        return self._fitted("theta").draws.theta

    @property
    def step_size(self) -> np.ndarray:
        """The step size of each chain after warm-up, shape (C,)."""
        return self._fitted("step_size").step_size

    def sample(self, num_samples: int | None = None, *, seed: int = 0) -> np.ndarray:
        """Samples of all chains in random order, at most `num_samples` of the S C; by default all.

        Returns:
            Shape (min(num_samples, S C), D).

        Raises:
            NotFittedError: before `fit`.
        """
        theta = self._fitted("sample").draws.theta
        every = theta.reshape(-1, theta.shape[-1])
        number = at_most(len(every), num_samples)
        rng = arguments.generator("seed", seed)
        return every[rng.permutation(len(every))[:number]]

    def ensemble(self, num_samples: int | None = None, *, seed: int = 0) -> WeightEnsemble:
        """The network with samples of its weights: all S C, or at most `num_samples`.

        They come in random order, so that the first few are spread over chains and samples.

        Raises:
            ValueError: if the target is a log density.
            NotFittedError: before `fit`.
        """
        number = at_most(self._fitted("ensemble").draws.log_prob.size, num_samples)
        return self._ensemble_of(self.sample(number, seed=seed))

    def outputs(self, x: Any) -> np.ndarray:
        """The network's outputs at x, (N, ...), for each sample: shape (S, C, N, ...).

        Raises:
            ValueError: if the target is a log density, or the network does not take x.
            NotFittedError: before `fit`.
        """
        draws, network = self._fitted("outputs").draws, self._network()
        x = in_type(x, network.dtype)
        network.check_inputs(x)

        @tf.function
        def of_chains(theta: tf.Tensor) -> tf.Tensor:
            return tf.map_fn(lambda one: network(one, x, self._state), theta)

        return np.stack([of_chains(tf.constant(theta)).numpy() for theta in draws.theta])

    def summary(self, x: Any = None) -> ChainSummary:
        """Moments and diagnostics of the weights and, if x is given, of the outputs at x.

        Weights of a network that are exchanged for each other give the same function: chains that
        agree on the outputs may well not agree on the weights.

        Args:
            x: inputs, shape (N, ...), in the structure in which the model takes them.

        Raises:
            ValueError: if there are fewer than 4 samples, or x is given beside a log density.
            NotFittedError: before `fit`.
        """
        draws, step_size, _ = self._fitted("summary")
        samples = self._by_weight()
        if x is not None:
            samples["f(x)"] = self.outputs(x)
        return ChainSummary.of(repr(self), samples, draws, step_size)

    def to_arviz(self) -> Any:
        """The samples as an `arviz.InferenceData`, of the weights by name, with sample statistics.

        Raises:
            ImportError: if ArviZ is missing.
            NotFittedError: before `fit`.
        """
        return to_arviz(**self._fitted("to_arviz").draws.statistics(), weights=self._by_weight())

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        draws, step_size, _ = self._fitted("fitted_arrays")
        return {**draws._asdict(), "step_size": step_size, **self._state_arrays()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._keep(Result(Draws.of_arrays(arrays), arrays["step_size"], self.initial))
        self._restore_state(arrays)

    def get_config(self) -> dict[str, Any]:
        initial = self.initial if self._result is None else self._result.initial
        initial = points_of(initial, self.num_chains, self.seed)
        return self._config_but("strategy", initial=initial)

    def _by_weight(self) -> dict[str, np.ndarray]:
        """The samples of each weight tensor, (S, C, ...), by its path; of a density as "theta"."""
        return {"theta": self.theta} if self._flat is None else self._flat.by_weight(self.theta)
