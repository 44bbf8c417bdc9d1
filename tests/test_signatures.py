"""Signatures say what can be given, and docstrings the shapes that come and go."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import pytest
from soak.calls import all_cases
from soak.calls.case import Case, parameters

import tfbdl

MODULES = [tfbdl, *(m for m in map(tfbdl.__dict__.get, tfbdl.__all__) if inspect.ismodule(m))]
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if callable(getattr(module, name))
}
REFUSED = {"estimator", "bias_prior", "bias_posterior"}
"""Arguments of Bayesian layers that some of them refuse by name: they have one value only."""

STATED = re.compile(r"shapes? ((?:\([^()]*\)(?:,? or )?)+)")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_stands_in_the_signature(name: str) -> None:
    """Every argument has its type; behind `**kwargs` of a class are arguments of Keras alone."""
    thing = PUBLIC[name]
    own = getattr(thing, "__init__", thing) if isinstance(thing, type) else thing
    if not getattr(own, "__module__", "").startswith("tfbdl"):
        return  # of Keras, of errors, of named tuples: it has no arguments of its own
    given = inspect.signature(own).parameters
    for argument, parameter in given.items():
        assert parameter.kind is not parameter.VAR_POSITIONAL, f"{name} hides *{argument}"
        typed = parameter.annotation is not parameter.empty or argument == "self"
        assert typed, f"{name}: {argument} has no type"
    many = [p for p in given.values() if p.kind is p.VAR_KEYWORD]
    if many:
        assert isinstance(thing, type), f"{name} hides arguments"
        assert any(base.__module__.startswith("keras") for base in thing.__mro__), name
        hidden = parameters(thing).keys() - given.keys() - REFUSED
        assert not hidden, f"{name} hides {hidden}"


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class that are written in the package, its own and those of bases."""
    for base in kind.__mro__:
        written = vars(base).items() if base.__module__.startswith("tfbdl") else ()
        for name, given in written:
            method = getattr(given, "__func__", given)
            if name[0] != "_" and inspect.isfunction(method):
                yield f"{base.__name__}.{name}", method


METHODS = {
    name: method
    for kind in PUBLIC.values()
    if isinstance(kind, type)
    for name, method in methods(kind)
}


@pytest.mark.parametrize("name", METHODS)
def test_every_argument_of_a_method_stands_in_its_signature(name: str) -> None:
    """Behind `*args` and `**kwargs` are those alone that Keras' method of this name hides too."""
    method = METHODS[name]
    given = inspect.signature(method).parameters
    theirs = getattr(keras.Model, method.__name__, None)
    of_keras = inspect.signature(theirs).parameters if theirs else {}
    hiding = {p.kind for p in of_keras.values()}
    for argument, parameter in given.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            assert parameter.kind in hiding, f"{name} hides {argument}"
            named = {n for n, p in of_keras.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
            assert named <= given.keys(), f"{name} hides {named - given.keys()}"
        typed = parameter.annotation is not parameter.empty or argument in ("self", "cls")
        assert typed, f"{name}: {argument} has no type"


CLASSES = {name: thing for name, thing in PUBLIC.items() if isinstance(thing, type)}


def inherited(kind: type) -> dict[str, Any]:
    """The arguments that a class takes from Keras' behind `**kwargs`, with their types."""
    makes = getattr(kind, "__init__", None)
    if not getattr(makes, "__module__", "").startswith("tfbdl"):
        return {}
    many = [p for p in inspect.signature(makes).parameters.values() if p.kind is p.VAR_KEYWORD]
    if not many:
        return {}
    (taken,) = typing.get_args(typing.get_type_hints(makes)[many[0].name])
    assert typing.is_typeddict(taken), f"{kind}: give {many[0]} its types"
    return typing.get_type_hints(taken)


INHERITED = {name: taken for name, kind in CLASSES.items() if (taken := inherited(kind))}
CASES = {id(case.target): case for case in reversed(list(all_cases()))}
OTHER_THAN_DEFAULT = {
    "name": "own",
    "dtype": "float64",
    "trainable": False,
    "reduction": "sum",
    "gradient_accumulation_steps": 3,
    "loss_scale_factor": 8.0,
}


@pytest.mark.parametrize("name", INHERITED)
def test_arguments_of_keras_are_named(name: str) -> None:
    """The docstring names those that types do, itself or where it refers to."""
    kind = CLASSES[name]
    package, docstring = name.rpartition(".")[0], kind.__doc__ or ""
    referred = [getattr(sys.modules[package], n, None) for n in re.findall(r"`(\w+)`", docstring)]
    texts = [inspect.cleandoc(k.__doc__ or "") for k in (kind, *referred, *kind.__mro__) if k]
    said = (entries(text).get("**kwargs", "").split(". ")[0] for text in texts)
    others = {*inspect.signature(kind).parameters, *(base.__name__ for base in kind.__mro__)}
    named = (set(re.findall(r"`(\w+)`", entry)) - others for entry in said)
    assert next(filter(None, named), set()) == set(INHERITED[name]), f"{name}: name **kwargs"


@pytest.mark.parametrize("name", [n for n in INHERITED if id(CLASSES[n]) in CASES])
def test_arguments_of_keras_are_taken(name: str) -> None:
    """An object has what it is given for each of them."""
    given = {argument: OTHER_THAN_DEFAULT[argument] for argument in INHERITED[name]}
    made = CLASSES[name](**{**CASES[id(CLASSES[name])].good(), **given})
    for argument, value in given.items():
        assert getattr(made, argument) == value, argument


def entries(docstring: str) -> dict[str, str]:
    """The text of each argument or field that a docstring lists."""
    listed = re.findall(r"^    ((?:\*\*)?\w+): (.*(?:\n {8}.*)*)", docstring, flags=re.M)
    return {name: " ".join(text.split()) for name, text in listed}


def returned(docstring: str) -> str:
    """What a docstring says of the result."""
    parts = re.split(r"^ *(Args|Returns|Raises|Attributes):\n", docstring, flags=re.M)
    return " ".join(parts[parts.index("Returns") + 1].split()) if "Returns" in parts else ""


def shapes(text: str) -> list[tuple[str, ...]]:
    """The shapes that a sentence allows."""
    stated = [shape for some in STATED.findall(text) for shape in re.findall(r"\(([^()]*)\)", some)]
    return [tuple(d.strip() for d in shape.split(",") if d.strip()) for shape in stated]


def fits(stated: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int]) -> bool:
    """Whether an array has a shape where the letters stand for these sizes."""
    if "..." in stated:
        at = stated.index("...")
        rest = len(shape) - len(stated) + 1
        if rest < 0:
            return False
        shape = (*shape[:at], *shape[at + rest :])
        stated = (*stated[:at], *stated[at + 1 :])
    known = [_size(letter, sizes) for letter in stated]
    return len(known) == len(shape) and all(
        k in (None, s) for k, s in zip(known, shape, strict=True)
    )


def _size(letter: str, sizes: Mapping[str, int]) -> int | None:
    """The size of an axis: a number, a letter, or `num_bins - 1`; None if it is not known."""
    try:
        return int(eval(letter, {}, dict(sizes)))
    except NameError:
        return None


def learned(stated: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, int]:
    """The sizes of the letters in it."""
    if len(stated) != len(shape) or "..." in stated:
        return {}
    return {d: s for d, s in zip(stated, shape, strict=True) if d.isidentifier()}


def checked(case: Case) -> Iterator[str]:
    """What of a call has the shape that its docstring states.

    Raises:
        AssertionError: if something has another one.
    """
    given = case.good()
    sizes = {name: value for name, value in given.items() if isinstance(value, int)}
    text = inspect.getdoc(case.target) or ""
    for name, said in entries(text).items():
        value = given.get(name)
        if isinstance(value, np.ndarray) and (stated := shapes(said)):
            fitting = [s for s in stated if fits(s, value.shape, sizes)]
            assert fitting, f"{case.name}: {name} has shape {value.shape}, stated is {stated}"
            sizes |= learned(fitting[0], value.shape)
            yield name
    result = case.target(**given)
    for name, said, value in _parts(text, result):
        if hasattr(value, "shape") and (stated := shapes(said)):
            shape = tuple(value.shape)
            assert any(fits(s, shape, sizes) for s in stated), (case.name, name, shape, stated)
            yield f"result {name}"


def _parts(text: str, result: Any) -> Iterator[tuple[str, str, Any]]:
    """The result and its fields, with what is said of each."""
    yield "", returned(text), result
    said = entries(inspect.getdoc(type(result)) or "")
    for name in getattr(result, "_fields", ()) or getattr(result, "__dataclass_fields__", ()):
        yield name, said.get(name, ""), getattr(result, name)


def _is_function(target: Callable[..., Any]) -> bool:
    return inspect.isfunction(target) and target in PUBLIC.values()


FUNCTIONS = {
    case.name: case
    for case in all_cases()
    if _is_function(case.target)
    and not case.slow
    and not case.target.__module__.startswith("tfbdl.data")
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shapes_are_those_that_are_stated(name: str) -> None:
    """Arguments and results of functions, in the table of calls."""
    list(checked(FUNCTIONS[name]))


def test_stated_shapes_are_read() -> None:
    """So that the test above compares something."""
    assert shapes("labels, shape (N,) or (N, 1).") == [("N",), ("N", "1")]
    assert fits(("N", "num_bins - 1"), (5, 3), {"num_bins": 4})
    assert not fits(("N",), (4,), {"N": 5})
    assert fits(("S", "N", "..."), (2, 3, 4, 5), {"N": 3})
    assert not fits(("S", "N", "..."), (2, 4), {"N": 3})
    count = sum(len(list(checked(case))) for name, case in FUNCTIONS.items() if "metrics" in name)
    assert count > 25
