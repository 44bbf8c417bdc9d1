"""laplace-torch, with the backend that is fastest at each work.

The default, `CurvlinopsGGN`, takes minutes for a diagonal, `BackPackGGN` parts of a second.
"""

from __future__ import annotations

from functools import partial

import operators  # noqa: F401
import torch
import work
from laplace import Laplace
from laplace.curvature import AsdlGGN, BackPackGGN
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from with_torch import Round, stack


def loader() -> DataLoader:
    """2,000 images in batches of 100."""
    x, y = work.images(2000)
    return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y).long()), 100)


def made(subset: str, structure: str, backend: type = BackPackGGN) -> Laplace:
    """Laplace for a network with random weights."""
    return Laplace(
        stack(work.NETWORK, nn.Linear).eval(),
        "classification",
        subset_of_weights=subset,
        hessian_structure=structure,
        backend=backend,
    )


def fit(subset: str, structure: str) -> Round:
    """The curvature of the data."""
    data = loader()

    def run() -> dict[str, float]:
        made(subset, structure).fit(data)
        return {"units": 1}

    return run


laplace_kron = partial(fit, "all", "kron")
laplace_diag = partial(fit, "all", "diag")
laplace_last = partial(fit, "last_layer", "full")


def glm(subset: str, structure: str, backend: type = BackPackGGN) -> Round:
    """Class probabilities of the linearised network, by the probit approximation."""
    posterior = made(subset, structure, backend)
    posterior.fit(loader())
    x = torch.from_numpy(work.images(200)[0])

    def run() -> dict[str, float]:
        posterior(x, pred_type="glm", link_approx="probit")
        return {"units": 1}

    return run


glm_kron = partial(glm, "all", "kron", AsdlGGN)
glm_diag = partial(glm, "all", "diag")
glm_last = partial(glm, "last_layer", "full")
