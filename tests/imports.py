"""Which modules of the package a file imports, read from its text."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tfbdl"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@functools.cache
def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, those for type checking left out."""
    tree = _without_typing(ast.parse(path.read_text()))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfbdl"):
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {part if part in MODULES else str(node.module) for part in parts}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("tfbdl")}
    return names


@functools.cache
def uses(path: Path) -> set[str]:
    """Modules that define what a file imports, or reaches as `tfbdl.name` or `layers.Name`."""
    modules: set[str] = set()
    packages = {"tfbdl": "tfbdl"}
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfbdl"):
            for alias in node.names:
                module = _defining(str(node.module), alias.name)
                modules.add(module)
                packages[alias.asname or alias.name] = module
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = packages.get(node.value.id)
            if package is not None:
                modules.add(_defining(package, node.attr))
    return modules & MODULES.keys()


def _defining(package: str, name: str) -> str:
    """The module of a package from which its `__init__` takes a name; the package where none."""
    inner = f"{package}.{name}"
    return inner if inner in MODULES else _taken(package).get(name, package)


@functools.cache
def _taken(package: str) -> dict[str, str]:
    """The module of each name that the `__init__` of a package imports."""
    path = MODULES.get(package)
    if path is None or path.name != "__init__.py":
        return {}
    taken = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfbdl"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                taken[alias.asname or alias.name] = inner if inner in MODULES else str(node.module)
    return taken


def _without_typing(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                block[:] = [s for s in block if not (isinstance(s, ast.If) and _is_typing(s))]
    return tree


def _is_typing(statement: ast.If) -> bool:
    return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
