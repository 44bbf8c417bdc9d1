"""What a process with bounds of time and memory is made to do."""

import os
import time
from typing import Any

import numpy as np

KEPT: list[Any] = []


def begin() -> Any:
    return do


def do(task: Any) -> Any:
    if task == "memory":
        KEPT.append(np.ones(3 * 2**30 // 8))
    elif task == "end":
        os._exit(3)
    elif task == "hang":
        time.sleep(60)
    elif task == "turn":
        while True:
            pass
    return task
