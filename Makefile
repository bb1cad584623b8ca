# The words of daily work. Each does its own set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# By package name: a second engine, the allocator that the bundled one is given, the sources of a locale to run one in, what
# makes a certificate for one, clients of the HTTP API that are not ours, and a browser with letters to show. Debian's nodejs
# comes without npm; others bring it along, and conflict with the package of that name.
TEST_PACKAGES := redis-server libjemalloc2 locales openssl curl nodejs $(if $(shell command -v npm 2>/dev/null),,npm) chromium fonts-dejavu-core
# Code generators for the OpenAPI documents, from npm.
GENERATORS := .generators
GENERATOR_PACKAGES := tests/generators/package.json tests/generators/package-lock.json
MACHINES := $(wildcard tests/engine/test_*machine.py)

.DEFAULT_GOAL := help
.PHONY: help setup test-packages serve test test-deep check bench bench-quick bench-setup faults faults-quick fuzz audit mutants \
  docs screenshots clean

help: ## Show these words.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s  %s\n", $$1, $$2}'

setup: $(STAMP) ## Virtual environment and packages.

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: install it, or name it with PYTHON=…"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $$($(PYTHON) --version) is here. Name another with PYTHON=…"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

test-packages:
	@{ command -v redis-server && /sbin/ldconfig -p | grep -q libjemalloc.so.2 && command -v openssl && command -v curl && command -v node && command -v npm && command -v chromium && command -v localedef && test -e /usr/share/i18n/locales/en_US && test -e /usr/share/fonts/truetype/dejavu; } >/dev/null \
	  || $(MAKE) --no-print-directory install-test-packages
	@$(MAKE) --no-print-directory $(GENERATORS)/.installed

$(GENERATORS)/.installed: $(GENERATOR_PACKAGES)
	@echo "Installing code generators for the tests…"
	@mkdir -p $(GENERATORS) && cp $(GENERATOR_PACKAGES) $(GENERATORS)
	@cd $(GENERATORS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null \
	  || { echo "npm could not install what tests/generators/package.json names; does it reach a registry?"; exit 2; }
	@touch $@

.PHONY: install-test-packages
install-test-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing $(TEST_PACKAGES) for the tests…"; \
	  { apt-get install -y -q $(TEST_PACKAGES) || { apt-get update -q && apt-get install -y -q $(TEST_PACKAGES); }; } >/dev/null; \
	else \
	  echo "The tests need these packages: $(TEST_PACKAGES) (Redis 7.0 or newer). Install them with your package manager."; exit 2; \
	fi

serve: setup ## Run the server with its embedded engine.
	@$(BIN)/windlass serve

test: setup test-packages check ## Everything that must pass.
	$(BIN)/pytest -n 2 --dist loadgroup

test-deep: setup test-packages check ## The same, longer: all on both engines, deep property runs, all mutants.
	WINDLASS_DEEP=1 $(BIN)/pytest -n 2 --dist loadgroup
	WINDLASS_DEEP=1 WINDLASS_TEST_ENGINE=redis $(BIN)/pytest -n 2 $(MACHINES)
	$(BIN)/python tools/mutants.py

check: setup ## Style, types, import rules, Lua headers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_lua.py

# The engine's usual allocator, which the bundled one lacks; without it the report says so.
.PHONY: bench-packages
bench-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! /sbin/ldconfig -p | grep -q libjemalloc.so.2; then \
	  echo "Installing libjemalloc2 for the engine…"; \
	  { apt-get install -y -q libjemalloc2 || { apt-get update -q && apt-get install -y -q libjemalloc2; }; } >/dev/null || true; \
	fi

bench: setup bench-packages ## Measure everything beside the field and the bare engine; WRITE=1 writes docs/performance.md, QUICK=1 is shorter.
	$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(WRITE),--write)

bench-quick: setup bench-packages ## The key ratios beside their floors, in two minutes; fails when a floor is missed.
	$(BIN)/python -m bench.quick

bench-setup: setup bench-packages ## Environments of the peers that make bench compares with.
	$(BIN)/python -m bench.peers.environment

fuzz: setup ## Minutes of inputs that are almost right; SECONDS=…, SEED=… repeats a run.
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(or $(SECONDS),180) $(if $(SEED),--seed $(SEED))

audit: ## Known vulnerabilities of what we depend on; needs the network.
	@$(PYTHON) tools/audit.py

faults: setup fault-packages ## Kill, stop, cut and fill up what runs, in every topology; nothing may be lost. Some minutes.
	$(BIN)/python -m faults

# Faults that the kernel makes want a package and root; without them the run says so and goes on.
.PHONY: fault-packages
fault-packages:
	@if [ "$$(id -u)" = 0 ] && ! command -v tc >/dev/null && command -v apt-get >/dev/null; then \
	  echo "Installing iproute2 for pulled cables…"; \
	  { apt-get install -y -q iproute2 || { apt-get update -q && apt-get install -y -q iproute2; }; } >/dev/null || true; \
	fi

faults-quick: setup ## A minute of it, on one engine.
	$(BIN)/python -m faults --quick

mutants: setup ## Plant known bugs one by one; each must be found.
	$(BIN)/python tools/mutants.py

docs: setup ## Write the documents that are made from the code.
	$(BIN)/python tools/write_lifecycle.py

screenshots: setup test-packages ## Take the pictures in docs/images anew.
	$(BIN)/python tools/screenshots.py

clean: ## Remove what set-up made.
	rm -rf $(VENV) $(GENERATORS) .bench .audit .mypy_cache .ruff_cache .hypothesis .import_linter_cache
