# One command checks everything: make check before a commit, make test before a merge, make soak before a large change is called done.

target_folder := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),$(CURDIR)/target)
# What is shipped. Tests start the program that is built with them.
program := $(target_folder)/release/slipstream
lab := $(target_folder)/release/slipstream-lab

.PHONY: help check lint build test fuzz-short night soak asan helgrind systemd demo bench dist package static container-folder

help:
	@echo "make check   format, lints, unit and property tests"
	@echo "make build   $(program) and slipstream-lab beside it"
	@echo "make demo    a real MySQL primary, a replica, TPC-C, verify (needs nothing but Rust and a C compiler)"
	@echo "make test    check + whole-program tests against real servers + short fuzzing (half an hour on two cores)"
	@echo "make bench   instructions and time of each stage, compared with benches/baseline.json (best with valgrind)"
	@echo "make package Debian packages, one with a systemd unit and one of the lab, in $(target_folder)/package"
	@echo "make static  a program that needs no library of the system, in $(container_folder), for packaging/Containerfile"
	@echo "make dist    a profile-guided build, archived with checksums (needs llvm-profdata)"
	@echo "make asan    base, store and apply under the address sanitizer (nightly toolchain; part of soak)"
	@echo "make helgrind short replays under valgrind's race detector (part of soak)"
	@echo "make systemd the package as a service under a systemd of its own (root, debootstrap, systemd-container; part of soak)"
	@echo "make night   whole programs on the shipped build, longer fuzzing, a systemd; goes on where it was cut short (2 h)"
	@echo "make soak    the full forms, over days; not in CI"

# All but the tests of whole programs. The files that `interleavings` takes from other crates have their tests there.
parts := --workspace --exclude interleavings --locked --lib --bins --test interface

check: lint
	cargo test $(parts)
	cargo test --locked -p interleavings

# Not of code of others, whose lints are their own. The fuzz targets, a workspace of their own, compile.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --exclude lsm-tree --all-targets --locked --no-deps -- -D warnings
	CARGO_TARGET_DIR=$(target_folder) cargo check --locked --bins --no-default-features --manifest-path fuzz/Cargo.toml

# Both in one go: slipstream-lab starts only the program of its own build.
build:
	cargo build --release --locked -p slipstream -p lab

# SLIPSTREAM_TEST_SERVER=1: the crates' tests against real servers run too. All in one go, so that each crate is built
# once, with one set of features, and the program with its tests. Processes run at once where there are cores for it;
# one that hangs is killed, and one run names every failure. Not by `cargo run`: its environment would have crates with
# build scripts built anew.
test:
	tests/timed lint $(MAKE) lint
	tests/timed testbed testbed/mysql install
	tests/timed runner cargo build --locked -p run_tests
	tests/timed build cargo test --workspace --locked --no-run
	SLIPSTREAM_TEST_SERVER=1 SLIPSTREAM_TEST_LENGTH=short \
	    tests/timed tests $(target_folder)/debug/run_tests --workspace --locked --no-fail-fast -- --test-threads=2
	tests/timed fuzzing $(MAKE) fuzz-short

# fuzz/run SECONDS: every target for that long, from its corpus.
fuzz-short:
	if [ -x fuzz/run ]; then fuzz/run 5; else echo "no fuzz targets"; fi

# What an issue is resolved on, in two hours at most: whole programs on the build that is shipped, more fuzzing, a
# systemd. One that was cut short goes on where it was, at the same commit.
night: lint build
	testbed/mysql install
	cargo build --locked -p run_tests
	SLIPSTREAM_BIN=$(program) SLIPSTREAM_TEST_SERVER=1 SLIPSTREAM_TEST_LENGTH=night \
	    SLIPSTREAM_TESTS_DONE=$(target_folder)/night-done.txt \
	    tests/timed tests $(target_folder)/debug/run_tests --workspace --locked --no-fail-fast -- --test-threads=2
	tests/timed examples cargo test --doc --locked -p lsm-tree
	if [ -x fuzz/run ]; then tests/timed fuzzing fuzz/run 60; else echo "no fuzz targets"; fi
	$(MAKE) systemd

# The simulation's 5,000 seeds run through a release build: 0.6 s each on two threads.
soak: lint build
	testbed/mysql install
	SLIPSTREAM_TEST_SERVER=1 cargo test $(parts) --exclude simulation -- --test-threads=2
	cargo test --locked -p interleavings
	cargo test --doc --locked -p lsm-tree
	SLIPSTREAM_TEST_LENGTH=soak cargo test --release --locked -p simulation -- --test-threads=1 --nocapture
	SLIPSTREAM_BIN=$(program) SLIPSTREAM_TEST_SERVER=1 SLIPSTREAM_TEST_LENGTH=soak \
	    cargo test --locked -p slipstream -p lab --test whole_program -- --test-threads=1 --include-ignored --nocapture
	if [ -x fuzz/run ]; then fuzz/run 60; else echo "no fuzz targets"; fi
	$(MAKE) asan
	$(MAKE) helgrind
	$(MAKE) systemd

# Memory faults and leaks in what is called from here (the tree, hash tables, channels, the allocator's calls), by the address
# sanitizer. Other flags, so a folder of its own: 2 GB. Without the tests that preload the power-cut shim.
host := $(shell rustc -vV | sed -n 's/^host: //p')
asan:
	@if cargo +nightly --version >/dev/null 2>&1; then \
	    RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(target_folder)/asan \
	        cargo +nightly test --locked --target $(host) -p base -p store -p apply -- --test-threads=2 --skip tree_faults; \
	else echo "asan: skipped: no nightly toolchain (rustup toolchain install nightly)"; fi

# Races between threads, in what is called from here too.
helgrind:
	tests/helgrind/run

# In a container with a fresh Debian. 77: something is missing here.
systemd: package
	tests/systemd/run boot $(target_folder)/package/slipstream_*.deb || [ $$? -eq 77 ]

demo: build
	SLIPSTREAM_BIN=$(program) demo/demo.sh

# The stages' instructions a row beside the baseline's; a stage with more than 3 % above it is marked and fails.
bench:
	cargo run --release --locked -p stage_benches

dist:
	benches/dist

# The commit stands in --version; another one builds the program's crate again.
package: export SLIPSTREAM_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1) (commit $(shell git describe --always --dirty --abbrev=12), $(host))
package: build
	rm -f $(target_folder)/package/slipstream*.deb
	packaging/package $(program) $(target_folder)/package
	packaging/package-lab $(lab) $(target_folder)/package

# glibc is linked in: names are looked up in hosts files and by DNS as libc's own code does it. Other flags, so a folder of
# its own.
static_program := $(target_folder)/static/$(host)/release/slipstream
container_folder := $(target_folder)/static/container
static: export SLIPSTREAM_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1) (commit $(shell git describe --always --dirty --abbrev=12), $(host), static)
static:
	RUSTFLAGS="-C target-feature=+crt-static" CARGO_TARGET_DIR=$(target_folder)/static \
	    cargo build --release --locked --target $(host) -p slipstream
	packaging/check-static $(static_program)
	mkdir -p $(container_folder)/data
	cp $(static_program) $(container_folder)/
	packaging/third-party-licences >$(container_folder)/third-party-licences

container-folder:
	@echo $(container_folder)
