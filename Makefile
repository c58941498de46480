# make demo, make test: all that a newcomer needs. Each builds its own virtual environment from Python 3.11 or later.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The tests on a cluster are run where there is Java, and say so where there is none.
WITHOUT_SPARK := $(if $(shell command -v java),,/the tests on a cluster/,$$d)

.PHONY: demo test long bench versions faults fuzz papers peers prove docs man clean

demo: $(INSTALLED)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh sample_data/demo.sh

test: $(READY)
	$(BIN)/ruff check ppdm_cli tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

long: $(READY)
	$(if $(WITHOUT_SPARK),,$(PIP) install grpcio==1.85.1 grpcio-status==1.85.1 zstandard==0.25.0)
	$(BIN)/pytest -m long

faults: $(READY)
	$(BIN)/python -m tests.experiments.faults

bench: $(READY)
	$(BIN)/python -m tests.experiments.bench

versions: $(READY)
	$(BIN)/python -m tests.experiments.versions

fuzz: $(READY)
	$(BIN)/python -m tests.experiments.costs
	$(BIN)/python -m tests.experiments.fuzz 10000

papers: long
	$(BIN)/python -m tests.experiments.fig2
	$(BIN)/python -m tests.experiments.by_class
	$(BIN)/python -m tests.experiments.accuracy
	$(BIN)/python -m tests.experiments.fig4
	$(BIN)/python -m tests.experiments.bins
	$(BIN)/python -m tests.experiments.joint
	$(BIN)/python -m tests.experiments.attacks
	$(BIN)/python -m tests.experiments.intervals
	$(BIN)/python -m tests.experiments.expected_accuracy
	$(BIN)/python -m tests.experiments.bayes
	$(BIN)/python -m tests.experiments.records $(FOLDER)
	$(if $(FOLDER),$(BIN)/python -m tests.experiments.links $(FOLDER))
	$(if $(FOLDER),$(BIN)/python -m tests.experiments.record_intervals $(FOLDER))
	$(BIN)/python -m tests.experiments.no_signal
	$(BIN)/python -m tests.experiments.noise
	$(BIN)/python -m tests.experiments.answers
	$(BIN)/python -m tests.experiments.testing
	$(BIN)/python -m tests.experiments.regression
	$(BIN)/python -m tests.experiments.black_box

peers: $(READY)
	sed '/==/!d; s/ .*//' constraints.txt > $(VENV)/versions.txt
	$(PIP) install -c $(VENV)/versions.txt fastparquet==2026.9.0 multi-freq-ldpy==0.2.5 pgmpy==1.1.2 pyagrum==3.3.1
	$(PYTHON) -m venv build/anonymeter
	build/anonymeter/bin/pip install --quiet --disable-pip-version-check anonymeter==1.1.0
	$(BIN)/pytest -n 0 tests/networks tests/tables/test_pages.py tests/attacks/test_risks.py
	$(BIN)/python -m tests.experiments.peers $(FOLDER)

prove: $(READY)
	$(PIP) install z3-solver==5.4.0.0
	$(BIN)/pytest -n 0 tests/channels/test_lemmas.py tests/channels/test_formulas.py tests/releases/test_proof.py

docs: $(READY)
	$(BIN)/python -m tests.reference
	$(BIN)/python -m tests.docs
	$(BIN)/python -m tests.readme
	$(BIN)/python -m tests.tour

man: $(READY)
	$(BIN)/python -m tests.man build/man

# Serve it with `python3 -m http.server -d build/site`.
site: .venv-site/ready
	.venv-site/bin/python docs/site/build.py build/site

clean:
	rm -rf $(VENV) .venv-site build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# ppdm and what it needs: enough for the demo
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed '/^# For the tests/,$$d' constraints.txt > $(VENV)/requirements.txt
	$(PIP) install --require-hashes -r $(VENV)/requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# What the tests need too
$(READY): $(INSTALLED)
	sed '$(WITHOUT_SPARK)' constraints.txt > $(VENV)/requirements.txt
	$(PIP) install --require-hashes -r $(VENV)/requirements.txt
	$(PIP) check
	@touch $@

# The site's tools, apart from the others
.venv-site/ready: docs/site/requirements.txt
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r docs/site/requirements.txt
	@touch $@
