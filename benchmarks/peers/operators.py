"""Lets torchvision be imported where its compiled operators, which no work here needs, are not."""

from __future__ import annotations

import torch

BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

torch.library.define("torchvision::nms", BOXES)
torch.library.define("torchvision::qnms", BOXES)
