"""Mixtures of normal laws in extended precision, as in `exact`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from exact import PI, Exact, L, raw_scale


class Mixture:
    """K logits, K means and K raw scales; errors of logarithms turn to those of shares."""

    def __init__(self, num_components: int) -> None:
        self.num = num_components

    def parts(self, outputs: Any) -> Any:
        logits, loc, raw = np.split(outputs, 3, axis=-1)
        spread = logits - logits.max(-1, keepdims=True)
        log_w = spread - np.log(np.exp(spread).sum(-1, keepdims=True))
        scale, back = raw_scale(raw)
        return np.maximum(log_w, -(L(10) ** 4000)), np.exp(log_w), loc, scale, back

    def exact(self, w: Any, value: Any, *slopes: Any, size: Any, sizes: Any) -> Any:
        """Slopes by logits of weights that underflow in float32 need not be exact."""
        sizes[0] = np.where(w < 1e-37, np.nan, sizes[0])
        return Exact(value, np.concatenate(slopes, -1), np.abs(size), np.concatenate(sizes, -1))

    def of_share(self, q: Any, pull: Any, size: Any) -> Any:
        """The size of q times a pull; where q may be anything, the pull may overflow in float16."""
        unknown = np.where(pull > 8000, np.inf, np.nan)
        return np.where(size > 1e5, unknown, q * pull * (1 + size))

    def log_prob(self, y: Any, outputs: Any) -> Any:
        log_w, w, loc, scale, back = self.parts(outputs)
        z = (y[:, None] - loc) / scale
        logs = log_w - z**2 / 2 - np.log(scale) - np.log(2 * PI) / 2
        top = logs.max(-1, keepdims=True)
        value = top + np.log(np.exp(logs - top).sum(-1, keepdims=True))
        q = np.exp(logs - value)
        errors = 1 + np.abs(log_w) + z**2 + np.abs(np.log(scale))
        rivals = logs + 1e-4 * errors > value - 60
        size = (np.where(rivals, errors, 0)).max(-1, keepdims=True)
        slopes = [q - w, q * z / scale, q * (z**2 - 1) * back]
        pulls = 1 + 0 * z, np.abs(z) / scale, (z**2 + 1) * np.abs(back)
        sizes = [self.of_share(q, pull, size) for pull in pulls]
        sizes[0] = sizes[0] + w * (1 + np.abs(log_w))
        return self.exact(
            w, value[:, 0], *slopes, size=size[:, 0] + np.abs(value[:, 0]), sizes=sizes
        )

    def mean(self, y: Any, outputs: Any) -> Any:
        log_w, w, loc, _, _ = self.parts(outputs)
        mean, blur = (w * loc).sum(-1, keepdims=True), w * (1 + np.abs(log_w))
        size = (blur * np.abs(loc)).sum(-1, keepdims=True)
        sizes = [blur * (np.abs(loc) + size), blur, 0 * w]
        return self.exact(w, mean[:, 0], w * (loc - mean), w, 0 * w, size=size[:, 0], sizes=sizes)

    def variance(self, y: Any, outputs: Any) -> Any:
        log_w, w, loc, scale, back = self.parts(outputs)
        mean, blur = (w * loc).sum(-1, keepdims=True), w * (1 + np.abs(log_w))
        off, error = loc - mean, np.abs(loc) + (blur * np.abs(loc)).sum(-1, keepdims=True)
        squares = scale**2 + off**2
        value = (w * squares).sum(-1, keepdims=True)
        of_each = squares + np.abs(off) * error + 1e-9 * error**2
        size = (blur * of_each).sum(-1, keepdims=True)
        slopes = [w * (squares - value), 2 * w * off, 2 * w * scale**2 * back]
        sizes = [blur * (of_each + size), blur * error, 2 * blur * scale**2 * back]
        return self.exact(w, value[:, 0], *slopes, size=size[:, 0], sizes=sizes)

    def cdf(self, y: Any, outputs: Any) -> Any:
        log_w, w, loc, scale, back = self.parts(outputs)
        z, blur = (y[:, None] - loc) / scale, w * (1 + np.abs(log_w))
        p = scipy.special.ndtr(z.astype(np.float64))
        value = (w * p).sum(-1, keepdims=True)
        density = np.exp(np.maximum(-(z**2) / 2, -20000)) / np.sqrt(2 * PI)
        slopes = [w * (p - value), -w * density / scale, -w * density * z * back]
        sizes = [
            2 * blur,
            *((1 + z**2) * blur * np.abs(s / w) + 1e-40 for s in (slopes[1] + 0 * w, slopes[2])),
        ]
        sizes = [np.where(w > 0, s, 1e-40) for s in sizes]
        return self.exact(w, value[:, 0], *slopes, size=1 + 0 * value[:, 0], sizes=sizes)
