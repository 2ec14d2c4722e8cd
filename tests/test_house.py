"""House rules that can be checked: imports go down only, kernels declare their arithmetic, modules stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import chainfold
from chainfold.engines import ENGINES

pytestmark = pytest.mark.quick

SOURCE = Path(chainfold.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# Lower is deeper; a module imports only from deeper levels, or within its own where stated.
LEVELS = {
    "plain": -1,
    "stopping": -1,
    "errors": 0,
    "files": 1,
    "outputs": 2,
    "resident": 1,
    "restored": 1,
    "semiring": 1,
    "temporary": 2,
    "kernels": 2,
    "data": 3,
    "model": 4,
    "constraints": 4,
    "metrics": 4,
    "shelf": 4,
    "optimize": 4,
    "sealed": 4,
    "model_file": 5,
    "inspection": 5,
    "engines": 5,
    "evaluation": 6,
    "forward": 6,
    "pieces": 7,
    "tagging": 7,
    "objective": 8,
    "mistakes": 9,
    "transfer": 9,
    "training": 10,
    "apply": 10,
    "feed": 11,
    "training_log": 11,
    "live": 11,
    "online": 11,
    "growth": 12,
    "estimator": 13,
    "paper": 13,
    "cli": 14,
    "__main__": 15,
}
WITHIN = {"kernels", "data", "engines", "live", "online", "optimize", "paper", "cli"}
ENGINE_MODULES = {name.replace("-", "_") for name in ENGINES}


def imports(path: Path) -> set[str]:
    """The chainfold modules that a file imports, as dotted names without the package, type hints left out."""
    tree = ast.parse(path.read_text())
    hints = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in hints and (node.module or "").startswith("chainfold"):
            base = (node.module or "").removeprefix("chainfold").lstrip(".")
            found |= {f"{base}.{name.name}".lstrip(".") for name in node.names}
    return found


def home(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    here = home(path)
    if here == "__init__":
        assert not imports(path), "the package itself imports lazily"
        return
    for name in imports(path):
        there = name.split(".")[0]
        if there == "__version__":
            continue
        assert LEVELS[there] < LEVELS[here] or (there == here and here in WITHIN), f"{path.name} imports {name}"


def test_no_engine_imports_another_but_parallel() -> None:
    for name in ENGINE_MODULES - {"parallel"}:
        for imported in imports(SOURCE / "engines" / f"{name}.py"):
            parts = imported.split(".")
            assert not (parts[0] == "engines" and parts[1] in ENGINE_MODULES), f"{name} imports {imported}"


@pytest.mark.parametrize("path", sorted((SOURCE / "kernels").glob("*.py")), ids=lambda path: path.name)
def test_every_kernel_declares_its_arithmetic_and_opens_with_words(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                assert "njit" not in text, f"{node.name} is compiled behind the back of kernels.jit"
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


def test_public_names_are_what_they_say() -> None:
    for name in chainfold.__all__:
        assert getattr(chainfold, name).__name__ == name
    assert set(chainfold.__all__) <= set(dir(chainfold))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        chainfold.nothing  # noqa: B018
