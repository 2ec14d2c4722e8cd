"""How kernels are loaded and launched, with a driver in the place of the card's."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from chainfold.cuda import launch
from chainfold.errors import ChainfoldError


class Driver:
    """A driver that has no context until one is set, and refuses code that is not good."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_context = False

    def _call(self, name: str, status: int = 0) -> int:
        self.calls.append(name)
        return status

    def cuDeviceGet(self, device: Any, number: int) -> int:  # noqa: N802
        return self._call("get")

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:  # noqa: N802
        return self._call("retain")

    def cuCtxSetCurrent(self, context: Any) -> int:  # noqa: N802
        self.has_context = True
        return self._call("enter")

    def cuModuleLoadData(self, module: Any, code: bytes) -> int:  # noqa: N802
        return self._call("load", 0 if code == b"good" else 200)

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:  # noqa: N802
        function._obj.value = 1
        return self._call("function")

    def cuLaunchKernel(self, *arguments: Any) -> int:  # noqa: N802
        return self._call("launch", 0 if self.has_context else launch._NO_CONTEXT)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> launch.Kernels:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(launch, "_driver", Driver)
    return launch.Kernels(0, 3, double=False, edges=True)


def test_a_thread_without_a_context_enters_the_one_of_torch(
    kernels: launch.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "compiled", lambda *asked, anew=False: b"good")
    kernels.launch("sum_tables", 1, 32, 0, 0)
    driver: Any = kernels._driver
    driver.has_context = False  # as in another thread
    kernels.launch("sum_tables", 1, 32, 0, 0)
    assert driver.calls[-5:] == ["launch", "get", "retain", "enter", "launch"]


def test_damaged_code_is_compiled_anew(kernels: launch.Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def compiled(*options: Any, anew: bool = False) -> bytes:
        asked.append((*options, anew))
        return b"good" if anew else b"damaged"

    monkeypatch.setattr(launch, "compiled", compiled)
    kernels.launch("chunk_forward", 1, 32, 0, 0)
    assert asked == [("chunk_forward", 90, ("-DN=3", "-DEDGES"), again) for again in (False, True)]


def test_a_compilation_that_fails_is_tried_again(kernels: launch.Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*options: Any, anew: bool = False) -> bytes:
        raise ChainfoldError("no memory")

    monkeypatch.setattr(launch, "compiled", fails)
    with pytest.raises(ChainfoldError, match="no memory"):
        kernels.launch("counts", 1, 32, 0, 0)
    monkeypatch.setattr(launch, "compiled", lambda *asked, anew=False: b"good")
    kernels.launch("counts", 1, 32, 0, 0)
    assert isinstance(kernels._functions["counts"], ctypes.c_void_p)
