# What a developer runs. Each target does the set-up that it needs; a second time that is quick.

# With sudo, what a command makes here belongs to the checkout's owner afterwards.
KEEP_OWNER := scripts/keep-owner
BIN := $(KEEP_OWNER) .venv/bin
DEMO := --rounds 7 --duration 2 --omit 1
FRESH := bookworm trixie

.PHONY: help demo test test-vm test-fresh $(FRESH:%=test-fresh-%) check docs format wheel clean
.PHONY: bench bench-build bench-workloads bench-observer bench-rounds bench-report
.PHONY: set-up-run set-up-test set-up-vm set-up-fresh

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

set-up-run: ## what `make demo` needs: packages (root), .venv, the BPF program
set-up-test: ## what the tests and `make check` need
set-up-vm: ## what building kernels needs
set-up-fresh: ## what `make test-fresh` needs
set-up-run set-up-test set-up-vm set-up-fresh: set-up-%:
	@$(KEEP_OWNER) scripts/setup.sh $*

demo: set-up-run ## packets by exact size, Nagle against BIG TCP on this kernel (root, 3 minutes)
	$(BIN)/testbed run nagle $(DEMO)

test: set-up-test ## unit, system and default VM tests (root; without root the unit tests)
	$(BIN)/pytest tests/unit --cov=testbed --cov-report=
	@echo "lines of testbed/ that the unit tests run: $$($(BIN)/coverage report --format=total)%"
	$(BIN)/pytest -m 'not slow' tests/system tests/vm

test-vm: set-up-vm ## every test that boots kernels, the long ones too (root)
	$(BIN)/pytest tests/vm

test-fresh: $(FRESH:%=test-fresh-%) ## set up and try all of it on bare Debians (root, 12 minutes; FRESH=trixie: that one)
$(FRESH:%=test-fresh-%): test-fresh-%: set-up-fresh
	scripts/fresh-root $* scripts/fresh-stages

check: set-up-test ## lint, formatting, types, and imports that go downwards only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy benchmarks
	$(BIN)/pytest -q tests/unit/test_project_layers.py

format: set-up-test ## write the code as `make check` wants it
	$(BIN)/ruff check --fix --select I
	$(BIN)/ruff format

docs: set-up-test ## the documentation into docs/_build/html, the man page into docs/_build/man
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b man docs docs/_build/man

bench-build: set-up-test ## time building and taking down 100 and 1000 nodes, against ip (root, 3 minutes)
	$(BIN)/python benchmarks/bench_build.py

bench-workloads: set-up-test ## our workers against the commands iperf3 and netperf, 300 runs for leaks (root, 10 minutes)
	$(BIN)/python benchmarks/bench_workloads.py

bench-observer: set-up-test ## what watching costs a flow, against tcpdump and bpftrace too (root, 9 minutes)
	$(BIN)/python benchmarks/bench_observer.py

bench-rounds: set-up-test ## whether the packet sizes of 200 rounds equal the counters (root, 7 minutes)
	$(BIN)/python benchmarks/bench_rounds.py

bench-report: set-up-test ## time and memory of the report of 10,000 rounds (2 minutes)
	$(BIN)/python benchmarks/bench_report.py

bench: bench-build bench-workloads bench-observer bench-rounds bench-report ## all of them

wheel: set-up-test ## build the wheel into dist/
	$(BIN)/python -m pip wheel -q --no-deps --wheel-dir dist .

clean: ## remove all that set-up and builds made; results stay
	@rm -rf .venv .coverage dist build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis testbed/evidence/bpf/*.bpf.o && \
	find . -name __pycache__ -prune -exec rm -rf {} + || \
	{ echo "make clean: what root made stays: sudo make clean" >&2; exit 1; }
