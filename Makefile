# make train    install what is missing and train; options go into ARGS="--run.steps 3000"
# make demo     install what is missing, train a tiny agent in minutes without a GPU, and show it
# make test     install what is missing and run unit and integration tests
# make test-all the same and everything slow: training, all recordings, kills
#               ARGS of both go to pytest
# make test-logs  install the logging packages as well and test the log outputs against them
# make lint     check style;  make types: check types;  make check: lint, types and test-all
# make bench    run the benchmarks and compare them with the public implementation (ten minutes)
# make clean    remove the virtual environment and caches
#
# PYTHON=... chooses the interpreter for a new virtual environment, VENV=... its folder.

VENV ?= .venv
BIN := $(VENV)/bin

# The first interpreter that works, is new enough and can make virtual environments. Those that the
# control suite supports come first.
PROBE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.12 python3.11 python3 python3.13 python3.14 python; do \
	$$name -c '$(PROBE)' >/dev/null 2>&1 && { echo $$name; break; }; done)

.PHONY: train demo test test-all test-logs lint types check bench clean
.DEFAULT_GOAL := help
.PHONY: help
help:
	@sed -n 's/^# \{0,1\}//p; /^$$/q' Makefile

train: $(VENV)/.installed
	@# Ctrl+C saves and ends a run, which is no error; the shell must not end by it either.
	@trap : INT; $(BIN)/python dreamerv3/main.py --configs dmc_proprio size12m $(ARGS) \
		|| test $$? -eq 130

demo: $(VENV)/.installed-demo
	@trap : INT; $(BIN)/python examples/demo.py $(ARGS) || test $$? -eq 130

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

test-all: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m 'not gpu and not logs' --numprocesses auto --dist worksteal $(ARGS)

test-logs: $(VENV)/.installed-dev $(VENV)/.installed-logs
	$(BIN)/python -m pytest -m logs $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

check: lint types test-all

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/run_all.py $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer that can make virtual environments was" \
		"found; install one (on Debian: python3 python3-venv) or pass PYTHON=/path/to/python3."; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)

# Stamps: installed again only when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable .
	@touch $@

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[plot,video,images]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]'
	@touch $@

$(VENV)/.installed-logs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[test-logs]'
	@touch $@
