"""Members of a deep ensemble: in memory, or in the folders of their trainings, read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np

from tfbdl.flat_model import FlatModel
from tfbdl.models import WeightEnsemble
from tfbdl.models.alike import Alike
from tfbdl.predictive.in_turn import predict_in_turn
from tfbdl.predictive.predict import Request
from tfbdl.sources import Source
from tfbdl.training import checkpoint
from tfbdl.training.run import CHECKPOINT


class HeldMembers:
    """K members in memory.

    Args:
        theta: the weights of the members, shape (K, D).
        states: the values of other variables that differ, shape (K, Q).
        own_states: the places of these among the floating ones; None for all.
    """

    def __init__(
        self, theta: np.ndarray, states: np.ndarray, own_states: np.ndarray | None = None
    ) -> None:
        self._theta, self._states, self._own_states = theta, states, own_states

    @classmethod
    def of_alike(cls, alike: Alike) -> HeldMembers:
        """The members that have been taken up one by one."""
        theta, _ = alike.members(whole=True)
        states, own_states = alike.states()
        return cls(theta, states, np.array(own_states, np.int64))

    def __len__(self) -> int:
        """K."""
        return len(self._theta)

    def theta(self, network: keras.Model, number: int) -> np.ndarray:
        """The weights of the first so many, shape (number, D)."""
        return self._theta[:number]

    def ensemble(self, network: keras.Model, number: int) -> WeightEnsemble:
        """The first so many in one model."""
        places = None if self._own_states is None else self._own_states.tolist()
        states = None if places == [] else self._states[:number]
        return WeightEnsemble(network, self._theta[:number], states, own_states=places)

    def moments(self, network: keras.Model) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the weights over members, shapes (D,)."""
        return self._theta.mean(axis=0), self._theta.std(axis=0)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a file has to hold."""
        arrays = {"theta": self._theta, "states": self._states}
        return arrays if self._own_states is None else {**arrays, "own_states": self._own_states}


class StoredMembers:
    """K members, each in a folder.

    Args:
        folder: the folder of all.
        number: K.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number

    def __len__(self) -> int:
        """K."""
        return self.number

    def theta(self, network: keras.Model, number: int) -> np.ndarray:
        """The weights of the first so many, shape (number, D)."""
        flat = FlatModel(network)
        return np.stack([flat.theta.numpy() for _ in self._turns(network, number)])

    def ensemble(self, network: keras.Model, number: int) -> WeightEnsemble:
        """The first so many in one model, and so in memory."""
        alike = Alike()
        for _ in self._turns(network, number):
            alike.add(network)
        return WeightEnsemble.of_alike(alike)

    def predict(self, network: keras.Model, x: Source, request: Request) -> Any:
        """The predictive distribution; inputs are gone through once for each member."""
        number = min(request.num_samples, self.number)
        return predict_in_turn(network, self._turns(network, number), x, request)

    def moments(self, network: keras.Model) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the weights over members, shapes (D,)."""
        flat = FlatModel(network)
        mean, squares = np.zeros(flat.size), np.zeros(flat.size)
        for k in self._turns(network, self.number):
            difference = flat.theta.numpy() - mean
            mean += difference / (k + 1)
            squares += difference * (flat.theta.numpy() - mean)
        return mean, np.sqrt(squares / self.number)

    def arrays(self) -> dict[str, np.ndarray]:
        """Where the members are, for a file."""
        path = str(self.folder.absolute()).encode()
        return {"folder": np.frombuffer(path, np.uint8), "number": np.array(self.number)}

    def _turns(self, network: keras.Model, number: int) -> Iterator[int]:
        """Puts one member after the other into the network."""
        for k in range(number):
            path = self.folder / f"member_{k}" / CHECKPOINT
            if not path.exists():
                raise ValueError(
                    f"{path} is gone, which holds member {k}; put it back, or fit again"
                )
            checkpoint.restore(path, network, optimizer=False)
            yield k


Members: TypeAlias = HeldMembers | StoredMembers


def members_of(arrays: dict[str, np.ndarray]) -> Members:
    """The members of which a file holds the `arrays`."""
    if "folder" not in arrays:
        return HeldMembers(**arrays)
    path = arrays["folder"].astype(np.uint8).tobytes().decode()
    return StoredMembers(Path(path), int(arrays["number"]))
