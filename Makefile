# SPDX-License-Identifier: Apache-2.0
# make demo     the four programs on real input, on this machine's CPU
# make check    the tests, in 14 minutes of two cores
# make check-long the rest, some of it for hours; CI runs most of it after `make check`
# make bench-cpu the CPU beside NumPy on OpenBLAS
# make check-asan, make check-gpu, make coverage, make package, make deb,
# make docs, make uninstall
# Each target alone installs what it needs (Debian 12, as root), configures and builds.

BUILD ?= build
JOBS ?= $(shell nproc)
CONFIGURE = cmake -G Ninja -S . $(shell command -v ccache >/dev/null && \
	echo -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# The first Python that has NumPy.
PYTHON = $(shell for p in python3 /usr/bin/python3; do $$p -c 'import numpy' 2>/dev/null && \
	echo $$p && break; done)
# What `setup.sh --tests` installs, behind all that there is otherwise.
export PATH := $(PATH):$(CURDIR)/.tools/bin
.DELETE_ON_ERROR:
.PHONY: all setup build demo check check-long check-asan check-gpu package deb uninstall docs bench \
	bench-cpu coverage clean

all: build

setup:
	@scripts/setup.sh

# Ninja runs CMake again by itself when a CMakeLists.txt changes.
$(BUILD)/build.ninja: | setup
	@$(CONFIGURE) -B $(BUILD)

build: setup $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

demo: build
	@$(PYTHON) scripts/demo.py $(BUILD)/bin/tessera

# With CI set the tests that are skipped must be as many as are known to be.
SKIPS = $(if $(CI),--skips tests/skipped.txt)
check: build
	@scripts/setup.sh --tests
	@$(PYTHON) tests/run.py $(BUILD) $(SKIPS)

# What takes minutes: all 2^32 inputs of the library's functions, 20,000 random programs, mutated
# sources and IR under ASan and UBSan, planted bugs. LONG: a pattern of the suites to run.
check-long: build
	@[ -e build-asan/build.ninja ] || $(CONFIGURE) -B build-asan -DTESSERA_SANITIZE=ON
	@cmake --build build-asan -j $(JOBS) --target unit_ir unit_frontend
	@scripts/setup.sh --tests
	@$(PYTHON) tests/run.py $(BUILD) --also build-asan --long --only '$(LONG)' $(SKIPS)

# Lines of our C that the tests run, by component, and what they run least.
coverage: setup
	@[ -e build-coverage/build.ninja ] || $(CONFIGURE) -B build-coverage -DTESSERA_COVERAGE=ON
	@cmake --build build-coverage -j $(JOBS)
	@$(PYTHON) tests/run.py build-coverage || true
	@$(PYTHON) scripts/coverage.py build-coverage

check-asan: setup
	@[ -e build-asan/build.ninja ] || $(CONFIGURE) -B build-asan -DTESSERA_SANITIZE=ON
	@cmake --build build-asan -j $(JOBS)
	@$(PYTHON) tests/run.py build-asan

# On a machine with a GPU. With TESSERA set, a packaged program is tested and nothing is built; with
# SANITIZE=racecheck,memcheck what hands shared memory over runs under compute-sanitizer too.
ON_GPU = --tessera $(or $(TESSERA),$(BUILD)/bin/tessera) --device cuda
check-gpu: $(if $(TESSERA),,build)
	@$(PYTHON) tests/examples/examples.py $(ON_GPU)
	@$(PYTHON) tests/stdlib/stdlib.py $(ON_GPU)
	@$(PYTHON) tests/mechanisms/mechanisms.py $(ON_GPU) --sanitize '$(SANITIZE)'
	@$(PYTHON) tests/mechanisms/windows.py $(ON_GPU)
	@$(PYTHON) tests/lang/lang.py $(ON_GPU) --strided 1
	@$(PYTHON) tests/differential/differential.py $(ON_GPU)
	@$(PYTHON) tests/differential/differential.py $(ON_GPU) --few --strided 1
	@$(PYTHON) tests/aot/gpu.py --tessera $(or $(TESSERA),$(BUILD)/bin/tessera)

package: build
	@cmake --build $(BUILD) --target package

deb: build
	@cmake --build $(BUILD) --target deb

# What `cmake --install $(BUILD)` wrote.
uninstall:
	@cmake --build $(BUILD) --target uninstall

docs: build
	@$(PYTHON) scripts/docs.py
	@$(PYTHON) scripts/docs_architecture.py --tessera $(BUILD)/bin/tessera
	@$(PYTHON) tests/decisions/decisions.py --tessera $(BUILD)/bin/tessera --write

# Beside NumPy on OpenBLAS, both of Debian: the set-up installs them.
bench-cpu: $(if $(TESSERA),,build)
	@/usr/bin/python3 bench/cpu.py --tessera $(or $(TESSERA),$(BUILD)/bin/tessera)

bench: $(if $(TESSERA),,build)
	@$(PYTHON) bench/gpu.py --tessera $(or $(TESSERA),$(BUILD)/bin/tessera)

clean:
	rm -rf build build-asan build-coverage
