"""The bounds of an autoencoder compile for few sizes of batches."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from tfbdl.models import VAE, vae_bounds

X = np.random.default_rng(0).uniform(size=(32, 4)).astype("float32")


def test_sizes_between_compile_nothing() -> None:
    """And what an example gets does not depend on how many there are behind it."""
    vae = VAE(2, (3,), seed=1)
    sizes: list[Any] = []
    of_batch = vae_bounds.of_batch

    def noted(vae: Any, x: Any, *args: Any) -> Any:
        sizes.append(x.shape[0])
        return of_batch(vae, x, *args)

    with mock.patch.object(vae_bounds, "of_batch", noted):
        for size in (3, 5, 6, 7, 11, 32, 19):
            assert vae.elbo(X[:size], 3).shape == (size,)
    assert sorted(sizes) == [4, 8, 16, 32]


def test_full_and_padded_batches_agree() -> None:
    """Within standard errors of many samples; copies of examples that fill a batch do not count."""
    vae = VAE(2, (3,), seed=1)
    full, padded = vae.elbo(X[:8], 4000, seed=0), vae.elbo(X[:7], 4000, seed=1)
    np.testing.assert_allclose(padded, full[:7], atol=0.1)
    assert np.ptp(full) > 0.1
