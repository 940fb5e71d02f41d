# Every target is one or two words to type; what they do lives in tools/, where a shell script may be as long as it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo adapters image publish test check bless bench soak check-times

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what this machine lacks, saying what and why
	@tools/setup

demo: setup ## A real Slurm cluster on three nodes of this machine, from nothing and back (KEEP=1 leaves it)
	cargo build --bin muster
	@tools/demo

adapters: setup ## Build the adapters, a workspace of their own that knows only the public API
	cd adapters && cargo build --workspace

image: setup ## Build the image of the Slurm app, as root, reproducibly (target/apps/slurm)
	apps/slurm/build

publish: image ## Push, sign, publish and promote the Slurm app: make publish KEY=signing.pem
	apps/slurm/publish --key $(KEY)

test: ## Everything that must pass, in stages with a time budget each (runs setup first)
	@tools/test

check: setup ## Formatting, lints, house rules and generated files, without running a test
	@tools/check

bless: setup ## Rewrite the golden files from what the code does now; read the diff before committing
	cargo run -p xtask -- bless
	@tools/python-sdk
	@tools/check-edges --bless
	MUSTER_BLESS=1 MUSTER_PG_FAST=1 tools/with-postgres cargo nextest run --workspace \
		--no-tests=warn -E 'test(/golden/)' # golden tests have the word in their path
	@git --no-pager diff --stat

bench: ## Measure us and our peers side by side and print ratios
	@tools/setup --with-bench
	@bench/run

check-times: ## Compare the times of the last `make test` with the committed ones
	@tools/check-times

soak: setup ## Every suite in full, for hours; resumable, with a report in target/soak
	@tools/soak
