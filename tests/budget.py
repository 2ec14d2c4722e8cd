"""The weight of the project: `python tests/budget.py` fails where a figure is over 5 % above that of `budget.toml`.

Lower figures are written with `--write`; a higher one is a commit of its own that says why, and what went instead.

    lines          of the rooms of src/chainfold, of tests and experiments
    interface      modules, public names, verbs and options of the command line
    way            modules whose functions one call of `fit` or `train` enters, and kinds of objects that hold its rows
    megabytes      the package as a wheel, and what the base install takes
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections import Counter
from importlib.metadata import distribution
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / "budget.toml"
_SOURCES = {".py", ".cu", ".cuh", ".cpp", ".hpp", ".h", ".c"}
_ALLOWED = 1.05
_NAMED = ("chainfold", "chainfold.metrics", "chainfold.pycrfsuite", "chainfold.scorers")

Figures = dict[str, dict[str, float]]


def figures() -> Figures:
    """All figures of the tree and of the installed packages."""
    return {"lines": _lines(), "interface": _interface(), "way": _ways(), "megabytes": _sizes()}


def _lines() -> dict[str, float]:
    counts: Counter[str] = Counter()
    for top in ("src", "tests", "experiments", "examples"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in _SOURCES and "__pycache__" not in path.parts:
                parts = path.relative_to(ROOT).parts
                room = parts[2] if top == "src" and len(parts) > 3 else "chainfold" if top == "src" else top
                room = "core_cpp" if parts[:2] == ("src", "core") else room
                lines = path.read_text().count("\n")
                counts[room] += lines
                if top == "src":
                    counts["src"] += lines
    return dict(counts)


def _interface() -> dict[str, float]:
    facts = _in_a_process(f"""
        import importlib, json, sys
        import typer
        names = sum(len(importlib.import_module(name).__all__) for name in {_NAMED})
        from chainfold.cli import app
        verbs = typer.main.get_command(app).commands
        options = sum(len([p for p in verb.params if p.param_type_name == "option"]) for verb in verbs.values())
        print(json.dumps(dict(public_names=names, verbs=len(verbs), options=options)))
    """)
    modules = len([*(ROOT / "src").rglob("*.py")])
    imported = {
        f"imported_by_{name}": _in_a_process(f"""
            import json, sys
            {statement}
            print(json.dumps(len([name for name in sys.modules if name.split(".")[0] == "chainfold"])))
        """)
        for name, statement in (
            ("fit", 'import chainfold; chainfold.CRF(max_iterations=1).fit([[{"a": "b"}]], [["c"]])'),
            ("pycrfsuite", "import chainfold.pycrfsuite as p; p.Trainer, p.Tagger"),
        )
    }
    return {"modules": modules, **facts, **imported}


def _in_a_process(code: str) -> Any:
    lines = code.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    program = "\n".join(line[indent:] for line in lines)
    return json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


class Way:
    """What a call crosses: modules of chainfold, and kinds of objects that hold rows."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.kinds: set[str] = set()

    def __enter__(self) -> Way:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, value: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event in ("call", "return") and module.startswith("chainfold.") and not _is_scaffold(module):
            if frame.f_code.co_name != "<module>":
                self.modules.add(module)
            if event == "return" and (kind := _kind(value)) is not None:
                self.kinds.add(kind)


def _is_scaffold(module: str) -> bool:
    """Whether a module handles no rows: the command line, the system, errors."""
    return module.startswith(("chainfold.cli", "chainfold.system", "chainfold.errors", "chainfold.escape"))


def _kind(value: Any) -> str | None:
    """The kind of an object that holds many values; None of others."""
    if type(value).__module__.startswith("pyarrow"):
        return f"{type(value).__module__}.{type(value).__name__}"
    if type(value).__name__ == "ndarray":
        return f"ndarray of {value.dtype.kind}" if value.ndim else None
    held = value if isinstance(value, tuple) else getattr(value, "__dict__", {}).values()
    if type(value).__module__.startswith("chainfold.") and any(_kind(part) for part in held):
        return f"{type(value).__module__}.{type(value).__name__}"
    return None


def _ways() -> dict[str, float]:
    """`fit` on dicts, and `train` of a file: the calls run twice, for nothing is imported or compiled in the second."""
    import chainfold
    from chainfold.features.encode import encode

    def fit() -> None:
        rows = [[{"word": "the", "length": 3.0}, {"word": "cat"}], [{"word": "it"}]] * 10
        chainfold.CRF(max_iterations=2).fit(rows, [["D", "N"], ["P"]] * 10)

    def train() -> None:
        with tempfile.TemporaryDirectory() as folder:
            chain = encode(
                ROOT / "examples" / "train.txt",
                Path(folder) / "chain",
                columns=["word", "pos", "chunk"],
                attributes="word[-1] word pos",
            )
            chainfold.train(chain, chainfold.Training("lbfgs", {"max_iterations": 2}))

    found: dict[str, float] = {}
    for name, call in (("fit", fit), ("train", train)):
        call()
        with Way() as way:
            call()
        found |= {f"{name}_modules": len(way.modules), f"{name}_kinds": len(way.kinds)}
        if "--verbose" in sys.argv:
            print(name, *sorted(way.modules), *sorted(way.kinds), sep="\n    ")
    return found


def _sizes() -> dict[str, float]:
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((ROOT / "src" / "chainfold").rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc"):
                archive.write(path)
    installed, waiting = set(), {"chainfold"}
    while waiting:
        name = waiting.pop()
        installed.add(name)
        required = [need for need in distribution(name).requires or [] if "extra ==" not in need and _applies(need)]
        waiting |= {re.split(r"[^\w.-]", need)[0].lower() for need in required} - installed
    size = sum(_size_of(name) for name in installed - {"chainfold"})
    return {"wheel": round(len(wheel.getvalue()) / 1e6, 2), "base_install": round(size / 1e6, 1)}


def _applies(requirement: str) -> bool:
    """Whether a requirement holds here; those for other systems and Pythons do not."""
    return not re.search(r"win32|Windows|emscripten|python_(full_)?version *<", requirement)


def _size_of(name: str) -> int:
    """Bytes of an installed distribution, without what Python compiled."""
    files = distribution(name).files or []
    paths = [Path(str(file.locate())) for file in files if not str(file).endswith(".pyc")]
    return sum(path.stat().st_size for path in paths if path.exists())


def exceeded(found: Figures, budget: Figures) -> list[str]:
    """A sentence for each figure that is too high, or that the budget does not have."""
    sentences = []
    for table, rows in found.items():
        for name, value in sorted(rows.items()):
            most = budget.get(table, {}).get(name, 0)
            if value > most * _ALLOWED:
                sentences.append(f"{table}.{name} is {value:,}, more than 5 % above the {most:,} of budget.toml.")
    return sentences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the figures of the tree to budget.toml")
    parser.add_argument("--verbose", action="store_true", help="list what `fit` and `train` cross")
    options, found = parser.parse_args(), figures()
    if options.write:
        head = "# The weight of the project; `make lint` fails where a figure is more than 5 % above this.\n"
        tables = (
            f"\n[{table}]\n" + "".join(f"{name} = {value}\n" for name, value in sorted(rows.items()))
            for table, rows in found.items()
        )
        BUDGET.write_text(head + "".join(tables))
        return 0
    over = exceeded(found, tomllib.loads(BUDGET.read_text()))
    print(*over, sep="\n", end="\n" if over else "")
    total = found["lines"]
    print(
        f"src {total['src']:,} lines, tests {total['tests']:,}; {found['interface']['modules']} modules, "
        f"{found['interface']['options']} options; base install {found['megabytes']['base_install']} MB."
    )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
