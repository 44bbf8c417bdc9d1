"""Model definition: what a Bayesian neural network assumes, and what it then predicts.

    python -m tutorials.model_definition --mode train
    python -m tutorials.model_definition --mode test
    python -m tutorials.model_definition --mode visualize

A traditional network has one number for each weight and is one function. A Bayesian network has a
distribution over each weight and is a distribution over functions:

    w ~ p(w),    y ~ N(f(x; w), sigma_0^2)  or  y ~ Categorical(softmax f(x; w)),
    p(y* | x*, D) = int p(y* | x*, w) p(w | D) dw.

Here are both beside each other; both likelihoods; functions of the prior alone; and, by Markov
chains that need no family of posteriors, the posterior predictive of the lecture's example.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from typing import Any

import keras
import numpy as np

from tfbdl.data import gapped_sine
from tfbdl.inference import MCMC
from tfbdl.layers import BayesDense
from tfbdl.likelihoods import Categorical, Likelihood, Normal
from tfbdl.posteriors import MeanFieldNormal
from tutorials import commands, run_files
from tutorials.model_definition import figures
from tutorials.model_definition import posterior_predictive as hmc

NOISE = 0.1
"""Standard deviation of `gapped_sine`."""
EPOCHS = 1000
"""Epochs of six steps each."""
CHAIN_STEPS = 1000
"""Steps of the warm-up, and after it."""


def parser() -> argparse.ArgumentParser:
    return commands.toy_parser("model_definition", "Model definition.", N=30, S=200)


def one_noise(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A noisy sine with a gap, y = sin(2 x) + N(0, 0.1^2), shapes (n, 1)."""
    return gapped_sine(n, seed)


def noise_stddev(x: np.ndarray) -> np.ndarray:
    """The noise of the regression's data: from 0.05 at x = -3 to 0.35 at x = 3."""
    return 0.05 + 0.05 * (x + 3)


def more_noise(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A hundred times as many points of the sine on [-3, 3], with noise that grows with x.

    It takes so many to learn a noise for each x: of 300 points, a posterior of independent weights
    knows that at x = -3 to a factor of six.
    """
    generator = np.random.default_rng(seed)
    x = generator.uniform(-3, 3, (100 * n, 1))
    y = np.sin(2 * x) + noise_stddev(x) * generator.standard_normal(x.shape)
    return x.astype("float32"), y.astype("float32")


def three_classes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten times as many points of the plane, N(c, 0.7^2), with the c of 3 classes on a circle."""
    generator = np.random.default_rng(seed)
    y = generator.integers(3, size=10 * n)
    angle = 2 * np.pi * y / 3 + np.pi / 2
    centre = 1.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (centre + 0.7 * generator.standard_normal(centre.shape)).astype("float32"), y


def traditional(num_data: int, seed: int) -> keras.Model:
    """1-6-1 with tanh: one number for each weight."""
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(6, "tanh", **far_apart()), keras.layers.Dense(1, **far_apart())]
    return compiled([keras.Input((1,)), *layers], Normal(NOISE))


def bayesian(num_data: int, seed: int) -> keras.Model:
    """The same with w ~ N(0, 5) and a normal distribution q(w) for each weight and bias."""
    keras.utils.set_random_seed(seed)

    def layer(units: int, activation: str | None, seed: int) -> BayesDense:
        return bayes(units, activation, num_data, seed, prior=hmc.SIGMA, **far_apart())

    return compiled(
        [keras.Input((1,)), layer(6, "tanh", seed), layer(1, None, seed + 1)], Normal(NOISE)
    )


def far_apart() -> dict[str, keras.initializers.Initializer]:
    """Weights that start so far apart that few units bend all over the data."""
    return {
        name: keras.initializers.RandomNormal(stddev=2.0)
        for name in ("kernel_initializer", "bias_initializer")
    }


def regression(num_data: int, seed: int) -> keras.Model:
    """1-32-32-2, y ~ N(f_1(x), softplus(f_2(x))^2): noise that varies with x."""
    return compiled(
        [keras.Input((1,)), *three_layers(2, 100 * num_data, seed)], Normal("predicted")
    )


def classification(num_data: int, seed: int) -> keras.Model:
    """2-32-32-3, y ~ Categorical(softmax f(x))."""
    return compiled([keras.Input((2,)), *three_layers(3, 10 * num_data, seed)], Categorical())


def three_layers(outputs: int, num_data: int, seed: int) -> list[BayesDense]:
    keras.utils.set_random_seed(seed)
    return [
        bayes(units, activation, num_data, seed + i)
        for i, (units, activation) in enumerate(((32, "relu"), (32, "relu"), (outputs, None)))
    ]


def bayes(
    units: int, activation: str | None, num_data: int, seed: int, **kwargs: Any
) -> BayesDense:
    return BayesDense(
        units,
        activation,
        num_data=num_data,
        posterior=MeanFieldNormal(keras.initializers.Constant(-5.0)),
        estimator="local_reparameterization",
        seed=seed,
        **kwargs,
    )


def compiled(layers: list[Any], likelihood: Likelihood) -> keras.Model:
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, 6 * EPOCHS)
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.Adam(schedule), likelihood)
    return model


PARTS = {
    "traditional": (traditional, one_noise),
    "bayesian": (bayesian, one_noise),
    "regression": (regression, more_noise),
    "classification": (classification, three_classes),
}


def train(args: argparse.Namespace) -> None:
    for name, (network, data) in PARTS.items():
        x, y = data(args.N, args.seed)
        model = network(args.N, args.seed)
        print(f"==> {name}", flush=True)
        tfbdl.train(
            model,
            x,
            y,
            epochs=EPOCHS,
            batch_size=len(x) // 6,
            savedir=args.savedir / name,
            columns=["loss"] if name == "traditional" else ["loss", "kl"],
            seed=args.seed,
        )
        run_files.save(model, args.savedir / name)
    print("==> Markov chains", flush=True)
    chains_of(args)
    test(args)


def chains_of(args: argparse.Namespace) -> MCMC:
    """The Markov chains: run, or read where they have been."""
    return hmc.sample(
        *one_noise(args.N, args.seed),
        num_warmup=CHAIN_STEPS,
        num_samples=CHAIN_STEPS,
        savedir=args.savedir / "chains",
        seed=args.seed,
    )


def test(args: argparse.Namespace) -> None:
    """What each part predicts, in nats a point, and whether the chains agree."""
    densities: dict[str, Any] = {}
    for name, (_, data) in PARTS.items():
        model = run_files.trained(args.savedir / name)
        x, y = data(args.N, args.seed)
        x_test, y_test = data(20 * args.N, args.seed + 1)
        if name == "traditional":
            density = -model.evaluate(x_test, y_test, verbose=0)
        else:
            densities[f"{name}_train_elbo"] = tfbdl.elbo(model, x, y, args.S, seed=args.seed).elbo
            density = tfbdl.log_predictive_density(
                model, x_test, y_test, args.S, seed=args.seed
            ).mean()
        densities[f"{name}_test_log_density"] = float(density)
        print(f"test: density {density:f} ({name})")
    chains = chains_of(args)
    x_test, y_test = one_noise(100 * args.N, args.seed + 1)
    agree = hmc.diagnostics(chains, np.linspace(-4, 4, 17, dtype="float32")[:, None])
    predicted = tfbdl.predict(chains, x_test, CHAIN_STEPS, seed=args.seed, return_samples=True)
    low, high = predicted.interval(0.9)
    agree["coverage_of_90_percent"] = float(np.mean((low < y_test) & (y_test < high)))
    agree["test_log_density"] = float(predicted.log_prob(y_test).mean())
    for name, value in agree.items():
        print(f"test: {name} {value:f} (Markov chains)")
    run_files.write_metrics(args, **densities, markov_chains=agree)


def visualize(args: argparse.Namespace) -> None:
    models = {name: run_files.trained(args.savedir / name) for name in PARTS}
    data = {name: part[1](args.N, args.seed) for name, part in PARTS.items()}
    made = {
        "traditional_and_bayesian": figures.side_by_side(
            models["traditional"], models["bayesian"], data["bayesian"], args.S
        ),
        "regression": figures.regression(
            models["regression"], data["regression"], noise_stddev, args.S
        ),
        "classification": figures.classification(
            models["classification"], data["classification"], args.S
        ),
        "prior_functions": figures.prior_functions(args.seed),
        "posterior_predictive": figures.posterior_predictive(
            chains_of(args), data["bayesian"], args.seed
        ),
    }
    for name, figure in made.items():
        run_files.write_figure(figure, args.savedir / f"{name}.png")


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
