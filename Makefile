.DEFAULT_GOAL := help
BIN := .venv/bin
SEEDS ?= 300
B ?= postgres
ARGS ?=
CASES ?= 500
PROCESSES ?= 2
SECONDS ?= 600
MINUTES ?= 1
TASKS ?= 2000

# Another project's activated environment must not leak into this one.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME UV_PYTHON UV_PROJECT_ENVIRONMENT PIP_USER PIP_TARGET PIP_PREFIX
# Every process would compile all that it imports anew: a node would start in three times the time.
unexport PYTHONDONTWRITEBYTECODE
export PYTHON

.PHONY: help setup run test test-long check sim chaos chaos-tasks bench-store bench-engine bench-operators bench-sql bench-tasks bench-workers property random-sql workloads conform lock clean

help: ## Show this text
	@echo "Tidemill: start it with 'make run', test it with 'make test'. Nothing has to be done before."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Build or refresh the environment in .venv (the others call it)
	@scripts/setup

run: setup ## Start Tidemill with something to look at; stop it with Ctrl-C
	@scripts/java
	@$(BIN)/tidemill demo $(ARGS)

test: setup ## Bring up the servers that tests need and run the tests; ARGS="-k lease" narrows it
	@scripts/postgres
	@scripts/java
	@$(BIN)/pytest -n $(PROCESSES) --dist loadfile -m "not long" $(ARGS)

test-long: setup ## Run the tests that take longest: whole workloads, examples, processes that are killed, little memory
	@scripts/postgres
	@scripts/java
	@$(BIN)/pytest -n $(PROCESSES) --dist loadfile -m long $(ARGS)

check: setup ## Check format, lint, types, layers and the shape of the code
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/test_shape.py tests/test_tree.py

sim: setup ## Run the simulator on SEEDS=300 seeds, or tell the story of one again, SEED=17
	@cd tests && ../$(BIN)/python -m sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

chaos: setup ## Hurt real processes on SQLite and PostgreSQL for MINUTES=1 and judge every write; SEED=7 repeats
	@scripts/postgres
	@scripts/faketime
	@cd tests && ../$(BIN)/python -m chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos-tasks: setup ## Kill and stop nodes while TASKS=2000 tasks run, on SQLite and PostgreSQL; judge every write
	@scripts/postgres
	@cd tests && ../$(BIN)/python -m chaos.tasks --tasks $(TASKS) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench-store: setup ## Measure each store against a raw loop with the same driver
	@scripts/postgres
	@$(BIN)/python benchmarks/store.py $(ARGS)

bench-engine: setup ## Measure the incremental engine against Spark, Structured Streaming and DuckDB
	@scripts/java
	@$(BIN)/python benchmarks/engine.py $(ARGS)

bench-operators: setup ## Measure each operator with little and much state, against Spark's recompute
	@scripts/java
	@$(BIN)/python benchmarks/operators.py $(ARGS)

bench-sql: setup ## Measure Nexmark beside Structured Streaming, and TPC-H beside a full recompute
	@scripts/java
	@$(BIN)/python benchmarks/nexmark_bench.py $(ARGS)
	@$(BIN)/python benchmarks/tpch_bench.py $(ARGS)

bench-tasks: setup ## Measure tasks beside Celery, RQ, Dramatiq, taskiq, Huey and Procrastinate; ARGS="--only ours,huey"
	@scripts/postgres
	@scripts/redis
	@$(BIN)/python benchmarks/tasks.py $(ARGS)

bench-workers: setup ## Measure remote workers beside a raw loop on the store and a WebSocket echo; ARGS="--only sqlite,rate"
	@scripts/postgres
	@$(BIN)/python benchmarks/workers.py $(ARGS)

random-sql: setup ## Judge random queries over changing tables against Spark for SECONDS=600; SEED=7 repeats
	@scripts/java
	@cd tests && ../$(BIN)/python -m property.random_sql --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

workloads: setup ## Nexmark, TPC-H, the bank test and all of coverage, in their long form
	@scripts/java
	@TIDEMILL_NEXMARK_EVENTS=200000 TIDEMILL_NEXMARK_STEPS=20 TIDEMILL_TPCH_SF=0.05 TIDEMILL_BANK_ROWS=100000 \
		TIDEMILL_COVERAGE=all $(BIN)/pytest --timeout 3000 \
		tests/e2e/test_nexmark.py tests/e2e/test_tpch.py tests/e2e/test_bank.py tests/crash/test_bank.py \
		tests/property/test_coverage.py tests/property/test_functions.py $(ARGS)

property: setup ## Judge every operator against Spark, every way, on CASES=500 packed cases
	@scripts/java
	@TIDEMILL_CASES=$(CASES) TIDEMILL_WAYS=all TIDEMILL_CIRCUITS=60 $(BIN)/pytest tests/property $(ARGS)

conform: setup ## Run the store conformance suite on one backend, B=memory, sqlite or postgres
	@scripts/postgres
	@$(BIN)/pytest tests/conformance -k $(B) $(ARGS)

lock: ## Resolve uv.lock anew after a change of dependencies in pyproject.toml
	@scripts/uv lock

clean: ## Remove the environment, caches and built files
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
