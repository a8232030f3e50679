# Two commands to see it work: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast cases deep page-check page-deps e2e test-versions check format lock manifests manifests-check bench-extender bench-planner bench-optimal bench-roles bench-engine bench-decode bench-cluster bench-train bench-fabric bench-trace docs docs-check clean

help: ## Show what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 20

$(STAMP): locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Muster needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip sync --require-hashes --compile-bytecode locks/dev.txt
	$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps -e .
	@touch $@
	@echo "Installed. Next: make demo; or . $(BIN)/activate, for muster and muster-train"

install: $(STAMP) ## Install everything into .venv, from the lock (6 GB, from the network)

demo: $(STAMP) ## See it work: an embedded cluster, a day of real arrivals, one training run
	@$(BIN)/muster demo

test: $(STAMP) ## Everything, unit to end-to-end on a real control plane
	$(MAKE) --no-print-directory check
	$(BIN)/python -m tests.e2e.controlplane.build
	$(BIN)/pytest --durations=10

test-fast: $(STAMP) ## Unit tests only: no control plane, and none of the trainer's own
	$(BIN)/pytest -q -x tests/unit tests/engine tests/cases

cases: $(STAMP) ## The replay cases: faults that schedulers are known for
	@$(BIN)/python -m tests.cases

deep: $(STAMP) ## Ten thousand random event sequences with all invariants (an hour)
	MUSTER_PROPERTY_RUNS=10000 $(BIN)/pytest -q --timeout=0 tests/engine

page-check: $(STAMP) ## The page in headless Chromium, and what 5,000 nodes cost it
	$(BIN)/pytest -q tests/unit/page
	@$(BIN)/python tests/unit/page/bars.py

page-deps: ## Chromium for the tests of the page (Debian; as root)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }

e2e: $(STAMP) ## Only the tests on the real control plane
	$(BIN)/python -m tests.e2e.controlplane.build
	$(BIN)/pytest -m e2e

test-versions: $(STAMP) ## The core of e2e on Kubernetes 1.34 to 1.37 (an hour or two the first time, as each is built once)
	$(BIN)/python -m tests.e2e.minors

check: $(STAMP) ## Format, lint, types, layers (no tests)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v duplicates >/dev/null; then duplicates --repo .; fi

format: $(STAMP) ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-extender: $(STAMP) ## Answer times of the HTTP service at 5,000 nodes, as JSON
	@$(BIN)/python -m benchmarks.extender

bench-planner: $(STAMP) ## Time to plan a gang, by cluster size, as JSON
	@$(BIN)/python -m benchmarks.planner

bench-optimal: $(STAMP) ## 300 gangs against HiGHS and against a greedy rule, as JSON
	@$(BIN)/python -m benchmarks.optimal

bench-roles: $(STAMP) ## Unlike members: what is found, against all ways there are, as JSON
	@$(BIN)/python -m benchmarks.roles

bench-engine: $(STAMP) ## What events cost while 1,000 gangs wait, as JSON
	@$(BIN)/python -m benchmarks.engine

bench-decode: $(STAMP) ## What it costs to read the events of a gang's start, as JSON
	@$(BIN)/python -m benchmarks.decode

bench-cluster: $(STAMP) ## Starts of gangs on a real control plane, beside the stock scheduler
	@$(BIN)/python -m benchmarks.cluster

bench-train: $(STAMP) ## World-size invariance, elastic restarts, overhead of the launcher
	@$(BIN)/python -m benchmarks.train

bench-fabric: $(STAMP) ## All-reduce on an emulated fabric: placed and ranked, or not (needs root)
	@$(BIN)/python -m benchmarks.fabric

bench-trace: $(STAMP) ## Policies on traces of real clusters; needs them beside the checkout for most
	@$(BIN)/python -m benchmarks.trace

manifests: $(STAMP) ## Render deploy/muster.yaml from deploy/base
	$(BIN)/python -m deploy.render

docs: $(STAMP) ## Write docs/reference from the code, and the site into out/site
	$(BIN)/python -m docs.generate
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

docs-check: $(STAMP) ## Docs name only what is there, the reference is up to date, the site builds
	$(BIN)/python -m docs.generate --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/pytest -q tests/unit/docs

MANIFEST_TESTS := deploy separate packages kind examples rights monitoring scripts
manifests-check: $(STAMP) ## Manifests, chart, examples, rights and alerts, on a real API server
	$(BIN)/python -m tests.e2e.controlplane.build
	$(BIN)/pytest -q tests/unit/deploy $(MANIFEST_TESTS:%=tests/e2e/test_%.py)

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate --generate-hashes --custom-compile-command "make lock"
lock: $(STAMP) ## Pin all dependencies anew (newest versions that pyproject.toml allows)
	$(LOCK) --upgrade --extra scheduler --extra trainer --extra otel --extra agent --extra docs --extra dev pyproject.toml -o locks/dev.txt
	$(LOCK) -c locks/dev.txt --extra scheduler pyproject.toml -o locks/scheduler.txt
	$(LOCK) -c locks/dev.txt --extra scheduler --extra otel pyproject.toml -o locks/otel.txt
	$(LOCK) -c locks/dev.txt --extra scheduler --extra agent pyproject.toml -o locks/agent.txt
	$(LOCK) -c locks/dev.txt --extra trainer pyproject.toml -o locks/trainer.txt

clean: ## Remove what the build and the tests left
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/results
