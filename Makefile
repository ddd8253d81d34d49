# Needs Python >= 3.11 and make. Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
# More than processors: tests wait for the disk and for processes that they start.
WORKERS ?= 3
EXTRAS := dev,docs,all,openai-agents,langgraph,adk,pydantic-ai,llama-index

BIN := .venv/bin
SOURCES := src tests scripts $(wildcard benchmarks) $(wildcard examples)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# Debian ships Python without what makes an environment.
VENV_PACKAGE = [ -e /etc/debian_version ] && [ "$$(id -u)" = 0 ] && echo 'installing python3-venv' \
    && { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; } >/dev/null 2>&1
STAMP := .venv/installed-$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help setup demo test long crash check format docs bench clean strace chromium inspector

help:
	@echo 'make demo    import a transcript, list, search, show its context'
	@echo 'make test    all tests'
	@echo 'make long    the same with the tests that take long'
	@echo 'make crash   1,000 kills instead of the 200 of make test'
	@echo 'make check   lint, format, types, import direction'
	@echo 'make format  let ruff mend what it can'
	@echo 'make docs    the site, in build/site'
	@echo 'make bench   speed and size, beside peers'
	@echo 'make clean   remove what the above made'

setup: $(STAMP)

# The environment is made anew only when it is missing or of another Python.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Stratalog needs Python >= 3.11" if sys.version_info < (3, 11) else 0)'
	@if ! $(BIN)/python -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' 2>/dev/null; then \
	    echo 'making .venv with Python $(VERSION)'; \
	    rm -rf .venv; \
	    $(PYTHON) -m venv .venv || { rm -rf .venv; $(VENV_PACKAGE) && $(PYTHON) -m venv .venv; } \
	        || { rm -rf .venv; exit 1; }; \
	fi
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/stratalog demo

test: $(STAMP) strace chromium
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations 5

long: $(STAMP) strace chromium inspector
	STRATALOG_LONG=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations 5

crash: $(STAMP) strace
	STRATALOG_CRASH_KILLS=1000 $(BIN)/python -m pytest -q tests/crash

check: $(STAMP)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/python scripts/check_imports.py

format: $(STAMP)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# Tests that make single system calls fail need strace, those of the console a browser; without them they are
# skipped, and say so.
strace:
	@$(call installed,strace,strace,fault injection is skipped)

chromium:
	@$(call installed,chromium,chromium fonts-noto-cjk,the console is not tested in a browser)

# The MCP inspector is another client than the SDK's; its tests are skipped without it.
INSPECTOR := .venv/inspector
inspector: $(STAMP)
	@if [ -x $(INSPECTOR)/node_modules/.bin/mcp-inspector-cli ]; then :; \
	elif command -v npm >/dev/null 2>&1; then \
	    echo 'installing the MCP inspector'; \
	    npm install --silent --no-audit --no-fund --prefix $(INSPECTOR) @modelcontextprotocol/inspector-cli@0.16.8 \
	        >/dev/null 2>&1 || echo 'the MCP inspector could not be installed: its tests are skipped'; \
	else echo 'npm is missing: the MCP inspector is not tested'; fi

# A command, Debian's packages that have it, and what it is without it.
define installed
if command -v $(1) >/dev/null 2>&1; then :; \
elif [ -e /etc/debian_version ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
    echo 'installing $(1)'; \
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2); } \
        >/dev/null 2>&1 || echo '$(1) could not be installed: $(3)'; \
else echo '$(1) is missing: $(3)'; fi
endef

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks build dist
	find src tests scripts examples -name __pycache__ -type d -prune -exec rm -rf {} +
