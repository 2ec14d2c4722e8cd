"""Build backend: scikit-build-core with two additions.

A compiler where there is none: if PATH has no C++ compiler, the wheel `ziglang` is required, and compiles.
`CHAINFOLD_NO_ZIG=1` forbids it.

An editable install without import hooks: the compiled modules lie in `src/chainfold/core`, and the environment gets
the path of `src`. `make core`, one step of ninja in `build/dev`, compiles what has changed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ZIG = "ziglang==0.17.0"
COMPILERS = ("c++", "g++", "clang++")
Settings = dict[str, list[str] | str]


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    from scikit_build_core.build import build_sdist

    return build_sdist(sdist_directory, config_settings)


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:
    from scikit_build_core.build import get_requires_for_build_sdist

    return get_requires_for_build_sdist(config_settings)


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    from scikit_build_core.build import get_requires_for_build_wheel

    return get_requires_for_build_wheel(config_settings) + _required_compiler()


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    return get_requires_for_build_wheel(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings | None = None) -> str:
    from scikit_build_core.build import prepare_metadata_for_build_wheel

    return prepare_metadata_for_build_wheel(metadata_directory, config_settings)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    from scikit_build_core.build import build_wheel

    settings = config_settings or {}
    if compiler := _compiler():
        os.environ["CXX"] = compiler
    else:
        _required_compiler()
        toolchain = write_toolchain(ROOT / "build" / "zig", platform.machine())
        settings = {"build-dir": "build/zig/{wheel_tag}", "cmake.toolchain-file": str(toolchain), **settings}
    return build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    """Build the modules in place; make a wheel of the path of `src` and the metadata."""
    settings = dict(config_settings or {}) | {"build-dir": "build/dev", "cmake.define.CHAINFOLD_IN_PLACE": "ON"}
    with tempfile.TemporaryDirectory() as folder:
        name = build_wheel(folder, settings)
        with zipfile.ZipFile(Path(folder) / name) as whole:
            members = {path: whole.read(path) for path in whole.namelist() if ".dist-info/" in path}
    record = next(path for path in members if path.endswith(".dist-info/RECORD"))
    del members[record]
    members["_chainfold_editable.pth"] = f"{ROOT / 'src'}\n".encode()
    lines = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in members.items()]
    members[record] = "".join([*lines, f"{record},,\n"]).encode()
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in members.items():
            wheel.writestr(path, content)
    return name


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _compiler() -> str | None:
    """The C++ compiler to use: that of CXX, or the first on PATH; none where `CHAINFOLD_ZIG` asks for zig."""
    if os.environ.get("CHAINFOLD_ZIG"):
        return None
    return os.environ.get("CXX") or next(filter(None, map(shutil.which, COMPILERS)), None)


def _required_compiler() -> list[str]:
    """The wheel with a compiler, where there is none."""
    if _compiler():
        return []
    if os.environ.get("CHAINFOLD_NO_ZIG") or sys.platform != "linux":
        sys.exit(
            "chainfold is compiled when it is installed: install a C++17 compiler (g++ or clang++), or name it in the "
            "variable CXX."
        )
    print(f"No C++ compiler on PATH: chainfold is compiled with {ZIG}.", flush=True)
    return [ZIG]


def write_toolchain(folder: Path, machine: str) -> Path:
    """Write a toolchain file of CMake for zig, and the programs that it names, for Linux on a machine.

    They name zig where it is now: a folder outlives the environment of a build. The processor is the least one of its
    kind, not the one that compiles, and the C library is glibc 2.17 or later (manylinux2014), or musl.
    """
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    library = "gnu.2.17" if platform.libc_ver()[0] == "glibc" else "musl"
    folder.mkdir(parents=True, exist_ok=True)
    programs = {"c++": f"c++ -target {machine}-linux-{library}", "ar": "ar", "ranlib": "ranlib"}
    for name, command in programs.items():
        path = folder / f"{machine}-{name}"
        path.write_text(
            f'#!/bin/sh\n: "${{ZIG_GLOBAL_CACHE_DIR:={folder}/cache}}"\nexport ZIG_GLOBAL_CACHE_DIR\n'
            f'exec "{zig}" {command} "$@"\n'
        )
        path.chmod(0o755)
    toolchain = folder / f"{machine}.cmake"
    toolchain.write_text(
        f"""\
set(CMAKE_CXX_COMPILER "{folder}/{machine}-c++")
set(CMAKE_AR "{folder}/{machine}-ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "{folder}/{machine}-ranlib" CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_ID_RUN ON) # it and others would link a program, and zig compile libc++ for it
set(CMAKE_CXX_COMPILER_ID Clang)
set(CMAKE_CXX_COMPILER_VERSION 22)
set(CMAKE_CXX_COMPILER_FRONTEND_VARIANT GNU)
set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CXX_COMPILER_WORKS ON)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_FLAGS_INIT "-include stdio.h") # nanobind's limited interface uses stderr, and libc++ does not bring it
set(CHAINFOLD_ZIG ON)
"""
        + (
            f"set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR {machine})\n"
            if machine != platform.machine()
            else ""
        )
    )
    return toolchain


def main() -> None:
    """Print what a build without isolation requires: first what pyproject.toml names, then what that makes known."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    try:
        print(*requires, *get_requires_for_build_editable(), sep="\n")
    except ModuleNotFoundError:
        print(*requires, sep="\n")


if __name__ == "__main__":
    main()
