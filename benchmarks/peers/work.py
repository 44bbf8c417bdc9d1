"""The work at which packages are timed: sizes and data, for NumPy alone.

Times do not depend on what the numbers are, so images are noise.
"""

from __future__ import annotations

import numpy as np

STEPS = 50
"""Steps of a round, where a unit is a step."""
NETWORK = (784, 500, 500, 10)
BATCH = 100
WIDE = (784, 1200, 1200, 10)
WIDE_BATCH = 128
CHAIN_BATCH, CHAIN_STEPS = 80, 10
"""Batch of the chain of a network of convolutions, and steps of a round of it."""
LEARNING_RATE = 1e-3
"""The learning rate of Adam."""
DRAWS = 1000
"""Draws of a prediction of 1,000 images."""
TANH = (3, 5, 5, 1)
"""46 parameters with the noise scale and no biases; weights from N(0, 1), it from Gamma(1/2, 1)."""
SMALL = (784, 50, 10)
"""The network of the chains on 1,000 images."""
SAMPLES_46, SAMPLES_SMALL = 2000, 300
"""Samples of a chain, a round. All packages start at the same point, with unit masses."""
POSTERIORS = {
    "curve": (TANH, "tanh", False),
    "concrete": ((8, 50, 1), "relu", True),
    "images": (SMALL, "tanh", True),
}
"""Sizes, activation and whether there are biases, of networks whose effective samples are counted.

Weights come from N(0, 1); regressions have a noise from Gamma(1/2, 1), behind the weights.
"""
THINNING = {"mclmc": 10, "mclmc_diagonal": 10}
"""Steps from sample to sample, where they are several."""
MOST_STEPS = 1000
"""Steps of a trajectory, at most."""
TRAJECTORY_46, TRAJECTORY_SMALL = 100, 20
"""Leapfrog steps of HMC."""
STEP_46, STEP_SMALL = 0.0025, 0.01
"""Step sizes of leapfrog: what adaptation finds for an acceptance of 0.8."""
DEPTH_46, DEPTH_SMALL = 10, 6
"""Doublings of a tree of NUTS, at most."""
ISOKINETIC_46, ISOKINETIC_SMALL = TRAJECTORY_46 // 2, TRAJECTORY_SMALL // 2
"""Steps of MCLMC from sample to sample, and of a trajectory of MAMS; each takes two gradients."""
MAMS_46, MCLMC_46, MCLMC_SMALL = 0.0035, 0.005, 0.02
"""Step sizes of MAMS and MCLMC that adaptation finds, in the units of leapfrog's."""
DECOHERENCE_46, DECOHERENCE_SMALL = 0.25, 0.2
"""The length over which a direction of MCLMC is forgotten; that of the trajectories of HMC."""
MEMBERS = 4
"""Members of BatchEnsemble."""

TITLES = {
    "bbb_local": "Bayes by Backprop, local reparameterisation, 784-500-500-10, batch 100",
    "bbb_flipout": "Bayes by Backprop, flipout, 784-500-500-10, batch 100",
    "bbb_one": "Bayes by Backprop, one weight sample a batch, 784-500-500-10, batch 100",
    "bbb_wide": "Bayes by Backprop, one weight sample a batch, 784-1200-1200-10, batch 128",
    "vae": "VAE, 784-500-500-20-500-500-784, 1,000 images, batch 100",
    "vae_full": "VAE, 784-500-500-20-500-500-784, 60,000 images, batch 100",
    "concrete": "Concrete dropout, 784-500-500-10, batch 100",
    "mc_dropout": "MC dropout, S = 1,000 on 1,000 images, 784-500-500-10",
    "batch_ensemble": "BatchEnsemble, 4 members, 784-500-500-10, batch 100",
    "vbll": "Variational Bayesian last layer, full covariances, 784-500-500-10, batch 100",
    "ivon": "IVON, one sample a step, 784-500-500-10, batch 100",
    "ivon_resnet": "IVON, one sample a step, ResNet-20 on 32x32x3, batch 100",
    "hmc_46": "HMC, 46 parameters, N = 100",
    "nuts_46": "NUTS, 46 parameters, N = 100",
    "mclmc_46": "MCLMC, 46 parameters, N = 100",
    "mams_46": "MAMS, 46 parameters, N = 100",
    "hmc_small": "HMC, 784-50-10, 1,000 images",
    "nuts_small": "NUTS, 784-50-10, 1,000 images",
    "mclmc_small": "MCLMC, 784-50-10, 1,000 images",
    "sgld": "SGLD, 784-500-500-10, batch 100",
    "sghmc": "SGHMC, 784-500-500-10, batch 100",
    "sghmc_resnet": "SGHMC, ResNet-20 with filter response normalisation, 32x32x3, batch 80",
    "laplace_kron": "Laplace, Kronecker, fit to 2,000 images, 784-500-500-10",
    "laplace_diag": "Laplace, diagonal, fit to 2,000 images, 784-500-500-10",
    "laplace_last": "Laplace, full last layer, fit to 2,000 images, 784-500-500-10",
    "glm_kron": "Laplace, Kronecker, GLM prediction of 200 images, 784-500-500-10",
    "glm_diag": "Laplace, diagonal, GLM prediction of 200 images, 784-500-500-10",
    "glm_last": "Laplace, full last layer, GLM prediction of 200 images, 784-500-500-10",
    "lenet": "Bayes by Backprop, LeNet-5, batch 100",
    "lstm": "Bayes by Backprop, LSTM of 100 units over 28 rows, batch 100",
}
"""All works, in the order of the table."""
UNITS = dict.fromkeys(TITLES, "step") | {
    **dict.fromkeys(("vae", "vae_full"), "epoch"),
    **dict.fromkeys(("mc_dropout", "glm_kron", "glm_diag", "glm_last"), "prediction"),
    **dict.fromkeys(("hmc_46", "nuts_46", "mclmc_46", "mams_46"), "gradient"),
    **dict.fromkeys(("hmc_small", "nuts_small", "mclmc_small"), "gradient"),
    **dict.fromkeys(("laplace_kron", "laplace_diag", "laplace_last"), "fit"),
}


def samples_a_round(kernel: str) -> int:
    """Samples that a chain of one of those kernels has in a round."""
    return 500 if kernel in THINNING else 20


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise of shape (n, 784), float32, and labels (n,), int32."""
    rng = np.random.default_rng(0)
    return rng.random((n, 784), dtype=np.float32), rng.integers(0, 10, n).astype(np.int32)


def photographs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise of shape (n, 32, 32, 3), float32, and labels (n,), int32."""
    rng = np.random.default_rng(0)
    return rng.random((n, 32, 32, 3), dtype=np.float32), rng.integers(0, 10, n).astype(np.int32)


def curve(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (1, x, x^2), shape (n, 3), and a noisy curve, (n, 1), both float32."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1, 1, n)
    y = x + 0.2 * x**3 + 0.1 * np.sin(6 * x) + 0.05 * rng.normal(size=n)
    inputs = np.stack([np.ones(n), x, x**2], axis=1)
    return inputs.astype(np.float32), y[:, None].astype(np.float32)


def start(size: int) -> np.ndarray:
    """Where chains start, shape (size,), float32."""
    return (0.1 * np.random.default_rng(0).normal(size=size)).astype(np.float32)
