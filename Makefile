# make          builds build/slotproxy and build/slotctl
# make run      tries it: three redis-servers with slotproxy in front of them (NODES=5 PORT=7000 for others)
# make test     unit tests, simulation, end-to-end tests; make check: lint, then tests
# make help     lists everything
.PHONY: all configure run test unit sim e2e chaos demo bench-move redis-suite check lint fmt fuzz asan tsan bench nightly clean help
.DELETE_ON_ERROR:

BUILD ?= build
NODES ?= 3
PORT ?= 6400
FUZZ_SECONDS ?= 60
SIM_SEEDS ?= 1000
E2E_ARGS ?=
# Sanitizer builds are clang's: its TSan runs where g++ 12's stops at the kernel's address layout, and one build serves
# the fuzz targets and everything else under ASan and UBSan.
ASAN := -DCMAKE_CXX_COMPILER=clang++-19 -DSLOTPROXY_FUZZ=ON
TSAN := -DCMAKE_CXX_COMPILER=clang++-19 -DSLOTPROXY_SANITIZE=thread
PYTHON ?= /usr/bin/python3

DEPS := tests/install-deps.sh
GENERATOR = $(if $(wildcard $(1)/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))
# $(1): build folder, $(2): targets, $(3): options of cmake
define build
	@cmake -S . -B $(1) $(call GENERATOR,$(1)) $(3) --log-level=WARNING >/dev/null
	@cmake --build $(1) --parallel $$(nproc) --target $(2)
endef
BINARIES = SLOTPROXY=$(CURDIR)/$(1)/slotproxy SLOTCTL=$(CURDIR)/$(1)/slotctl

all:
	$(call build,$(BUILD),slotproxy slotctl)

run:
	@$(DEPS) build
	@$(MAKE) --no-print-directory all
	@exec $(BUILD)/slotproxy --dev $(NODES) --port $(PORT)

test:
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory sim
	@$(MAKE) --no-print-directory e2e

unit:
	@$(DEPS) build test
	$(call build,$(BUILD),unit_tests)
	$(BUILD)/unit_tests

sim:
	@$(DEPS) build test
	$(call build,$(BUILD),sim)
	$(BUILD)/sim --seeds $(SIM_SEEDS)

e2e:
	@$(DEPS) build test
	@$(MAKE) --no-print-directory all
	$(call BINARIES,$(BUILD)) tests/e2e/run $(E2E_ARGS)

# Moves of slots through every fault, with clients that know what each key may be.
chaos:
	@$(MAKE) --no-print-directory e2e E2E_ARGS="--all --only test_chaos $(E2E_ARGS)"

check: lint test

# Files changed since LINT_BASE (default: the branch's upstream, else the last commit); all of them with LINT_ALL=1.
lint:
	@$(DEPS) build lint
	$(PYTHON) tests/lint/run

fmt:
	@$(DEPS) lint
	$(PYTHON) tests/lint/run --fix

fuzz:
	@$(DEPS) build sanitize
	$(call build,build-asan,fuzz_targets,$(ASAN))
	$(PYTHON) tests/fuzz/run --build build-asan --seconds $(FUZZ_SECONDS)

asan:
	@$(DEPS) build test sanitize
	$(call build,build-asan,unit_tests sim slotproxy slotctl,$(ASAN))
	UBSAN_OPTIONS=print_stacktrace=1 build-asan/unit_tests
	UBSAN_OPTIONS=print_stacktrace=1 build-asan/sim --seeds 300 --flaw-seeds 0
	UBSAN_OPTIONS=print_stacktrace=1 $(call BINARIES,build-asan) tests/e2e/run --fast $(E2E_ARGS)

tsan:
	@$(DEPS) build test sanitize
	$(call build,build-tsan,unit_tests slotproxy slotctl,$(TSAN))
	build-tsan/unit_tests
	$(call BINARIES,build-tsan) tests/e2e/run --fast $(E2E_ARGS)

# A fourth node joins three under load: what an operator types and sees.
demo:
	@$(DEPS) build test
	@$(MAKE) --no-print-directory all
	@$(PYTHON) tests/demo/demo.py --binary $(BUILD)/slotproxy

bench:
	@$(DEPS) build bench
	@$(MAKE) --no-print-directory all
	$(PYTHON) tests/bench/bench.py --binary $(BUILD)/slotproxy
	$(PYTHON) tests/bench/instructions.py --binary $(BUILD)/slotproxy
	$(PYTHON) tests/bench/memory.py --binary $(BUILD)/slotproxy

bench-move:
	@$(DEPS) build bench
	@$(MAKE) --no-print-directory all
	$(PYTHON) tests/bench/move.py --binary $(BUILD)/slotproxy

# Redis's own tests, from a checkout of its tag 7.0.15 that the caller has.
redis-suite:
	@test -n "$(SUITE)" || { echo "make redis-suite: say where a checkout of Redis 7.0.15 is, SUITE=dir" >&2; exit 2; }
	@$(DEPS) build suite
	@$(MAKE) --no-print-directory all
	$(PYTHON) tests/redis_suite/run $(SUITE) --binary $(BUILD)/slotproxy $(SUITE_ARGS)

nightly:
	@$(MAKE) --no-print-directory lint LINT_ALL=1
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory sim SIM_SEEDS=10000
	@$(MAKE) --no-print-directory e2e E2E_ARGS=--all
	@$(MAKE) --no-print-directory asan E2E_ARGS=--all
	@$(MAKE) --no-print-directory tsan E2E_ARGS=--all
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=600
	@$(MAKE) --no-print-directory bench

clean:
	rm -rf build build-asan build-tsan build-lint

help:
	@echo "make           build/slotproxy and build/slotctl"
	@echo "make run       slotproxy in front of redis-servers of its own; NODES=3 PORT=6400"
	@echo "make test      unit tests, simulation, end-to-end tests (make unit, make sim, make e2e E2E_ARGS='--only WORD')"
	@echo "make sim       moves of slots in simulated time, SIM_SEEDS=1000 runs; replay one: build/sim --seed N --trace"
	@echo "make chaos     moves through every fault of proxy and nodes, with checking clients; make test has the short ones"
	@echo "make lint      format, include directions, clang-tidy; LINT_BASE=COMMIT or LINT_ALL=1"
	@echo "make fmt       formats the sources in place"
	@echo "make check     lint and test: before every commit"
	@echo "make asan      unit tests and a short end-to-end run under ASan and UBSan; make tsan: under TSan"
	@echo "make fuzz      every fuzz target for FUZZ_SECONDS=60"
	@echo "make bench     speed, instructions and memory beside a plain node, nutcracker and haproxy"
	@echo "make bench-move  speed of a move, and what clients notice, beside redis-cli --cluster reshard"
	@echo "make redis-suite SUITE=dir  Redis's own tests, from a checkout of its tag 7.0.15; SUITE_ARGS='--nodes 1 --moving'"
	@echo "make demo      a fourth node joins three under load, in two minutes"
	@echo "make nightly   everything, in full"

export LINT_BASE LINT_ALL LINT_SECONDS
