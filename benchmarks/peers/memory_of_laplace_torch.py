"""The cases of `memory.py` that laplace-torch is put to.

    python benchmarks/peers/memory_of_laplace_torch.py CASE GIGABYTES MINUTES

Fits have the backend that is fastest at them. What a step fails at is asked for again in the
smallest pieces, and in another way where there is one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import operators  # noqa: F401
import torch
from laplace import Laplace
from laplace.curvature import BackPackGGN
from measured import limit, tried
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet50

DRAWS = 100


def made(model: nn.Module, structure: str) -> Laplace:
    """Laplace of the last layer."""
    return Laplace(
        model.eval(),
        "classification",
        subset_of_weights="last_layer",
        hessian_structure=structure,
        backend=BackPackGGN,
    )


def predict(laplace: Laplace, x: torch.Tensor, batch: int) -> None:
    """The linearised network by the probit approximation."""
    for part in x.split(batch):
        laplace(part, pred_type="glm", link_approx="probit")


def by_hand(laplace: Laplace, x: torch.Tensor) -> None:
    """The same from the variances alone, which there is a method for where they are diagonal."""
    for part in x.split(100):
        mean, variance = laplace.functional_variance_fast(part)
        torch.softmax(mean / torch.sqrt(1 + torch.pi / 8 * variance), -1)


def sample(laplace: Laplace, x: torch.Tensor) -> None:
    """Means over networks with drawn weights."""
    for part in x.split(1000):
        laplace(part, pred_type="nn", link_approx="mc", n_samples=DRAWS)


def classes(structure: str) -> None:
    """10,000 examples of 2,048 given features and 1,000 classes."""
    torch.manual_seed(0)
    x, y = torch.randn(10_000, 2048), torch.randint(1000, (10_000,))
    laplace = made(nn.Sequential(nn.Identity(), nn.Linear(2048, 1000)), structure)
    loader = DataLoader(TensorDataset(x, y), 100)
    if not tried("fit to 10,000", lambda: laplace.fit(loader)):
        return
    if not tried("predict 10,000", lambda: predict(laplace, x, 100)):
        tried("predict 10, one at a time", lambda: predict(laplace, x[:10], 1))
        tried(f"predict 10,000 by {DRAWS} draws", lambda: sample(laplace, x))
        if structure == "diag":
            tried("predict 10,000 by functional_variance_fast", lambda: by_hand(laplace, x))


def block(inputs: int, units: int) -> list[nn.Module]:
    """A convolution, normalised."""
    return [
        nn.Conv2d(inputs, units, 3, padding=1, bias=False),
        nn.BatchNorm2d(units),
        nn.ReLU(),
    ]


class UNet(nn.Module):
    """UNet of `memory.py`; its last layer is a convolution, or a product with rows of pixels."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.wide = nn.Sequential(*block(3, 32))
        self.middle = nn.Sequential(nn.MaxPool2d(2), *block(32, 64))
        self.deep = nn.Sequential(nn.MaxPool2d(2), *block(64, 128))
        self.up_middle = nn.ConvTranspose2d(128, 64, 2, 2)
        self.up_wide = nn.ConvTranspose2d(64, 32, 2, 2)
        self.join_middle = nn.Sequential(*block(128, 64))
        self.join_wide = nn.Sequential(*block(64, 32))
        self.head = head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.wide(x)
        middle = self.middle(wide)
        up = self.up_middle(self.deep(middle))
        up = self.up_wide(self.join_middle(torch.cat([up, middle], 1)))
        up = self.join_wide(torch.cat([up, wide], 1))
        rows = isinstance(self.head, nn.Linear)
        return self.head(up.permute(0, 2, 3, 1).reshape(-1, 32) if rows else up)


class Pixels:
    """Batches of images and the labels of all their pixels in a row; the set is one of pixels."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, batch: int) -> None:
        self.dataset, self.x, self.y, self.batch = y.flatten(), x, y, batch

    def __len__(self) -> int:
        return math.ceil(len(self.x) / self.batch)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for x, y in zip(self.x.split(self.batch), self.y.split(self.batch), strict=True):
            yield x, y.flatten()


def pixels(structure: str) -> None:
    """32 images of 128 x 128 pixels with 20 classes each."""
    torch.manual_seed(0)
    x, y = torch.randn(32, 3, 128, 128), torch.randint(20, (32, 128, 128))
    of_images = DataLoader(TensorDataset(x, y), 1)
    convolution = made(UNet(nn.Conv2d(32, 20, 1)), structure)
    if tried("fit to 32", lambda: convolution.fit(of_images)):
        tried("predict 8", lambda: predict(convolution, x[:8], 1))
        return
    laplace, rows = made(UNet(nn.Linear(32, 20)), structure), Pixels(x, y, 1)
    if tried("the last layer a Linear of rows of pixels, fit to 32", lambda: laplace.fit(rows)):
        tried("predict 8, one at a time", lambda: predict(laplace, x[:8], 1))


def last_layers() -> None:
    """A hundred last layers of a ResNet50: drawn for each batch, since there is no ensemble."""
    torch.manual_seed(0)
    x, y = torch.randn(64, 3, 64, 64), torch.randint(100, (64,))
    laplace = made(resnet50(num_classes=100), "kron")
    loader = DataLoader(TensorDataset(x, y), 64)
    if tried("fit of the last layer to 64", lambda: laplace.fit(loader)):
        tried(f"predict 64 by {DRAWS} draws", lambda: sample(laplace, x))


CASES: dict[str, Callable[[], None]] = {
    "1,000 classes of 2,048 features, Kronecker": lambda: classes("kron"),
    "1,000 classes of 2,048 features, diagonal": lambda: classes("diag"),
    "U-Net of 128 x 128 x 20, Kronecker": lambda: pixels("kron"),
    "U-Net of 128 x 128 x 20, diagonal": lambda: pixels("diag"),
    "U-Net of 128 x 128 x 20, full": lambda: pixels("full"),
    "100 last layers of a ResNet50": last_layers,
}


if __name__ == "__main__":
    limit(*map(float, sys.argv[2:]))
    CASES.get(sys.argv[1], lambda: None)()
