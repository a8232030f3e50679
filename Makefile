# Two commands to see it work: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast e2e check format lock bench-extender bench-planner clean

help: ## Show what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 20

$(STAMP): locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Muster needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip sync --require-hashes --link-mode=hardlink locks/dev.txt
	VIRTUAL_ENV=$(VENV) $(BIN)/python -m pip --version >/dev/null 2>&1 || true
	$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps -e .
	@touch $@

install: $(STAMP) ## Install everything into .venv, from the lock
