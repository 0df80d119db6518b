# All commands use .venv; nothing outside this folder is changed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup dev demo test test-long check format docs site dist bench bench-peers clean
TEXT ?= data/multi30k
MODEL ?= runs/multi30k-en-de

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 18

setup: .venv/installed  ## install the regard command into .venv
dev: .venv/installed-dev

demo: setup  ## train a small English-French Transformer in a few minutes
	$(BIN)/regard demo

test: check  ## format, lint, types and tests, site and package included: what CI runs
	$(BIN)/pytest -n 2 --dist worksteal

test-long: dev  ## slow tests
	$(BIN)/pytest -m long

check: dev  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: dev  ## format the code and apply lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: dev  ## write the generated pages of the documentation, then build the site
	PYTHONPATH=tests $(BIN)/python tests/docs/generated.py
	$(MAKE) site

site: dev  ## build the documentation into build/site; open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: dev  ## build sdist and wheel into dist/ and check their metadata
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*

bench: dev  ## compare the speed of regard and its peers; TEXT=FOLDER of Multi30k, MODEL=FOLDER for decoding
	$(BIN)/python benchmarks/training.py --text $(TEXT)
	$(BIN)/python benchmarks/training.py --write
	$(BIN)/python benchmarks/decoding.py --text $(TEXT) --model $(MODEL)
	$(BIN)/python benchmarks/decoding.py --write

bench-peers: dev  ## install the peers that are on PyPI, each into its own environment under build/peers
	$(BIN)/python benchmarks/install_peers.py

clean:  ## remove files that make created; data/ and runs/ are kept
	rm -rf .venv build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "regard requires Python 3.11 or newer; choose one with: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: pyproject.toml constraints.txt | .venv/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	# Only its client of LibreTranslate is tested, which needs none of its dependencies.
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps argostranslate
	@touch $@
