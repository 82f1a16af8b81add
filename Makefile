# The verbs of the workshop; `make help` lists them. Everything lives in .venv, built from pyproject.toml and constraints.txt.

# No implicit rules: a file named Makefile, LICENSE or docs is never something to compile.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 >/dev/null 2>&1 && python3.11 -c '' >/dev/null 2>&1 && echo python3.11 || echo python3)
# Those that the wheel is tried with.
PYTHONS ?= $(shell for minor in 11 12 13; do if python3.$$minor -c '' 2> /dev/null; then echo python3.$$minor; fi; done)
PYTEST_ARGS ?=
BENCH_ARGS ?=
EVIDENCE_ARGS ?=
ACCURACY_ARGS ?=
FIGURES_ARGS ?=
GENERALISE_ARGS ?=
ZOO_ARGS ?=
FUZZ_ARGS ?=
KILL_ARGS ?=

BIN := .venv/bin
STAMP := .venv/.installed
DOCS_STAMP := .venv/.installed-docs
WARM := .venv/.warm
FIGAROH_STAMP := .venv-figaroh/.installed
ZOO_STAMP := .venv-zoo/.installed
FUZZ_STAMP := .venv/.installed-fuzz
KERNELS := $(wildcard src/steelyard/_kernels/*.py src/steelyard/_kernels/loops/*.py)
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

.PHONY: help install demo quick test check bench evidence accuracy figures generalise zoo twelve fuzz kill lock docs docs-check build clean

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(WARM)  ## make .venv, install Steelyard in it and compile its kernels once

demo: install  ## the one-minute tour: a simulated robot, identified, with a report
	$(BIN)/steelyard demo

# A file's tests share fits and simulations, so each file is given to one process.
quick: install  ## the tests that are not slow, under two minutes
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow and not evidence" $(PYTEST_ARGS)

test: install  ## the whole suite on two processes; PYTEST_ARGS="-k wls" to narrow it
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(PYTEST_ARGS)

# No cache for the contracts: it is kept by file, and misses that a new module changes what an old import means.
check: $(STAMP)  ## lint, format, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

bench: install $(FIGAROH_STAMP)  ## time and memory, side by side with FIGAROH; BENCH_ARGS is passed on
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# With arguments (a part, --quick) only the table; without, the outlier, fault and gigabyte evidence too (half an hour).
# Every program runs, though one of them fails: at the end the failed ones are named, their broken claims above.
evidence: install  ## redo the numbers the documentation quotes; EVIDENCE_ARGS is passed on
ifneq ($(strip $(EVIDENCE_ARGS)),)
	$(BIN)/python evidence/run.py $(EVIDENCE_ARGS)
else
	@failed=""; for part in run outliers gains faults big_files big_bag; do \
	  $(BIN)/python evidence/$$part.py || failed="$$failed evidence/$$part.py"; \
	done; \
	$(BIN)/python -m pytest -q -n 2 -m evidence || failed="$$failed pytest-m-evidence"; \
	if [ -n "$$failed" ]; then echo "Broken claims or errors, named above, in:$$failed" >&2; exit 1; fi
endif

accuracy: install  ## errors on the real recordings: terms, present and former defaults; ACCURACY_ARGS is passed on
	$(BIN)/python evidence/accuracy.py $(ACCURACY_ARGS)

# After a change of numbers; the pages' marked places are compared with docs/figures.json by a test.
figures: install  ## measure the figures that README and docs quote, and fill them in; FIGURES_ARGS is passed on
	$(BIN)/python evidence/quoted.py $(FIGURES_ARGS)

generalise: install  ## defaults on robots that no setting was tuned for; GENERALISE_ARGS is passed on
	$(BIN)/python evidence/generalise.py $(GENERALISE_ARGS)

zoo: install $(ZOO_STAMP)  ## read two public collections of robot files; ZOO_ARGS="--fill" writes the table of the docs
	$(BIN)/python evidence/zoo.py $(ZOO_ARGS)

fuzz: install $(FUZZ_STAMP)  ## an hour of damaged input for every reader; FUZZ_ARGS="--seconds 60" for less
	PYTHONPATH=.venv/fuzz $(BIN)/python evidence/fuzz.py $(FUZZ_ARGS)

kill: install  ## interrupt every write of every command, and kill commands at random; KILL_ARGS is passed on
	$(BIN)/python evidence/kill.py $(KILL_ARGS)

lock: $(STAMP)  ## write requirements.lock (hashes of the development set) and sbom.cdx.json again
	$(BIN)/python .ci/lock.py

twelve: install $(ZOO_STAMP)  ## twelve robots of these collections, from file and logs to a scored result
	$(BIN)/python evidence/zoo_twelve.py $(ZOO_ARGS)

docs: $(DOCS_STAMP)  ## the documentation as HTML, warnings are errors
	$(BIN)/python -m steelyard.findings > docs/findings.md
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The browser is Debian's `chromium`; where there is none, that check is skipped and says so.
docs-check: $(DOCS_STAMP)  ## links, the API reference, and formulas drawn in a browser without a network
	$(BIN)/python -m pytest -q tests/test_built_docs.py tests/test_docs.py -k "built_docs or links or page or reference"

build: $(STAMP)  ## wheel and source archive, then the wheel alone with every Python found, at last with newest versions
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	@for python in $(PYTHONS); do .ci/wheel $$python -c constraints.txt; done
	@.ci/wheel $(lastword $(PYTHONS)) --upgrade --upgrade-strategy eager
	@echo "The wheel stands alone."

clean:  ## remove what the other verbs made, environments included
	rm -rf .venv .venv-figaroh .venv-zoo dist build docs/_build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples evidence -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
	  echo "Steelyard needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Name another one: make install PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv

$(STAMP): pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing Steelyard and its tools in .venv (once; a minute or two)"
	$(PIP) -c constraints.txt -e ".[test,dev,mjcf,bags,hdf5]"
	@touch $@

# Atheris guides mutations by coverage where there is a wheel of it; without it, they are blind. It is not part of the
# environment, so that no test can come to need it.
$(FUZZ_STAMP): | $(STAMP)
	-$(PIP) --no-deps --target .venv/fuzz --only-binary :all: atheris
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(PIP) -c constraints.txt -e ".[docs]"
	@touch $@

# Numba's cache lies beside the kernels and is keyed by the file of a function alone: one that takes a type of another
# file cannot be read once that type has another name. So it is dropped when any kernel changes.
$(WARM): $(STAMP) $(KERNELS)
	find src/steelyard/_kernels -name '*.nb[ci]' -delete
	$(BIN)/steelyard warm
	@touch $@

$(FIGAROH_STAMP): benchmarks/figaroh-requirements.txt benchmarks/figaroh-constraints.txt | .venv/bin/python
	@echo "Installing FIGAROH in .venv-figaroh (once)"
	$(BIN)/python -m venv .venv-figaroh
	PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-figaroh/bin/python -m pip install --quiet -r benchmarks/figaroh-requirements.txt
	@touch $@

$(ZOO_STAMP): | .venv/bin/python
	@echo "Installing example-robot-data in .venv-zoo (once; 131 MB)"
	$(BIN)/python -m venv .venv-zoo
	PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-zoo/bin/python -m pip install --quiet --no-deps example-robot-data
	@touch $@
