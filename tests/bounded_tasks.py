"""What a process with bounds of time and memory is made to do."""

import os
import time

import numpy as np

KEPT = []


def begin():
    return do


def do(task):
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
