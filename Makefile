# One way in for people and for CI.

VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin

.PHONY: test lint test-rust lint-rust cross bars bench perf build demo test-python test-wheel wheel stubs docs lint-python

## test: everything, from nothing
test: test-rust test-python

## lint: style and types of Rust and Python
lint: lint-rust lint-python

## test-rust: unit, integration and documentation tests
test-rust:
	cargo test --locked

## lint-rust: formatting, and clippy with warnings as errors
lint-rust:
	cargo fmt --check
	cargo clippy --locked --all-targets --features python -- -D warnings

## cross: the Rust tests on aarch64 under qemu, and a type check for macOS (Debian, as root)
cross:
	scripts/cross.sh

## bars: the bars of the core, both sides interleaved
bars:
	cargo bench --locked --bench bars

## bench: the 36 cells of the seed suite against all peers, in under 3 minutes
bench: build $(VENV)/.peers
	$(BIN)/raptors-arrow bench --suite seed

## perf: all suites, into docs/perf: dated records, charts and report.md
perf: build $(VENV)/.peers
	$(BIN)/raptors-arrow bench --suite all --report docs/perf

## build: .venv with the pinned tools, and the release build installed in it
build: $(VENV)/.tools
	$(BIN)/maturin develop --release --quiet

# The tools are those of the extra `dev`, installed again when it changes.
$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		$$($(BIN)/python scripts/extra.py dev)
	touch $@

# The peers are those of the extra `peers`; the tests do without them.
$(VENV)/.peers: $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		$$($(BIN)/python scripts/extra.py peers)
	touch $@

## demo: a real job: embeddings in Parquet, streamed, reduced, normalised, with times
demo: build
	$(BIN)/python scripts/demo.py

## test-python: the Python tests against the release build in .venv
test-python: build
	$(BIN)/python -m pytest

## test-wheel: the same from the built wheel, in a clean environment for each Python that is here
test-wheel: $(VENV)/.tools
	scripts/test_wheel.sh -m "not timing and not slow"

## wheel: one wheel for every CPython from 3.11 on, in dist/
wheel: $(VENV)/.tools
	$(BIN)/maturin build --release --quiet --out dist

## stubs: writes the type stub from the registry
stubs: build
	$(BIN)/python scripts/stubs.py

## docs: writes the page of all functions from the registry
docs: build
	$(BIN)/python scripts/functions.py

## lint-python: style, types, and the stub against the built module
lint-python: build
	$(BIN)/ruff check python tests/python scripts
	$(BIN)/ruff format --check python tests/python scripts
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest raptors_arrow._native
