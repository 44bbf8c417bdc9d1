"""Names beside the points of figures."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np

from tutorials.point_labels import label_points


def test_names_of_a_crowd_cover_nothing() -> None:
    """Neither each other nor a point; each stays near its own."""
    rng = np.random.default_rng(0)
    points = {f"method {i}": tuple(p) for i, p in enumerate(rng.normal(0.5, 0.12, (9, 2)))}
    figure, ax = plt.subplots(figsize=(6, 5))
    ax.plot(*zip(*points.values(), strict=True), "o")
    ax.set(xlim=(-0.5, 1.5), ylim=(0, 1))
    label_points(ax, points)
    figure.draw_without_rendering()
    names, lines = (
        [text for text in ax.texts if bool(text.get_text()) == b] for b in (True, False)
    )
    boxes = {text.get_text(): text.get_window_extent() for text in names}
    assert boxes.keys() == points.keys()
    ends = [(line.xy, line.get_position()) for line in lines]
    assert ends == [(text.xy, text.get_position()) for text in names]
    for a, b in itertools.combinations(boxes.values(), 2):
        assert not a.overlaps(b)
    at = dict(zip(points, ax.transData.transform(list(points.values())), strict=True))
    for name, box in boxes.items():
        gaps = {
            other: np.hypot(*np.maximum(0, np.maximum((box.x0, box.y0) - p, p - (box.x1, box.y1))))
            for other, p in at.items()
        }
        assert min(gaps.values()) > 1
        assert gaps[name] < 50, name
    plt.close(figure)
