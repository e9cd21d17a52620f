# Everything installs into .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV := $(BIN)/uv
UV_VERSION := 0.13.9
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: run test install lint fmt bench lock docs clean

run: install
	$(BIN)/assay demo

install: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Assay needs Python 3.11 or newer; found $$($(PYTHON) --version). Name another one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) scripts/make_venv.py $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) pip sync --quiet --compile-bytecode requirements/dev.txt
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

test: install
	$(BIN)/pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/settings_reference.py --check
	$(BIN)/python scripts/payload_example.py --check

fmt: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python scripts/settings_reference.py
	$(BIN)/python scripts/payload_example.py

# What is measured against pins other versions of some of our libraries, so it has an environment of its own.
bench: install
	test -x $(VENV)/bench/bin/python || $(UV) venv --quiet --python $(BIN)/python $(VENV)/bench
	$(UV) pip sync --quiet --python $(VENV)/bench/bin/python requirements/bench.txt
	$(BIN)/python tests/bench/run.py

lock: install
	$(LOCK) pyproject.toml --extra batch --extra demo --extra daytona --extra evaluators --group dev -o requirements/dev.txt
	$(LOCK) pyproject.toml --extra demo --extra evaluators -c requirements/dev.txt -o requirements/runtime.txt
	$(LOCK) pyproject.toml --extra bench -o requirements/bench.txt

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
