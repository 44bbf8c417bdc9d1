"""Functions of an object that are others in one thread, and in all others as they were."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Function = Callable[..., Any]
_LOCK = threading.Lock()


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Function], Function]) -> Iterator[None]:
    """The attribute `name` is, in this thread and in the context, what `make` gives for it."""
    thread = threading.get_ident()
    with _LOCK:
        of_threads = owner.__dict__.get(name)
        if not isinstance(of_threads, OfThreads):
            of_threads = OfThreads(getattr(owner, name), name in owner.__dict__)
        stack = of_threads.stacks.setdefault(thread, [])
        stack.append(make(stack[-1] if stack else of_threads.own))
        owner.__dict__[name] = of_threads
    try:
        yield
    finally:
        with _LOCK:
            stack.pop()
            if not stack:
                del of_threads.stacks[thread]
            if not of_threads.stacks:
                if of_threads.is_attribute:
                    owner.__dict__[name] = of_threads.own
                else:
                    del owner.__dict__[name]


class OfThreads:
    """A function that is another one in some threads.

    Args:
        own: the function as it is everywhere else.
        is_attribute: whether its owner has it as an attribute of its own, and not by its class.
    """

    def __init__(self, own: Function, is_attribute: bool) -> None:
        self.__wrapped__ = self.own = own
        self.is_attribute = is_attribute
        self.stacks: dict[int, list[Function]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = self.stacks.get(threading.get_ident())
        return (stack[-1] if stack else self.own)(*args, **kwargs)
