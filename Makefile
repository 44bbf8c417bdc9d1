# make demo: train the tutorial's models on embedded data.  make test: run the quick tests, and some slow.
# Both make the environment first, in .venv, from the package index alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Else Python, started beside a clone named tfbdl, takes that folder for the package.
EDITABLE := --config-settings editable_mode=compat --editable

.PHONY: help demo check test test-slow coverage durations lint types wheel docs notebooks results soak compatibility bench gpu clean

help:
	@echo "make demo     train VAE, MC dropout, Concrete dropout, Bayes dense on embedded digits"
	@echo "make check    before a commit: style, types, the tests that a change needs (under 2 minutes)"
	@echo "make test     run the quick tests, and one slow test in sixty, others with each commit"
	@echo "make test-slow  run all slow tests, tests/slow.txt, and those of scripts (over an hour)"
	@echo "make coverage all tests, and which lines of the package they run: 85 % at least"
	@echo "make lint     check style;  make types: check types;  make wheel: build and try the wheel"
	@echo "make docs     build the documentation into site/;  make notebooks: run the notebooks that have changed"
	@echo "make results  train the tutorials on MNIST (TFBDL_DATA names its folder); days on 2 cores, a step at a time"
	@echo "make soak     kills, full disks, damaged files, long runs: a report in results/soak"
	@echo "make compatibility  models of others, asked for everything: a table in docs/compatibility.md"
	@echo "make bench    this package and its peers at the same work, and how costs grow: into runs/"
	@echo "make gpu      the lectures' networks on a GPU: where they lie, what they give, times beside the CPU"
	@echo "make clean    remove the environment and what runs have written"

$(INSTALLED): pyproject.toml constraints.txt
	@echo "==> making the environment $(VENV) and installing (downloads some 600 MB, takes 3 GB; a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) $(EDITABLE) '.[dev]'
	@touch $@

demo: $(INSTALLED)
	@echo "==> training on scikit-learn's embedded digits (3 to 10 minutes on 2 cores)"
	@$(BIN)/python -m tutorials.demo

check: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types
	@echo "==> running the tests that the change needs"
	@$(BIN)/python -m pytest --slow none $$($(BIN)/python tests/selection.py)

define run_tests
	@$(BIN)/python -m pytest $(PYTEST_FLAGS) --slow $(1) --junitxml=build/tests/$(1).xml $(2)
endef

test: $(INSTALLED)
	@echo "==> running the quick tests, and one in sixty of tests/slow.txt (10 to 20 minutes on 2 cores)"
	$(call run_tests,share,tests --ignore=tests/tutorials)

test-slow: $(INSTALLED)
	@echo "==> running slow tests, tutorials, notebooks, exercises (over an hour and 12 GB on 2 cores)"
	$(call run_tests,only,tests --ignore=tests/tutorials)
	$(call run_tests,all,tests/tutorials)

# Each call of pytest adds its lines to those of the calls before.
coverage: $(INSTALLED)
	@echo "==> running all tests, and noting which lines they run (over an hour on 2 cores)"
	@$(BIN)/coverage erase
	@$(MAKE) --no-print-directory test test-slow PYTEST_FLAGS="--cov --cov-append --cov-report="
	@$(BIN)/coverage report --skip-covered

durations: $(INSTALLED)
	@echo "==> noting how long tests took in 'make test test-slow'"
	@$(BIN)/python tests/durations.py build/tests/*.xml

lint: $(INSTALLED)
	@echo "==> style"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(INSTALLED)
	@echo "==> types"
	@$(BIN)/mypy

wheel: $(INSTALLED)
	@echo "==> building the wheel, installing it in a clean environment, importing it there"
	@rm -rf build dist .venv-wheel
	@$(BIN)/python -m build --wheel --outdir dist . > dist.log || (cat dist.log; exit 1)
	@rm dist.log
	@$(PYTHON) -m venv .venv-wheel
	@.venv-wheel/bin/python $(PIP_INSTALL) dist/*.whl
	@cd .venv-wheel && TFBDL_QUIET=1 bin/python -c "import tfbdl; print('imported tfbdl', tfbdl.__version__)" \
		&& bin/tfbdl --help > /dev/null
	@rm -rf .venv-wheel

$(INSTALLED)-%: $(INSTALLED)
	@echo "==> installing what 'make $*' needs"
	@$(BIN)/python $(PIP_INSTALL) $(EDITABLE) '.[$*]'
	@touch $@

docs: $(INSTALLED)-docs
	@echo "==> building the documentation into site/"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

notebooks: $(INSTALLED)-docs
	@echo "==> running the notebooks of the course whose code has changed"
	@$(BIN)/python -m tutorials.notebooks

results: $(INSTALLED)
	@$(BIN)/python -m tutorials.make_results

compatibility: $(INSTALLED)-compatibility
	@echo "==> asking models of others for everything (hours on 2 cores; goes on where it was stopped)"
	@cd benchmarks && PYTHONPATH=$(CURDIR) ../$(BIN)/python -m compatibility $(COMPATIBILITY)

soak: $(INSTALLED)-soak
	@echo "==> breaking runs in all ways (some hours on 2 cores; goes on where it was stopped), into results/soak"
	@cd benchmarks && PYTHONPATH=$(CURDIR) ../$(BIN)/python -m soak $(SOAK)

bench: $(INSTALLED)
	@echo "==> timing beside peers, each in an environment of its own (GBs; 3 hours on 2 cores), into runs/"
	@$(BIN)/python benchmarks/bench.py
	@$(BIN)/python benchmarks/loop.py
	@$(BIN)/python benchmarks/predict.py
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python benchmarks/effective_samples.py
	@$(BIN)/python benchmarks/growth.py

gpu: $(INSTALLED)
	@echo "==> trying the GPU beside the CPU (some 30 minutes), into runs/gpu/report.md"
	@$(BIN)/python benchmarks/gpu.py

clean:
	rm -rf $(VENV) .venv-wheel .venv-bench build dist site runs *.egg-info
