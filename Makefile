# make demo: train the tutorial's models on embedded data.  make test: run all tests.
# Both make the environment first, in .venv, from the package index alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
INSTALLED_DOCS := $(VENV)/installed-docs

.PHONY: help demo test lint types wheel docs notebooks results clean

help:
	@echo "make demo     train VAE, MC dropout, Concrete dropout, Bayes dense on embedded digits"
	@echo "make test     run all tests"
	@echo "make lint     check style;  make types: check types;  make wheel: build and try the wheel"
	@echo "make docs     build the documentation into site/;  make notebooks: run the tutorials as notebooks"
	@echo "make results  train the tutorials on MNIST (TFBDL_DATA names its folder); an hour or two"
	@echo "make clean    remove the environment and what runs have written"

$(INSTALLED): pyproject.toml constraints.txt
	@echo "==> making the environment $(VENV) and installing (some 600 MB; a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(INSTALLED)
	@echo "==> training on scikit-learn's embedded digits (under 3 minutes on 2 cores)"
	@$(BIN)/python tutorials/demo.py

test: $(INSTALLED)
	@echo "==> running all tests (under 8 minutes on 2 cores)"
	@$(BIN)/python -m pytest tests/*/
	@$(BIN)/python -m pytest tests/*.py

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
	@.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt dist/*.whl
	@cd .venv-wheel && TFBDL_QUIET=1 bin/python -c "import tfbdl; print('imported tfbdl', tfbdl.__version__)" \
		&& bin/tfbdl --help > /dev/null
	@rm -rf .venv-wheel

$(INSTALLED_DOCS): $(INSTALLED)
	@echo "==> installing what the documentation is built with"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[docs]'
	@touch $@

docs: $(INSTALLED_DOCS)
	@echo "==> building the documentation into site/"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

notebooks: $(INSTALLED_DOCS)
	@echo "==> running the tutorials as notebooks on embedded digits, into docs/notebooks"
	@$(BIN)/python tutorials/notebooks.py

results: $(INSTALLED)
	@$(BIN)/python tutorials/results.py

clean:
	rm -rf $(VENV) .venv-wheel build dist site docs/notebooks runs *.egg-info
