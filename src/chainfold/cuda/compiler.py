"""NVRTC, the compiler that comes with every CUDA build of torch: CUDA C++ to machine code of one card.

The library is called through ctypes: its C interface has not changed since CUDA 7, nothing has to be installed beside
torch, and no header is needed. Machine code is kept in `~/.cache/chainfold/cuda` under the digest of everything that it
depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from chainfold.errors import ChainfoldError
from chainfold.system.files import written_whole

_HERE = Path(__file__).parent
_KEPT = Path(".cache") / "chainfold" / "cuda"
HEADERS = ("batch.cuh", "chunk.cuh", "logarithms.cuh", "numbers.cuh", "viterbi.cuh")


class NoCompiler(ChainfoldError):
    """NVRTC cannot be loaded."""

    def __init__(self) -> None:
        super().__init__(
            "CUDA tensors need NVRTC, which comes with torch's CUDA builds, and none was found: install such a build, "
            "or move the emissions and the CRF to the CPU."
        )


def source(name: str) -> str:
    """The text of NAME.cu, with what it shares before it."""
    return "".join((_HERE / file).read_text() for file in (*HEADERS, f"{name}.cu"))


def compiled(name: str, architecture: int, options: tuple[str, ...], anew: bool = False) -> bytes:
    """The machine code of NAME.cu for a compute capability, for instance 90; what is kept is not read with `anew`."""
    library, text = _library(), source(name)
    flags = (f"--gpu-architecture=sm_{architecture}", "--std=c++17", *options)
    digest = hashlib.sha256("\0".join((text, *flags, _version())).encode()).hexdigest()
    path = None
    with suppress(OSError, RuntimeError):  # there may be no home
        path = Path.home() / _KEPT / f"{name}-{digest}.cubin"
        if path.is_file() and not anew:
            return path.read_bytes()
    code = _compile(library, text, name, flags)
    if path is not None:
        with suppress(OSError, ChainfoldError):  # kept where that is possible
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as file:
                file.write(code)
    return code


def _compile(library: ctypes.CDLL, text: str, name: str, flags: tuple[str, ...]) -> bytes:
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None))
    given = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    failed = library.nvrtcCompileProgram(program, len(flags), given)
    if failed:
        raise ChainfoldError(f"{name}.cu cannot be compiled: {_text(library, program)}")
    size = ctypes.c_size_t()
    _check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    _check(library.nvrtcGetCUBIN(program, code))
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


def _text(library: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    """The first lines of the compiler's log."""
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    return " ".join(log.value.decode(errors="replace").split())[:1000]


def _check(status: int) -> None:
    if status:
        raise ChainfoldError(f"NVRTC failed with status {status}.")


@cache
def _version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


@cache
def _library() -> ctypes.CDLL:
    """The library that torch has loaded or brings along."""
    import torch

    major = (torch.version.cuda or "").split(".")[0]
    file = f"nvrtc64_{major}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{major}"
    roots = [Path(torch.__file__).parent / "lib", *sorted(Path(torch.__file__).parents[1].glob("nvidia/*/lib"))]
    for candidate in (file, *(str(root / file) for root in roots)):
        with suppress(OSError):
            return ctypes.CDLL(candidate)
    raise NoCompiler
