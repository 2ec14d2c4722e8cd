"""A copy of the package with a core of its own, compiled in seconds: one level, few widths, hardly optimised."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import chainfold
from chainfold import core

PACKAGE = Path(chainfold.__file__).parent
ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "core"
COMMANDS = ROOT / "build" / "dev" / "compile_commands.json"
TOOLS = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""An environment in which programs of this one, such as ninja, are found."""
LEVEL = "x86-64-v3" if "x86-64-v3" in core.levels() else core.LEVEL
_MODULE = f"_math_{LEVEL.removeprefix('x86-64-')}"
_RULES = """\
rule compile
  command = $compiler -O1 -DCORE_FEW_WIDTHS -MD -MF $out.d -o $out -c $in
  depfile = $out.d
  deps = gcc
rule link
  command = $compiler -shared -o $out $in
"""


def copy_package(folder: Path) -> None:
    """Copy the package and the sources of the core; write for ninja how a level is compiled quickly."""
    shutil.copytree(PACKAGE, folder / "chainfold", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copytree(SOURCES, folder / "core")
    if not COMMANDS.exists():
        return
    lines, objects, compiler = [_RULES], [], ""
    for command in json.loads(COMMANDS.read_text()):
        words, source = shlex.split(command["command"]), Path(command["file"])
        if f"-DCORE_MODULE={_MODULE}" in words:
            compiler = words[0]
            objects.append(f"{source.stem}.o")
            lines += [f"build {objects[-1]}: compile core/{source.name}"]
            lines += [f"  compiler = {shlex.join(words[: words.index('-o')])}"]
    spec = find_spec(f"chainfold.core.{_MODULE}")
    assert spec is not None
    assert spec.origin is not None
    library = next(COMMANDS.parent.glob("libnanobind-*.a"))
    lines += [
        f"build chainfold/core/{Path(spec.origin).name}: link {' '.join(objects)} {library}",
        f"  compiler = {compiler}",
    ]
    (folder / "build.ninja").write_text("\n".join([*lines, ""]))


def compile_core(folder: Path) -> None:
    """Compile what has changed in the sources of a copy."""
    done = subprocess.run(["ninja", "-C", folder], env=TOOLS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
