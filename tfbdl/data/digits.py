"""Scikit-learn's embedded handwritten digits, enlarged to the size of MNIST's."""

import numpy as np


def enlarged_digits() -> tuple[np.ndarray, np.ndarray]:
    """Returns the 1,797 digits, in scikit-learn's order, as 28x28 images.

    The 8x8 images of ink levels 0..16 are divided by 16 and enlarged 3.5 times by cubic splines
    (smooth strokes, where bilinear interpolation leaves visible facets); the slight overshoot of
    the splines is clipped. Outside the 8x8 pixels there is no ink.

    Returns:
        Images, float32 (1797, 28, 28) in [0, 1], and labels, int32 (1797,).

    """
    from scipy.ndimage import zoom  # noqa: PLC0415
    from sklearn.datasets import load_digits  # noqa: PLC0415

    images, labels = load_digits(return_X_y=True)
    enlarged = [
        zoom(image, 28 / 8, order=3, mode="grid-constant", grid_mode=True)
        for image in images.reshape(-1, 8, 8) / 16
    ]
    return np.clip(enlarged, 0, 1).astype(np.float32), labels.astype(np.int32)
