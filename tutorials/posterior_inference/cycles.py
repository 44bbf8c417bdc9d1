"""Cyclical and constant rates of SGHMC, where Markov chains agree and where they do not.

    python -m tutorials.posterior_inference.cycles
    python -m tutorials.posterior_inference.cycles --data digits --n_epochs 20 --seeds 2

A cycle begins with large steps, to look for another mode, and samples in its second half, with
steps that shrink to 0 (Zhang et al. 2020). Whether that helps is asked at equal rates (a cycle
starts at the rate that the other run has all the time) and with as many samples kept: at a constant
rate those of each second epoch.

The problem is that of `table`, whose chains agree at 50 hidden units; of three units there are
not enough for all digits, chains stay with the digits that they happen to tell apart, and their
predictions differ. There the reference is the mean over many chains. Each run is kept as it ends,
and a second call goes on.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.inference import SGMCMC
from tfbdl.optimizers import SGHMC, PreconditionedSGHMC
from tutorials import commands, image_data, run_files
from tutorials.posterior_inference import methods, problems
from tutorials.posterior_inference.distances import scores
from tutorials.posterior_inference.problems import Problem
from tutorials.posterior_inference.reference import Reference, reference
from tutorials.posterior_inference.running import Run, predicted
from tutorials.records import Record, RecordFile

CHAINS = {50: 4, 3: 16}
"""Chains of the reference, by hidden units."""
RATES = {"SGHMC": (0.3, 1.0, 3.0), "SGHMC Prec": (0.003, 0.01, 0.03)}
"""Rates of the samplers, in units of the problem's."""
OPTIMIZERS: dict[str, Any] = {"SGHMC": SGHMC, "SGHMC Prec": PreconditionedSGHMC}
COLUMNS = {"total_variation": "total variation", "agreement": "agreement", "nll": "NLL (nats)"}


def sampled(sampler: str, rate: float, cyclical: bool, problem: Problem, run: Run) -> SGMCMC:
    """Samples at a constant rate, or in cycles that start at it; as many of both."""
    schedule: Any = rate * problem.rate
    if cyclical:
        schedule = methods.cycles(schedule, run)
    optimizer = OPTIMIZERS[sampler](schedule, num_data=problem.num_data, prior=1.0, seed=run.seed)
    return methods.stochastic_gradients(problem, optimizer, run, thinning=1 if cyclical else 2)


def records_of(
    units: int, args: argparse.Namespace, problem: Problem, chains: Reference, test: Any
) -> list[Record]:
    """The scores of each run, held against the chains."""
    record_file = RecordFile(
        args.savedir / "cycles.jsonl", "units", "sampler", "rate", "cyclical", "seed"
    )
    ways = [(name, rate) for name, rates in RATES.items() for rate in rates]
    records = []
    for seed, (name, rate), cyclical in itertools.product(range(args.seeds), ways, (False, True)):
        run = Run(args.n_epochs, args.samples, len(chains.p), seed)

        def measure(
            name: str = name, rate: float = rate, cyclical: bool = cyclical, run: Run = run
        ) -> Record:
            posterior = sampled(name, rate, cyclical, problem, run)
            p = predicted(posterior, test[0], args.S).mean
            return scores(p, chains.mean, test[1]) | {"kept": len(posterior.sample())}

        key = {"units": units, "sampler": name, "rate": rate, "cyclical": cyclical, "seed": seed}
        settings = commands.configuration(args, "seeds", "seed")
        records.append(record_file.kept(key, settings, measure))
        distance, kept = records[-1]["total_variation"], records[-1]["kept"]
        print(f"{key}: total variation {distance:.4f}, {kept} samples", flush=True)
    return records


def of_chains(chains: Reference, y: np.ndarray) -> list[Record]:
    """The scores of each chain, held against the others."""
    return [scores(p, chains.others(c), y) for c, p in enumerate(chains.p)]


def chosen(records: Sequence[Record], sampler: str, rate: float, cyclical: bool) -> list[Record]:
    """The runs of one way, over seeds."""
    way = {"sampler": sampler, "rate": rate, "cyclical": cyclical}
    return [record for record in records if way.items() <= record.items()]


def table(units: int, chains: Reference, records: Sequence[Record], y: np.ndarray) -> list[str]:
    """Mean and standard deviation over seeds, of chains over chains."""
    lines = [f"| {units} units | rate | seeds | kept | {' | '.join(COLUMNS.values())} |"]
    lines.append("|---" * (4 + len(COLUMNS)) + "|")
    rows = [(("HMC, a chain", "", len(chains.p), ""), of_chains(chains, y))]
    for (name, rates), cyclical in itertools.product(RATES.items(), (False, True)):
        for rate in rates:
            of = chosen(records, name, rate, cyclical)
            if of:
                how = f"{rate:g}, cyclical" if cyclical else f"{rate:g}"
                rows.append(((name, how, len(of), of[0]["kept"]), of))
    for words, of in rows:
        values = {name: [record[name] for record in of] for name in COLUMNS}
        cells = [f"{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}" for v in values.values()]
        lines.append(f"| {' | '.join(map(str, words))} | {' | '.join(cells)} |")
    most, median = chains.rhat
    return [*lines, "", f"R-hat of the predictions {most:.3f} at most, median {median:.3f}.", ""]


def figure(results: dict[int, tuple[Reference, list[Record]]], y: np.ndarray) -> Figure:
    """Total variation from the chains: a dot a seed, a bar their mean."""
    drawn, axes = plt.subplots(
        1, len(results), figsize=(12, 4.8), layout="constrained", sharey=True, squeeze=False
    )
    ways = [(name, rate) for name, rates in RATES.items() for rate in rates]
    for ax, (units, (chains, records)) in zip(axes.flat, results.items(), strict=True):
        for place, (name, rate) in enumerate(ways):
            for cyclical, colour in ((False, "C0"), (True, "C1")):
                of = chosen(records, name, rate, cyclical)
                values = np.array([record["total_variation"] for record in of])
                height = place + (0.15 if cyclical else -0.15)
                ax.plot(values, np.full(len(values), height), "o", color=colour, ms=5, alpha=0.6)
                ax.plot(values.mean(), height, "|", color=colour, ms=16, mew=2)
        apart = [record["total_variation"] for record in of_chains(chains, y)]
        ax.axvspan(min(apart), max(apart), color="0.9", zorder=0)
        ax.axvline(float(np.mean(apart)), color="black", linestyle=":", linewidth=1)
        ax.set_title(f"{units} units: R-hat of predictions at most {chains.rhat[0]:.2f}")
        ax.set(xlabel="total variation from the mean of the chains", xlim=(0, None))
        ax.grid(alpha=0.3, axis="x")
    labels = [f"{name}, rate {rate:g}" for name, rate in ways]
    axes[0, 0].set_yticks(range(len(ways)), labels)
    axes[0, 0].invert_yaxis()
    for label, colour in (("constant rate", "C0"), ("cyclical from that rate", "C1")):
        axes[0, -1].plot([], [], "o", color=colour, label=label)
    axes[0, -1].axvspan(np.nan, np.nan, color="0.9", label="one chain from the others")
    drawn.legend(*axes[0, -1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return drawn


def main_cycles(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    x_test, y_test = image_data.full_test(args)
    test = problems.pooled(x_test), y_test
    results: dict[int, tuple[Reference, list[Record]]] = {}
    for units, num_chains in CHAINS.items():
        problem = problems.digits(problems.pooled(data.x_train), data.y_train, units)
        folder = args.savedir / "runs" / f"hmc_{units}"
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(args.n_epochs, args.samples, num_chains, args.seed, folder)
        chains = reference(problem, test[0], run, folder / "reference.npz")
        print(f"{units} units: R-hat of the predictions at most {chains.rhat[0]:.3f}", flush=True)
        results[units] = chains, records_of(units, args, problem, chains, test)
    tables = [line for units, of in results.items() for line in table(units, *of, y_test)]
    run_files.write_table(args.savedir / "cycles.md", tables)
    rhat = {units: chains.rhat.tolist() for units, (chains, _) in results.items()}
    apart = {units: of_chains(chains, y_test) for units, (chains, _) in results.items()}
    run_files.write_metrics(args, rhat=rhat, chains=apart)
    run_files.write_figure(figure(results, y_test), args.savedir / "cycles.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "posterior_inference.cycles", "Cyclical and constant rates.", n_epochs=200
    )
    parser.add_argument("--samples", type=int, default=500, help="of each chain, and its warm-up")
    parser.add_argument("--seeds", type=int, default=3, help="of the samplers")
    parser.add_argument("--S", type=int, default=200, help="drawn functions a prediction")
    return parser


def main() -> None:
    commands.run(parser(), main_cycles)


if __name__ == "__main__":
    main()
