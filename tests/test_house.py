"""House rules that can be checked: imports go down only, kernels declare their arithmetic, modules stay small."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import chainfold
from budget import exceeded
from chainfold.engines import registry

pytestmark = pytest.mark.quick

SOURCE = Path(chainfold.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
KERNELS = [path for path in MODULES if path.parent.name == "jit"]

# Each package imports from those before it only; inside a package no two modules import one another.
ROOMS = (
    "escape",
    "errors",
    "core",
    "system",
    "jit",
    "chain",
    "readers",
    "features",
    "model",
    "exchange",
    "reference",
    "semiring",
    "engines",
    "metrics",
    "scorers",
    "inference",
    "arrays",
    "training",
    "pycrfsuite",
    "sklearn",
    "dask",
    "cuda",
    "torch",
    "cli",
    "__main__",
)
COMPILED = {"jit"}  # the rooms that import numba
ENGINE_MODULES = {f"engines.{module}" for module in registry.MODULES.values()}


def module_of(path: Path) -> str:
    """The dotted name of a file, without the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_of(path) for path in MODULES}


def imports(path: Path) -> set[str]:
    """The chainfold modules that a file imports, lazily or for type hints as well."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named = {alias.name for alias in node.names if alias.name.split(".")[0] == "chainfold"}
            imported |= {name.removeprefix("chainfold").lstrip(".") for name in named}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "chainfold":
            base = (node.module or "").removeprefix("chainfold").lstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                imported.add(inner if inner in NAMES else base)
    return imported - {""}


def packages(path: Path) -> set[str]:
    """The packages that a file imports, lazily or for type hints as well."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_package_has_its_place() -> None:
    assert {room(name) for name in NAMES} - {""} == set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    module = module_of(path)
    if not module:
        return  # the package itself names everything, and imports it when it is asked for
    for name in imports(path):
        if room(name) != room(module):
            assert ROOMS.index(room(name)) < ROOMS.index(room(module)), f"{module} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_numba_stays_where_kernels_are(path: Path) -> None:
    assert room(module_of(path)) in COMPILED or not packages(path) & {"numba", "llvmlite"}


def test_no_two_modules_import_one_another() -> None:
    graph = {module_of(path): imports(path) & NAMES for path in MODULES if module_of(path)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import one another: {' -> '.join(error.args[1])}")


def test_no_engine_imports_another_but_parallel() -> None:
    paths = [path for path in MODULES if module_of(path) in ENGINE_MODULES]
    assert len(paths) == len(ENGINE_MODULES)
    for path in paths:
        others = imports(path) & ENGINE_MODULES
        assert not others or path.stem == "parallel", f"{module_of(path)} imports {', '.join(others)}"


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_every_kernel_declares_its_arithmetic_and_opens_with_words(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                assert "njit" not in text, f"{node.name} is compiled behind the back of jit.decorator"
                if text.startswith("kernel("):
                    assert "fastmath=" in text
                    if "inline" not in text:
                        assert ast.get_docstring(node), f"{node.name} says nothing"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_are_small_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 650
    if path.name != "__init__.py" or text.strip():
        assert ast.get_docstring(ast.parse(text))


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(room(module_of(path)))
    several = {name: sorted(rooms) for name, rooms in homes.items() if len(rooms) > 1}
    assert several == {  # the names of the classes that they replace
        "CRF": ["sklearn", "torch"],
        "Tagger": ["inference", "pycrfsuite"],
    }


def test_public_names_are_what_they_say() -> None:
    for name in chainfold.__all__:
        assert getattr(chainfold, name).__name__ == name
    assert set(chainfold.__all__) <= set(dir(chainfold))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        chainfold.nothing  # noqa: B018


def test_a_figure_above_the_budget_is_named() -> None:
    budget = {"lines": {"src": 1000.0, "tests": 100.0}}
    assert not exceeded({"lines": {"src": 1050.0, "tests": 1.0}}, budget)
    assert exceeded({"lines": {"src": 1051.0}, "megabytes": {"wheel": 0.1}}, budget) == [
        "lines.src is 1,051.0, more than 5 % above the 1,000.0 of budget.toml.",
        "megabytes.wheel is 0.1, more than 5 % above the 0 of budget.toml.",
    ]
