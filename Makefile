# What one types while working on dflashctl. `make help` tells it in short.

SHELL = /bin/sh
PYTHON ?= python3
BIN = .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE
# A test run must not find the inventory or playbook of whoever runs it.
unexport DFLASHCTL_INVENTORY DFLASHCTL_PLAYBOOK

# Most tests wait more than they compute. Each worker has a lab of its own.
SIDE_BY_SIDE = -n 4 --dist worksteal
LAB_PACKAGES = tmux openssh-client openssh-server lxc debootstrap tini iproute2 sudo

.PHONY: help venv torch-venv packages lint audit format test test-quick test-dflash test-distributed faults hostile soak \
  restarts guard bench bench-rest bench-checkpoints demo demo-dflash docs screenshots schemas \
  constraints clean

help:
	@echo 'make demo         the main job on this machine: deploy a small trainer, watch it, stop it'
	@echo 'make demo-dflash  the same with a DFlash trainer, whose batches are optimised meanwhile'
	@echo 'make test         all other tests, with coverage; as root on Debian or Ubuntu also the lab'
	@echo 'make test-quick   the tests that need no lab'
	@echo 'make test-dflash  the tests of the DFlash trainer, with torch in .venv-torch'
	@echo 'make faults       500 commands cut somewhere: what must hold, holds; about ten minutes'
	@echo 'make hostile      targets that answer nonsense, and connections that break at any packet'
	@echo 'make soak         an hour of accelerated life (DFLASHCTL_SOAK_MINUTES): nothing grows'
	@echo 'make test-distributed  one run over two containers on torchrun'
	@echo 'make restarts     100 restarts in a row, in the lab where there is one'
	@echo 'make guard        what a command costs, counted: round trips, pct, bytes, imports'
	@echo 'make bench        how long one waits, beside other ways to do the same, in the lab'
	@echo 'make bench-rest   the other figures that the documents give, measured anew; minutes'
	@echo 'make lint         ruff, mypy --strict, the order of the floors'
	@echo 'make audit        bandit, and known holes in what is installed: pip-audit'
	@echo 'make format       let ruff rewrite what it can'
	@echo 'make venv         .venv with all that development needs'
	@echo 'make torch-venv   .venv-torch, with what the DFlash trainer needs: torch for the CPU'
	@echo 'make packages     the Debian packages that the tests need'
	@echo 'make docs         docs/errors.md anew, from the program itself'
	@echo 'make screenshots  docs/images/*.svg anew, from the program at work on this machine'
	@echo 'make schemas      schemas/*.json anew, from the models of inventory and playbook'
	@echo 'make constraints  constraints.txt anew, from the newest releases'
	@echo 'make clean        remove what the above made, the lab included'

venv: .venv/ready

.venv/ready: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'dflashctl needs Python 3.11 or newer: make PYTHON=python3.11' >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || sh tests/lab/install-packages.sh --required python3-venv
	test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --require-hashes -r constraints.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q .venv/lib dflashctl
	@touch $@

torch-venv: .venv-torch/ready

# The CPU build: the one for CUDA needs gigabytes beside it.
.venv-torch/ready: constraints-torch.txt
	$(PYTHON) -m venv --clear .venv-torch
	.venv-torch/bin/pip install --quiet --require-hashes --no-deps -r constraints-torch.txt || \
	  { echo 'No CPU build of torch was found for this Python (3.11 is pinned). An index that has' \
	  'it can be named in PIP_EXTRA_INDEX_URL: see pytorch.org/get-started' >&2; exit 1; }
	@touch $@

packages:
	@sh tests/lab/install-packages.sh $(LAB_PACKAGES)

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 dflashctl/agent dflashctl/buckets
	$(BIN)/mypy --scripts-are-modules tests/stand_ins/pct tests/stand_ins/nvidia-smi
	$(BIN)/lint-imports --no-logo

audit: venv
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive dflashctl
	$(BIN)/python -m make.audit $(ARGS)

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: packages venv
	$(BIN)/pytest -m 'not alone and not torch and not faults and not hostile and not soak' $(SIDE_BY_SIDE) --cov --cov-report= $(ARGS)
	$(BIN)/pytest -m alone --cov --cov-append --cov-report=term $(ARGS)

test-quick: venv
	$(BIN)/pytest -m 'not lab and not slow and not faults and not hostile and not soak' $(SIDE_BY_SIDE) $(ARGS)

test-dflash: packages venv torch-venv
	$(BIN)/mypy --python-executable .venv-torch/bin/python --cache-dir .mypy_cache/torch \
	  playbooks/dflash
	OMP_NUM_THREADS=1 .venv-torch/bin/python -m pytest tests/dflash $(ARGS)
	$(BIN)/pytest tests/e2e/test_dflash.py $(ARGS)

test-distributed: packages venv torch-venv
	$(BIN)/pytest tests/e2e/test_distributed.py $(ARGS)

restarts: packages venv
	DFLASHCTL_RESTARTS=100 $(BIN)/pytest -m restarts --timeout 2400 $(ARGS)

guard: packages venv
	$(BIN)/pytest -m guard $(ARGS)

faults: packages venv
	$(BIN)/pytest tests/faults -m faults $(SIDE_BY_SIDE) $(ARGS)

hostile: packages venv
	$(BIN)/pytest -m hostile $(SIDE_BY_SIDE) $(ARGS)

soak: packages venv
	$(BIN)/pytest tests/faults -m soak -s $(ARGS)

bench: packages venv
	$(BIN)/python -m tests.bench.speed $(ARGS)

bench-rest: venv
	for each in tests/bench/*.py; do echo "== $$each"; $(BIN)/python "$$each" || exit 1; done

bench-checkpoints: venv
	$(BIN)/python tests/bench/checkpoints.py $(ARGS)

demo: venv
	@sh tests/lab/install-packages.sh tmux
	@PATH="$(CURDIR)/$(BIN):$$PATH" playbooks/demo/run-demo.sh

demo-dflash: venv torch-venv
	@sh tests/lab/install-packages.sh tmux
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHON="$(CURDIR)/.venv-torch/bin/python" \
	  playbooks/dflash/run-demo.sh

docs: venv
	$(BIN)/python -m make.errors_page

screenshots: venv
	$(BIN)/python -m make.screenshots

schemas: venv
	$(BIN)/python -m make.schemas

constraints:
	$(PYTHON) -m venv --clear build/pip-tools
	build/pip-tools/bin/pip install --quiet pip-tools
	echo '# Every package that development and tests use, with the hashes of its files.' > build/constraints.txt
	build/pip-tools/bin/pip-compile --quiet --upgrade --extra dev --generate-hashes \
	  --strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-trusted-host \
	  --no-emit-find-links --output-file build/pins.txt pyproject.toml
	cat build/constraints.txt build/pins.txt > constraints.txt
	rm -r build

clean:
	rm -rf .venv .venv-torch build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf "$${DFLASHCTL_LAB_CACHE:-$$HOME/.cache/dflashctl-lab}"
