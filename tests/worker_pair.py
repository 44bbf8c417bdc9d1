"""Two processes over loopback as one `MultiWorkerMirroredStrategy`."""

import functools
import json
import multiprocessing
import os
import socket
import traceback
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

WORKERS = 2

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])


@functools.cache
def strategy() -> tf.distribute.Strategy:
    """This process's strategy; it joins the others, and must come before anything is computed."""
    return tf.distribute.MultiWorkerMirroredStrategy()


class WorkerPair(AbstractContextManager["WorkerPair"]):
    """Calls functions on both workers at once; kills what is left of them at the end."""

    def __enter__(self) -> Any:
        ends = [CONTEXT.Pipe() for _ in range(WORKERS)]
        addresses = [f"127.0.0.1:{port}" for port in free_ports()]
        self.pipes = [end for end, _ in ends]
        self.processes = [
            CONTEXT.Process(target=serve, args=(end, addresses, index), daemon=True)
            for index, (_, end) in enumerate(ends)
        ]
        for process in self.processes:
            process.start()
        for _, end in ends:
            end.close()
        return self

    def __exit__(self, *exception: Any) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join(10)

    def call(
        self, function: Any, *args: Any, each: Any = (), timeout: int = 120, **kwargs: Any
    ) -> Any:
        """Results on the workers, chief first; what a function raised, as (type, message).

        `each` holds further keyword arguments, one dictionary for each worker. A worker that has
        died gives None.
        """
        for pipe, own in zip(self.pipes, each or [{}] * WORKERS, strict=True):
            pipe.send((function, args, {**kwargs, **own}))
        return [self._answer(index, timeout) for index in range(WORKERS)]

    def _answer(self, index: Any, timeout: Any) -> Any:
        if not self.pipes[index].poll(timeout):
            raise TimeoutError(f"worker {index} has not answered within {timeout} seconds")
        try:
            return self.pipes[index].recv()
        except EOFError:
            return None


def free_ports() -> Any:
    sockets = [socket.socket() for _ in range(WORKERS)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def serve(pipe: Any, addresses: Any, index: Any) -> None:
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    )
    strategy()
    while True:
        function, args, kwargs = pipe.recv()
        try:
            pipe.send(function(*args, **kwargs))
        except Exception as error:
            traceback.print_exc()
            pipe.send((type(error).__name__, str(error)))
