# make demo, make test: all that a newcomer needs. Each builds its own virtual environment from Python 3.11 or later.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The tests on a cluster are run where there is Java, and say so where there is none.
WITHOUT_SPARK := $(if $(shell command -v java),,/the tests on a cluster/,$$d)

.PHONY: demo test long bench faults fuzz papers peers docs clean

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh sample_data/demo.sh

test: $(READY)
	$(BIN)/ruff check ppdm_cli tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

long: $(READY)
	$(BIN)/pytest -m long

faults: $(READY)
	$(BIN)/python -m tests.faults

bench: $(READY)
	$(BIN)/python -m tests.bench

fuzz: $(READY)
	$(BIN)/python -m tests.costs
	$(BIN)/python -m tests.fuzz 10000

papers: long
	$(BIN)/python -m tests.papers.fig2
	$(BIN)/python -m tests.papers.one_value
	$(BIN)/python -m tests.papers.by_class
	$(BIN)/python -m tests.papers.accuracy
	$(BIN)/python -m tests.papers.fig4
	$(BIN)/python -m tests.papers.bins
	$(BIN)/python -m tests.papers.joint
	$(BIN)/python -m tests.papers.attacks
	$(BIN)/python -m tests.papers.intervals
	$(BIN)/python -m tests.papers.told
	$(BIN)/python -m tests.papers.bayes
	$(BIN)/python -m tests.papers.records $(FOLDER)
	$(if $(FOLDER),$(BIN)/python -m tests.papers.record_intervals $(FOLDER))
	$(BIN)/python -m tests.papers.no_signal
	$(BIN)/python -m tests.papers.noise
	$(BIN)/python -m tests.papers.answers
	$(BIN)/python -m tests.papers.testing
	$(BIN)/python -m tests.papers.efficiency
	$(BIN)/python -m tests.papers.regression

peers: $(READY)
	sed '/==/!d; s/ .*//' constraints.txt > $(VENV)/versions.txt
	$(PIP) install -c $(VENV)/versions.txt multi-freq-ldpy==0.2.5
	$(BIN)/python -m tests.papers.peers $(FOLDER)

docs: $(READY)
	$(BIN)/python -m tests.docs
	$(BIN)/python -m tests.tour

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed '$(WITHOUT_SPARK)' constraints.txt > $(VENV)/requirements.txt
	$(PIP) install --require-hashes -r $(VENV)/requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	$(PIP) check
	@touch $@
