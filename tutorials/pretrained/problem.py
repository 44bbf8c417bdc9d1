"""The problem: six classes of CIFAR-10, and what a network for them has never seen.

The network is to tell six classes apart, and to say when it cannot: it is asked about test images
of these, about the four other classes, and about digits in colour, which are no photographs. Fifty
people have labelled each test image; where they disagree, a network should doubt too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import scipy.stats

from tfbdl.data import cifar10, cifar10_human_counts, load
from tfbdl.data.cifar10 import CLASSES

ASKED = ("test", "unknown", "digits")
"""What networks are asked about."""
KNOWN = ("airplane", "automobile", "bird", "cat", "dog", "ship")
UNKNOWN = tuple(name for name in CLASSES if name not in KNOWN)
NUM_DIGITS = 2000

Scale = Callable[[np.ndarray], np.ndarray]
"""A function from pixels of 8 bits to what a network takes."""


class Images(NamedTuple):
    """Images of 8 bits, shape (N, 32, 32, 3), or features of them, and what is known of them.

    train, test: examples of the known classes.
    y_train, y_test: numbers of the known classes.
    unknown: test images of the other classes.
    digits: digits in colour.
    people: the entropy of the labels that people gave to each of `test`, in nats.
    """

    train: np.ndarray
    y_train: np.ndarray
    test: np.ndarray
    y_test: np.ndarray
    unknown: np.ndarray
    digits: np.ndarray
    people: np.ndarray


def images(num_train: int, directory: Path | None = None) -> Images:
    """The first images of the known classes to train on, and all test images."""
    data = cifar10(directory=directory)
    numbers = np.full(len(CLASSES), -1)
    numbers[[CLASSES.index(name) for name in KNOWN]] = np.arange(len(KNOWN))
    y_train, y_test = numbers[data.y_train], numbers[data.y_test]
    chosen = np.flatnonzero(y_train >= 0)[:num_train]
    tested = y_test >= 0
    counts = cifar10_human_counts(directory=directory)[tested]
    return Images(
        *(data.x_train[chosen], y_train[chosen]),
        *(data.x_test[tested], y_test[tested]),
        data.x_test[~tested],
        digits_in_colour(NUM_DIGITS, directory),
        scipy.stats.entropy(counts, axis=1),
    )


def digits_in_colour(number: int, directory: Path | None = None) -> np.ndarray:
    """Test digits of MNIST, of one colour at random, on another one."""
    rng = np.random.default_rng(0)
    digits = np.pad(
        load("mnist", "full", directory=directory).x_test[:number], ((0, 0), (2, 2), (2, 2))
    )
    ink, paper = rng.uniform(size=(2, number, 1, 1, 3))
    mixed = paper + (ink - paper) * digits[..., None]
    return np.round(255 * mixed).astype("uint8")


def features(network: keras.Model, images: Images, scale: Scale, size: int) -> Images:
    """What a network gives for all images, in their places."""
    given = {
        name: outputs(network, getattr(images, name), scale, size) for name in ("train", *ASKED)
    }
    return images._replace(**given)


def outputs(network: keras.Model, pixels: np.ndarray, scale: Scale, size: int) -> np.ndarray:
    """What a network gives for images that are enlarged to `size`, some at a time."""
    parts = [
        network.predict_on_batch(
            keras.ops.image.resize(scale(pixels[i : i + 200]), (size, size), "bicubic")
        )
        for i in range(0, len(pixels), 200)
    ]
    return np.concatenate(parts)
