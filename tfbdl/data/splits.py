"""Indices of the images for training and for testing."""

import numpy as np

_TEST_PER_CLASS = 100


def first_of_each_class(labels: np.ndarray, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Takes the first images of each class for training and the next for testing.

    Args:
        labels: class of each image, integers (N,).
        per_class: number of training images of each class, at least 1.

    Returns:
        Training indices (classes * per_class,) and test indices, both class by class in
        increasing order of class, and within a class in the order of `labels`. There are 100
        test images a class, or as many as exist after the training images.

    Raises:
        ValueError: if a class has fewer than `per_class` images.

    """
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    fewest = min(map(len, members))
    if per_class > fewest:
        raise ValueError(
            f"per_class={per_class} is more than the smallest class has; use at most {fewest}"
        )
    train = np.concatenate([member[:per_class] for member in members])
    test = np.concatenate([member[per_class : per_class + _TEST_PER_CLASS] for member in members])
    return train, test


def last_sixth_of_each_class(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Holds out the last sixth of each class, the proportion of MNIST's test set.

    Args:
        labels: class of each image, integers (N,).

    Returns:
        Training and test indices, both in increasing order. The last `n // 6` of a class
        of n images are for testing.

    """
    is_test = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        member = np.flatnonzero(labels == label)
        is_test[member[len(member) - len(member) // 6 :]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
