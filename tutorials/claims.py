"""How good is it? The front table of `results/`, computed from the records that runs have left.

    python -m tutorials.claims

Every number is read from a file below `results/`; nothing is trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tutorials.lecture_table import LECTURE_TABLE
from tutorials.slides_logs import ACCURACY, MC_DROPOUT, VAE
from tutorials.uci import published

RESULTS = Path(__file__).parents[1] / "results"
FLOORS = ("parts", "keras", "torch", "adam")
"""What benchmarks time beside packages, where there are some; a layer in Keras alone is one."""


class Claim(NamedTuple):
    """A row of the table."""

    question: str
    here: str
    beside: str
    page: str


def main() -> None:
    print(table())


def table() -> str:
    """All claims, as Markdown."""
    rows = [
        f"| {claim.question} | {claim.here} | {claim.beside} | [{claim.page}]({claim.page}.md) |"
        for claim in claims()
    ]
    return "\n".join(["| | here | beside | more |", "|---|---|---|---|", *rows])


def claims() -> Iterator[Claim]:
    """The claims, from the course to the field, and what it costs."""
    for title, name, slides in (("the VAE", "vae", VAE), ("MC dropout", "log", MC_DROPOUT)):
        yield Claim(
            f"The slides' log of {title}",
            f"all numbers within {furthest(name, slides):.1f} standard deviations of "
            f"{len(records(f'many_seeds/{name}'))} seeds",
            "the slides",
            "vae" if name == "vae" else "dropout",
        )
    yield Claim(
        "The slides' test accuracies of four networks",
        f"within {accuracy_gap():.2f} points, means of 10 seeds",
        "the slides",
        "dropout",
    )
    regression = metrics("bayes_by_backprop_regression")
    yield Claim(
        "The regression that failed to train: log density of new points",
        f"{regression['predicted']['test_log_density']:.2f} nats",
        f"{regression['report']['test_log_density']:.2f} as the report has it; "
        f"{regression['best']['noise of each x']:.2f} is the most",
        "bayes_by_backprop",
    )
    for units, theirs in ((400, 1.36), (1200, 1.32)):
        mixture = metrics(f"bayes_by_backprop_mnist_{units}")
        yield Claim(
            f"Bayes by Backprop on MNIST, 2x{units} and the scale mixture: test error",
            f"{100 * (1 - mixture['bayes_acc_naive']):.2f} % (± 0.11)",
            f"{theirs} % (Blundell et al. 2015)",
            "bayes_by_backprop",
        )
    yield Claim(
        "log p(x) of MNIST by a VAE of one stochastic layer",
        f"{metrics('part1_vae_dynamic_full')['test_log_likelihood']:.2f} nats",
        "-86.76 (Burda et al. 2016)",
        "vae",
    )
    yield Claim(
        "LeNet-300-100 by variational dropout, 400 epochs: times fewer weights, at which error",
        " and ".join(f"{pruned(weight)} (KL x {weight:g})" for weight in (1.0, 1.5)),
        "68 at 1.92 % (Molchanov et al. 2017)",
        "variational_dropout",
    )
    distance = {name: total_variation(name) for name in ("sghmc_prec", "sghmc", "mfvi")}
    yield Claim(
        "Total variation from HMC, a network of 10,000 weights",
        f"{distance['sghmc_prec']:.3f} (SGHMC, preconditioned)",
        f"{distance['sghmc']:.3f} (SGHMC), {distance['mfvi']:.3f} (mean field)",
        "posterior_inference",
    )
    method, _, agreement, distance_from_hmc, *_, epochs, _ = nearest_on_cifar10()
    yield Claim(
        "ResNet-20 on CIFAR-10: agreement with HMC, total variation from it",
        f"{agreement}, {distance_from_hmc} ({method}, {epochs} epochs)",
        "{1:.2%}, {2:.3f} (SGLD) to {4:.2%}, {5:.3f} (SGHMC with cycles; 10,000 epochs)".format(
            *LECTURE_TABLE["SGLD"], *LECTURE_TABLE["SGHMC CLR"]
        ).replace("%", " %"),
        "cifar10",
    )
    sets, errors, log_likelihoods = uci()
    yield Claim(
        "UCI regressions where a method is level with the best published or ahead: "
        "RMSE, log likelihood",
        f"{errors} and {log_likelihoods} of {sets}",
        "six published columns",
        "uci",
    )
    auroc = {name: scores["auroc"] for name, scores in methods("uncertainty").items()}
    yield Claim(
        "Clothes told from digits by the entropy: AUROC",
        f"{100 * max(auroc.values()):.1f} % (best of {len(auroc)} methods)",
        f"{100 * auroc['base']:.1f} % (one network); 97.5 % (published ensemble)",
        "out_of_distribution",
    )
    plain, best = pretrained()
    yield Claim(
        "A network of ImageNet, its last blocks fine-tuned: calibration error, NLL (nats)",
        f"{100 * best['ece']:.1f} %, {best['nll']:.2f} ({best['method']})",
        f"{100 * plain['ece']:.1f} %, {plain['nll']:.2f} (as it is)",
        "pretrained",
    )
    kept = remembered()
    method, weight = max(kept, key=lambda run: kept[run])
    yield Claim(
        "Ten orders of MNIST's pixels, learned one after another: accuracy of all after the last",
        f"{kept[method, weight]:.1f} % (online Laplace, {method}, λ = {weight:g})",
        f"{kept['no memory', 0]:.1f} % (no memory); 90 % (published: variational)",
        "continual_learning",
    )
    works, first, step = times()
    yield Claim(
        "Works at which the package is the fastest of those compared, or level within 5 %",
        f"{first} of {works}",
        "a step of Bayes by Backprop, 784-500-500-10: "
        f"{min(step):.1f} to {max(step):.1f} times as long in others",
        "costs",
    )


def records(name: str) -> list[dict[str, Any]]:
    """Lines of a file of records."""
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def metrics(name: str) -> dict[str, Any]:
    """Numbers that a run has left."""
    return json.loads((RESULTS / name / "metrics.json").read_text())


def methods(name: str) -> dict[str, dict[str, float]]:
    """The scores of each method, of a run that compares methods."""
    other = ("configuration", "versions")
    return {key: value for key, value in metrics(name).items() if key not in other}


def furthest(name: str, slides: Mapping[str, str]) -> float:
    """The largest distance of a slide's number from our mean, in standard deviations."""
    distances = []
    for column, numbers in slides.items():
        ours = np.array([record[column] for record in records(f"many_seeds/{name}")])
        theirs = np.array(numbers.split(), float)
        distances.append(np.abs(theirs - ours.mean(0)) / ours.std(0, ddof=1))
    return float(np.max(distances))


def pruned(kl_weight: float) -> str:
    """How many times fewer weights LeNet-300-100 keeps, and its test error: means over seeds."""
    runs = [
        (record["compression"], record["error"])
        for record in records("part4_sweeps/compression")
        if (record["epochs"], record["kl_weight"]) == (400, kl_weight)
    ]
    return "{:.1f} at {:.2f} %".format(*np.mean(runs, axis=0))


def accuracy_gap() -> float:
    """The largest difference from the slides' accuracies, in points."""
    all_records = records("many_seeds/accuracy")
    gaps = [
        abs(
            100 * np.mean([r[column] for r in all_records if r["method"] == method])
            - float(theirs.split()[0])
        )
        for method, numbers in ACCURACY.items()
        for column, theirs in zip(("test_acc_naive", "test_acc_mc"), numbers, strict=True)
        if theirs != "-"
    ]
    return float(max(gaps))


def total_variation(method: str) -> float:
    """The mean over seeds, from the table on digits."""
    return float(np.mean([run["total_variation"] for run in metrics("posterior_table")[method]]))


def nearest_on_cifar10() -> list[str]:
    """The first row of the table on CIFAR-10, that of the lowest total variation from HMC."""
    row = (RESULTS / "cifar10" / "table.md").read_text().splitlines()[2]
    return [cell.strip() for cell in row.strip("|").split("|")]


def uci() -> tuple[int, int, int]:
    """How many sets there are, and in how many of them a method reaches what is published."""
    errors = log_likelihoods = 0
    for name in published.RMSE:
        by_method: dict[str, list[dict[str, Any]]] = {}
        for record in records(f"uci/{name}"):
            by_method.setdefault(record["method"], []).append(record)
        lowest, highest = published.best(name)
        errors += any(reaches(of, "rmse", lowest, -1) for of in by_method.values())
        log_likelihoods += any(
            reaches(of, "log_likelihood", highest, 1) for of in by_method.values()
        )
    return len(published.RMSE), errors, log_likelihoods


def reaches(of: list[dict[str, Any]], score: str, best: float, sign: int) -> bool:
    """Whether a mean over splits is `best`, give or take its standard error, or better."""
    values = np.array([record[score] for record in of])
    error = values.std(ddof=1) / np.sqrt(len(values))
    return bool(sign * (values.mean() - best) + error >= 0)


def pretrained() -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain network and the method of the best likelihood, of the last blocks."""
    tails = [record for record in records("pretrained/scores") if record["part"] == "tail"]
    plain = next(record for record in tails if record["method"] == "fine-tuned")
    return plain, min(tails, key=lambda record: record["nll"])


def remembered() -> dict[tuple[str, float], float]:
    """Accuracy in percent after the last task, of methods and weights; of all tasks and seeds."""
    of: dict[tuple[str, float], list[float]] = {}
    for record in records("continual_learning/continual_learning"):
        last = record["accuracies"][-1]
        of.setdefault((record["method"], record["weight"]), []).extend(last)
    return {run: float(np.mean(accuracies)) for run, accuracies in of.items()}


def times() -> tuple[int, int, list[float]]:
    """Works, those at which no package is faster by 5 %, and how long others take for a step."""
    works, first, step = 0, 0, []
    for path in sorted((RESULTS / "benchmarks").glob("*.json")):
        peers = json.loads(path.read_text()).get("peers", {})
        own = per_unit(peers["tfbdl"]) if "tfbdl" in peers else None
        of_others = {
            name: float(np.median(per_unit(rows) / own))
            for name, rows in peers.items()
            if isinstance(rows, dict) and name != "tfbdl"
        }
        packages = [ratio for name, ratio in of_others.items() if name not in FLOORS]
        ratios = packages or list(of_others.values())
        if not ratios:
            continue
        works += 1
        first += min(ratios) >= 0.95
        if path.stem == "bbb_one":
            step = ratios
    return works, first, step


def per_unit(rows: Mapping[str, Any]) -> np.ndarray:
    """Seconds per unit of a work, of each round."""
    return np.array(rows["seconds"]) / np.array(rows["units"])


if __name__ == "__main__":
    main()
