# Each target is one line that calls the real tool; `make help` lists them.
# What a target needs is installed first: uv (through pip, in a directory of its own), the pinned Python packages into
# .venv, and, by root only, Debian packages (envs/install-debian.sh has the list). Nothing is installed twice.

STUDY ?= config/embedded.yaml
QUICK := config/quick.yaml

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
MAKEFLAGS += --no-print-directory

CACHE := $(or $(MESHPERF_CACHE),$(HOME)/.cache/meshperf)
UV := $(or $(shell command -v uv 2>/dev/null),$(CACHE)/uv/bin/uv)
RUN := $(UV) run --frozen --no-sync

.PHONY: help quickstart test report measure lab cluster cluster-down doctor validate-statistics lint setup setup-cluster setup-tests

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 24

quickstart: setup-cluster ## measure config/quick.yaml on a cluster, analyse it, write results/quick/report
	@$(RUN) meshperf run $(QUICK) && $(RUN) snakemake --config study=$(QUICK)

test: setup-cluster setup-tests ## run all tests, also those that need a cluster
	@$(RUN) meshperf cluster up config/smoke.yaml || echo "Going on without a cluster: its tests will fail"
	$(RUN) pytest

report: setup ## rebuild analysis and report of STUDY from the versioned data, without a cluster
	@$(RUN) snakemake --config study=$(STUDY)

measure: setup-cluster ## measure STUDY on a cluster; goes on where it stopped
	@$(RUN) meshperf run $(STUDY)

lab: setup ## open the notebooks in JupyterLab
	@$(RUN) jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

cluster: setup-cluster ## start the local cluster
	@$(RUN) meshperf cluster up

cluster-down: setup ## remove the local cluster and everything it left
	@$(RUN) meshperf cluster down

doctor: setup ## say what this machine has, what is missing, and the command that mends it
	@$(RUN) meshperf doctor

validate-statistics: setup ## check every interval and test on simulated campaigns of known truth (half an hour on two cores)
	@$(RUN) python benchmarks/validate_statistics.py --output data/validation/statistics.csv

lint: setup ## check the style of code, notebooks and workflow
	@$(RUN) ruff check && $(RUN) ruff format --check && $(RUN) snakefmt --check Snakefile rules && $(RUN) snakemake --lint

setup: .venv/.synced ## install what every target needs: uv and the pinned Python packages
	@:

setup-cluster: setup ## install what the embedded cluster needs from Debian
	@envs/install-debian.sh cluster

setup-tests: setup ## install what the tests of the report need from Debian
	@envs/install-debian.sh tests

$(CACHE)/uv/bin/uv:
	@envs/install-uv.sh $(CACHE)/uv

.venv/.synced: pyproject.toml uv.lock $(UV)
	@echo "Installing the pinned Python packages into .venv (a few minutes the first time)"
	@$(UV) sync --frozen && touch $@
