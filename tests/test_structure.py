"""The package's imports, held against the table of CONTRIBUTING.md."""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator

from imports import MODULES, PACKAGE, ROOT, imports

NOT_OF_COMMANDS = {"TYPE_CHECKING", "not startup.is_command()"}
JOINS = {"__init__", "__main__", "cli", "startup"}


def allowed() -> dict[str, set[str]]:
    """The third column of the table, by the first."""
    table: dict[str, set[str]] = {}
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or not cells[0].startswith("`"):
            continue
        name = cells[0].strip("`").removesuffix(".py").rstrip("/")
        if cells[2] == "all of the above":
            table[name] = set(table)
        else:
            table[name] = {part.strip("` ") for part in cells[2].split(",") if "`" in part}
    return table


def imported_at_start(code: ast.Module) -> Iterator[str]:
    """What the command line imports with a module, in conditions too."""
    todo: list[ast.AST] = [code]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in NOT_OF_COMMANDS:
            todo += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            todo += ast.iter_child_nodes(node)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


class StructureTest(unittest.TestCase):
    def test_every_import_is_in_the_table(self) -> None:
        table = allowed()
        self.assertIn("layers", table)
        for path in PACKAGE.rglob("*.py"):
            own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
            if own in JOINS:
                continue
            self.assertIn(own, table, f"{path} has no row in the table")
            for module in imports(path):
                other = room(module)
                fits = other == own or any(
                    module == f"tfbdl.{name}" or module.startswith(f"tfbdl.{name}.")
                    for name in table[own]
                )
                self.assertTrue(fits, f"{path} imports {module}; the table allows {table[own]}")

    def test_there_is_no_cycle(self) -> None:
        edges = {name: imports(path) & MODULES.keys() - {name} for name, path in MODULES.items()}
        done: set[str] = set()

        def visit(name: str, trail: tuple[str, ...]) -> None:
            self.assertNotIn(name, trail, " -> ".join((*trail, name)))
            if name not in done:
                for other in edges[name]:
                    visit(other, (*trail, name))
                done.add(name)

        for name in edges:
            visit(name, ())

    def test_commands_start_without_tensorflow(self) -> None:
        """Nothing that the command line imports at its start imports it, nor Keras: 20 seconds."""
        todo, done = ["tfbdl.cli"], set[str]()
        while todo:
            name = todo.pop()
            parent = name.rpartition(".")[0]
            todo += [parent] if "." in parent else []
            if name in done or name not in MODULES:
                continue
            done.add(name)
            for module in imported_at_start(ast.parse(MODULES[name].read_text())):
                todo.append(module)
                self.assertNotIn(module.partition(".")[0], ("keras", "tensorflow"), name)
        self.assertIn("tfbdl.examples", done)

    def test_files_stay_small(self) -> None:
        for path in PACKAGE.rglob("*.py"):
            self.assertLess(len(path.read_text().splitlines()), 300, path)


if __name__ == "__main__":
    unittest.main()
