"""Makes everything in `results/` anew, on real data: `make results`.

Each step is one of the tutorials with flags; a step that was finished is left as it is, and one
that was stopped goes on. Needs MNIST (TFBDL_DATA, or Keras' download) and some hours on two cores.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RESULTS = Path("results")
FULL_VAE = "--split full --binarize dynamic --zdim 50 --n_epochs 300 --k 5000"
MIXTURE = "--pi 0.5 --sigma1 0.36787944 --sigma2 0.00247875 --rho -3.25"
LONG = (
    f"{MIXTURE} --estimator local_reparameterization --optimizer sgd --lr 0.1 --batch_size 128 "
    "--n_epochs 60 --S 100 --methods bayes"
)
LENET = "--network lenet --split full --kl molchanov --n_epochs 200"
MNIST = "bayes_by_backprop.mnist"
RUNS = {
    "part1_vae": ("part1_vae", ""),
    "part1_vae_2d": ("part1_vae", "--zdim 2"),
    "part1_vae_continuous": ("part1_vae", "--likelihood continuous_bernoulli --k 1000"),
    "part1_vae_dynamic": ("part1_vae", "--binarize dynamic --k 1000"),
    "part1_vae_static": ("part1_vae", "--binarize static --k 1000"),
    "convolutional_vae": ("convolutional_vae", ""),
    "convolutional_vae_patches": ("convolutional_vae", "--data patches --zdim 64"),
    "part2_mc_dropout": ("part2_mc_dropout", ""),
    "part3_concrete_dropout": ("part3_concrete_dropout", ""),
    "part3_concrete_dropout_10000": ("part3_concrete_dropout", "--N 10000"),
    "part4_variational_dropout": ("part4_variational_dropout", ""),
    "part4_lenet": ("part4_variational_dropout", LENET),
    "bayes_dense": ("bayes_dense", ""),
    "model_definition": ("model_definition", ""),
    "priors": ("priors", ""),
    "bayes_by_backprop_mnist": (MNIST, ""),
    "bayes_by_backprop_mnist_400": (MNIST, f"{LONG} dropout --units 400 400"),
    "bayes_by_backprop_mnist_400_normal": (MNIST, f"{LONG} --units 400 400 --prior normal"),
    "bayes_by_backprop_mnist_1200": (MNIST, f"{LONG} dropout --units 1200 1200"),
    "bayes_by_backprop_mnist_1200_normal": (MNIST, f"{LONG} --units 1200 1200 --prior normal"),
    "bayes_by_backprop_regression": ("bayes_by_backprop.regression", ""),
    "bayes_by_backprop_bandit": ("bayes_by_backprop.bandit", ""),
    "posterior_inference": ("posterior_inference", ""),
    "part1_vae_dynamic_full": ("part1_vae", FULL_VAE),
}
TABLES = ("accuracy", "log", "vae", "keep")
SWEEPS = ("compression --split full", "gain")
LARGE = "--num_chains 2 --num_warmup 200 --num_samples 200 --max_leapfrog_steps 50"
UCI = {
    **dict.fromkeys(("boston", "concrete", "energy"), ""),
    **dict.fromkeys(("power", "naval", "protein"), LARGE),
}
WITHOUT_MODES = {
    "uncertainty": ("uncertainty", ""),
    "active_learning": ("active_learning", ""),
    "continual_learning": ("continual_learning", ""),
    "posterior_table": ("posterior_inference.table", ""),
    "posterior_cycles": ("posterior_inference.cycles", ""),
    "posterior_trajectories": ("posterior_inference.trajectories", ""),
    "posterior_symmetries": ("posterior_inference.symmetries", ""),
    "pruning": (
        "bayes_by_backprop.pruning",
        f"--S 100 --run {RESULTS}/bayes_by_backprop_mnist_400",
    ),
}


def call(name: str, *flags: str) -> None:
    """Runs one of the tutorials, and ends here if it fails."""
    print(f"==> {name} {' '.join(flags)}", flush=True)
    subprocess.run([sys.executable, "-m", f"tutorials.{name}", *flags], check=True)


def main() -> None:
    for name, (tutorial, flags) in RUNS.items():
        folder = RESULTS / name
        where = [*flags.split(), "--savedir", str(folder)]
        if not (folder / "metrics.json").exists():
            call(tutorial, "--mode", "train", *where)
        if not list(folder.glob("*.png")):
            call(tutorial, "--mode", "visualize", *where)
    for name, (tutorial, flags) in WITHOUT_MODES.items():
        if not (RESULTS / name / "metrics.json").exists():
            call(tutorial, *flags.split(), "--savedir", str(RESULTS / name))
    evidence = RESULTS / "marginal_likelihood"
    if not (evidence / "networks.png").exists():
        for mode in ("train", "visualize"):
            call("marginal_likelihood", "--mode", mode, "--savedir", str(evidence))
    for name, flags in UCI.items():
        call("uci", "--set", name, *flags.split(), "--savedir", str(RESULTS / "uci"))
    for sweep in SWEEPS:
        call("part4_sweeps", "--sweep", *sweep.split(), "--savedir", str(RESULTS / "part4_sweeps"))
    if not (RESULTS / "part3_concrete_dropout" / "gal.jsonl").exists():
        gal = ("--savedir", str(RESULTS / "part3_concrete_dropout"))
        call("part3_concrete_dropout", "--mode", "gal", *gal)
    for table in TABLES:
        if not (RESULTS / "many_seeds" / f"{table}.md").exists():
            call("many_seeds", "--table", table, "--savedir", str(RESULTS / "many_seeds"))


if __name__ == "__main__":
    main()
