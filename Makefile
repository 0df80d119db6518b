# Everything happens in .venv; nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup dev demo test test-long check format docs bench bench-peers clean
TEXT ?= data/multi30k
MODEL ?= runs/multi30k-en-de

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 18

setup: .venv/installed  ## .venv with the regard command in it
dev: .venv/installed-dev

demo: setup  ## train a small English-French Transformer here, in minutes, and look at it
	$(BIN)/regard demo

test: check  ## format, lint, types and tests: what CI runs
	$(BIN)/pytest -n 2

test-long: dev  ## the tests that take minutes
	$(BIN)/pytest -m long

check: dev  ## format, lint and types alone
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: dev  ## rewrite the code as the checks want it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: dev  ## rewrite the parts of the documentation that are made from the code
	PYTHONPATH=tests $(BIN)/python tests/docs/generated.py

bench: dev  ## regard beside its rivals on this machine; TEXT=FOLDER of Multi30k, MODEL=FOLDER for decoding
	$(BIN)/python benchmarks/training.py --text $(TEXT)
	$(BIN)/python benchmarks/training.py --write
	$(BIN)/python benchmarks/decoding.py --text $(TEXT) --model $(MODEL)
	$(BIN)/python benchmarks/decoding.py --write

bench-peers: dev  ## the rivals that PyPI has, each in an environment of its own under build/peers
	$(BIN)/python benchmarks/install_peers.py

clean:  ## remove what make made; your data/ and runs/ stay
	rm -rf .venv build src/*.egg-info .mypy_cache .pytest_cache .ruff_cache

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "regard needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: pyproject.toml constraints.txt | .venv/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
