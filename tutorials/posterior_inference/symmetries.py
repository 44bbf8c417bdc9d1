r"""Weights that are the same function: hidden units that change places, ReLUs that are rescaled.

    python -m tutorials.posterior_inference.symmetries

f(x) = sum_j v_j phi(w_j x + b_j) + c does not change if

    two hidden units change places        H! orders, under any prior that treats units alike
    a tanh unit changes all its signs     2^H more
    a ReLU's (w, b, v) become (a w, a b, v / a), a > 0: a curve for each unit

The first two map the posterior onto itself, so it has as many copies of each mode: chains agree on
f and need not agree on weights, until units are put in an order. The third changes the prior alone.
Along its curve N(0, 1) is highest where w^2 + b^2 = v^2, as at every mode (a search for one stops
near it, at the kinks of the ReLUs); and the posterior of log a is known, whatever the data are,

    p(log a) ∝ a exp(-(a^2 (w^2 + b^2) + v^2 / a^2) / 2),

as (w, b) are two numbers and v is one. Samples must spread along it.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import NamedTuple

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.data import gapped_sine
from tfbdl.inference import MAP, MCMC, LogPosterior, rhat
from tfbdl.likelihoods import Normal
from tutorials import commands, run_files

NOISE = 0.1
POINTS = np.linspace(-3, 3, 7, dtype="float32")[:, None]
STARTS = 10
"""Starts of the search for the mode."""
FACTORS = np.geomspace(0.2, 5, 41)


class Units(NamedTuple):
    """The weights of a 1-H-1 network, each of shape (..., H); c of shape (..., 1)."""

    w: np.ndarray
    b: np.ndarray
    v: np.ndarray
    c: np.ndarray

    @classmethod
    def of(cls, theta: np.ndarray) -> Units:
        h = (theta.shape[-1] - 1) // 3
        return cls(*np.split(theta, (h, 2 * h, 3 * h), axis=-1))

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate(self, axis=-1)

    def permuted(self, order: np.ndarray) -> Units:
        """The units in that order, shape (..., H)."""
        w, b, v = (np.take_along_axis(part, order, -1) for part in self[:3])
        return Units(w, b, v, self.c)

    def turned(self, signs: np.ndarray) -> Units:
        """All weights of a unit times its sign."""
        return Units(self.w * signs, self.b * signs, self.v * signs, self.c)

    def scaled(self, a: np.ndarray) -> Units:
        """What goes in times a, what comes out divided by it."""
        return Units(self.w * a, self.b * a, self.v / a, self.c)

    def ordered(self) -> Units:
        """One of all that are the same tanh network: w >= 0, the places -b / w in a row."""
        positive = self.turned(np.where(self.w < 0, -1.0, 1.0))
        return positive.permuted(np.argsort(-positive.b / np.maximum(positive.w, 1e-12), -1))


def target(activation: str, args: argparse.Namespace) -> LogPosterior:
    """Log p(y, w | x) in float64, under N(0, 1)."""
    x, y = gapped_sine(args.N, args.seed)
    layers = [keras.layers.Dense(args.units, activation), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((1,)), *layers])
    return LogPosterior(model, 1.0, x, y, likelihood=Normal(NOISE), dtype="float64")


def chains(of: LogPosterior, args: argparse.Namespace) -> MCMC:
    """Chains by trajectories; theta has the shape (samples, chains, D)."""
    mcmc = MCMC(
        of,
        kernel="hmc",
        num_warmup=args.samples,
        num_samples=args.samples,
        num_chains=args.chains,
        seed=args.seed,
    )
    return mcmc.fit()


def mode_of(of: LogPosterior, args: argparse.Namespace) -> Units:
    """The highest of the modes from several starts, or what L-BFGS finds near it.

    Where ReLUs have their kinks it stops beside a mode, and warns.
    """
    seeds = range(args.seed, args.seed + STARTS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no mode after")
        modes = [MAP(of, initial="prior", seed=seed).fit() for seed in seeds]
    return Units.of(np.asarray(max(modes, key=lambda mode: mode.log_prob).theta))


def invariance(of: LogPosterior, units: Units, args: argparse.Namespace) -> dict[str, float]:
    """The largest changes of log densities (nats) that the three maps make of one sample."""
    generator = np.random.default_rng(args.seed)
    h = units.w.shape[-1]
    mapped = {
        "change places": units.permuted(generator.permutation(h)),
        "signs": units.turned(generator.choice([-1.0, 1.0], h)),
        "scales": units.scaled(np.exp(generator.standard_normal(h))),
    }
    rows = {}
    for name, other in mapped.items():
        for part, density in (("likelihood", of.log_likelihood), ("prior", of.log_prior)):
            change = float(density(other.theta)) - float(density(units.theta))
            rows[f"{name}: change of log {part}"] = change
    return rows


def measure_tanh(posterior: MCMC, args: argparse.Namespace) -> dict[str, float]:
    """R-hat of f, of weights as they are, and in order."""
    units = Units.of(posterior.theta)
    raw, ordered = np.abs(units.theta), units.ordered().theta
    f = posterior.outputs(POINTS)[..., 0]
    return {
        "log10 of equal modes": math.log10(math.factorial(args.units)) + args.units * math.log10(2),
        "R-hat of f, largest": float(max(rhat(f[..., i]) for i in range(len(POINTS)))),
        "R-hat of weights, median": median_rhat(units.theta),
        "R-hat without signs, median": median_rhat(raw),
        "R-hat in order, median": median_rhat(ordered),
    }


def median_rhat(theta: np.ndarray) -> float:
    return float(np.median([rhat(theta[..., i]) for i in range(theta.shape[-1])]))


def balance(units: Units) -> np.ndarray:
    """Log of (w^2 + b^2)^(1/2) / |v|, shape (..., H): 0 at a mode."""
    return 0.5 * np.log(units.w**2 + units.b**2) - np.log(np.abs(units.v))


def on_curve(units: Units) -> np.ndarray:
    """The probability, by p(log a), of an a below 1, of each unit: uniform where p is right."""
    lengths = units.w**2 + units.b**2
    log_a = np.linspace(-12, 12, 4801)
    a2 = np.exp(2 * log_a)
    below = np.empty(lengths.shape)
    for i, (r, s) in enumerate(zip(lengths.ravel(), (units.v**2).ravel(), strict=True)):
        log_p = log_a - 0.5 * (a2 * r + s / a2)
        p = np.exp(log_p - log_p.max())
        below.flat[i] = p[log_a <= 0].sum() / p.sum()
    return below


def measure_relu(mode: Units, posterior: MCMC) -> dict[str, float]:
    units = thinned(posterior, 250)
    u = on_curve(units)
    return {
        "mode: |log balance|, median": float(np.median(np.abs(balance(mode)))),
        "samples: sd of log balance": float(balance(units).std()),
        "samples: mean place on the curve (1/2)": float(u.mean()),
        "samples: sd of that place (0.289)": float(u.std()),
    }


def thinned(posterior: MCMC, kept: int) -> Units:
    """So many samples of each chain, at equal distances, if there are as many."""
    return Units.of(posterior.theta[:: max(len(posterior.theta) // kept, 1)])


def figure(
    of: LogPosterior, tanh: MCMC, relu: MCMC, mode: Units, args: argparse.Namespace
) -> Figure:
    drawn, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    units, ordered = Units.of(tanh.theta), Units.of(tanh.theta).ordered()
    f = tanh.outputs(POINTS[3:4])[..., 0, 0]
    middle = args.units // 2
    for ax, name, values in (
        (axes[0, 0], "f(0)", f),
        (axes[0, 1], "w of one unit", units.w[..., middle]),
        (axes[0, 2], "w of the middle unit in order", ordered.w[..., middle]),
    ):
        ax.plot(values, linewidth=0.7)
        ax.set(xlabel="sample", ylabel=name)
        ax.set_title(f"tanh: {name}, R-hat {rhat(values):.2f}", fontsize=10)
    one = Units.of(relu.theta[-1, 0])
    densities = [
        [float(of.log_likelihood(one.scaled(a).theta)), float(of.log_prior(one.scaled(a).theta))]
        for a in FACTORS
    ]
    likelihood, prior = np.array(densities).T
    axes[1, 0].semilogx(FACTORS, likelihood - likelihood.max(), label="log likelihood")
    axes[1, 0].semilogx(FACTORS, prior - prior.max(), label="log prior")
    axes[1, 0].set(
        title="ReLU: a sample, all units rescaled by a", xlabel="a", ylabel="nats below its largest"
    )
    axes[1, 0].set_ylim(-60, 3)
    axes[1, 0].set_xticks([0.2, 0.5, 1, 2, 5], ["1/5", "1/2", "1", "2", "5"])
    axes[1, 0].minorticks_off()
    axes[1, 0].legend(fontsize=8)
    for some, style, label in ((thinned(relu, 25), "C0.", "samples"), (mode, "C3o", "the mode")):
        size = np.hypot(some.w, some.b).ravel()
        axes[1, 1].loglog(np.abs(some.v).ravel(), size, style, markersize=3, alpha=0.6, label=label)
    axes[1, 1].plot([1e-2, 4], [1e-2, 4], "k--", linewidth=1, label="equal")
    axes[1, 1].set(
        title="the mode is balanced, samples are not",
        xlabel="|v| of a unit",
        ylabel=r"$(w^2 + b^2)^{1/2}$",
        xlim=(1e-2, 10),
        ylim=(1e-2, 10),
    )
    axes[1, 1].legend(fontsize=8, loc="lower right")
    u = on_curve(thinned(relu, 250)).ravel()
    axes[1, 2].hist(u, np.linspace(0, 1, 11).tolist(), density=True, color="C0", alpha=0.7)
    axes[1, 2].axhline(1.0, color="black", linestyle="--", label="uniform")
    axes[1, 2].set(
        title=f"{len(u):,} units of samples: places on their curves",
        xlabel="probability of a smaller a, by p(log a)",
        ylabel="density",
    )
    axes[1, 2].legend(fontsize=8)
    return drawn


def main_symmetries(args: argparse.Namespace) -> None:
    args.savedir.mkdir(parents=True, exist_ok=True)
    targets = {name: target(name, args) for name in ("tanh", "relu")}
    posteriors = {name: chains(of, args) for name, of in targets.items()}
    mode = mode_of(targets["relu"], args)
    rows = {
        "tanh, one sample": invariance(
            targets["tanh"], Units.of(posteriors["tanh"].theta[-1, 0]), args
        ),
        "relu, one sample": invariance(
            targets["relu"], Units.of(posteriors["relu"].theta[-1, 0]), args
        ),
        "tanh, chains": measure_tanh(posteriors["tanh"], args),
        "relu, chains": measure_relu(mode, posteriors["relu"]),
    }
    for name, row in rows.items():
        cells = ", ".join(f"{column} {value:.4g}" for column, value in row.items())
        print(f"test: {name}: {cells}", flush=True)
    run_files.write_metrics(args, symmetries=rows)
    picture = figure(targets["relu"], posteriors["tanh"], posteriors["relu"], mode, args)
    run_files.write_figure(picture, args.savedir / "symmetries.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.parser("posterior_inference.symmetries", "Weights that are one function.")
    parser.add_argument("--N", type=int, default=20, help="training points")
    parser.add_argument("--units", type=int, default=8, help="H")
    parser.add_argument("--chains", type=int, default=4, help="number of Markov chains")
    parser.add_argument("--samples", type=int, default=1000, help="of each chain, and its warm-up")
    return parser


def main() -> None:
    commands.run(parser(), main_symmetries)


if __name__ == "__main__":
    main()
