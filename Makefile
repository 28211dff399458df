# A thin front for CMake. Each target installs what is missing (tools/setup), builds, and does what
# it says.
PORT ?= 8080
PREFIX ?= /usr/local
INSTALL_BUILD ?= build/install

run:        ## serve the showcase on http://127.0.0.1:$(PORT), and over TLS with TLS_PORT=... [CERT=... KEY=...]
	@tools/setup build
	@cmake --preset release >/dev/null && cmake --build build/release --target coir-showcase
	@TLS_PORT="$(TLS_PORT)" CERT="$(CERT)" KEY="$(KEY)" exec build/release/showcase/coir-showcase $(PORT)

build:      ## build the release
	@tools/setup build
	@cmake --preset release && cmake --build build/release
	@tools/make-man build/man

test:       ## build with two compilers and two sanitizers, and pass the tests
	@tools/setup test
	@test/run

check-all:  ## the same, with every seed, every sanitizer on everything, and longer fuzzing
	@tools/setup test
	@test/run --all

campaigns:  ## go on with 200,000 seeds of each scenario on each driver, for an hour or MINUTES
	@tools/setup build
	@cmake --preset gcc >/dev/null && cmake --build build/gcc
	@test/long/kernel --minutes "$(or $(MINUTES),60)"

coverage:   ## run every scenario on every driver, and print which lines of the library that ran
	@tools/setup build
	@test/sim/coverage

bench:      ## measure, beside bare loops and peers
	@tools/setup bench
	@cmake --preset release >/dev/null && cmake --build build/release
	@bench/run

install:    ## install the libraries, headers, man pages, pkg-config file and CMake package under $(PREFIX), staged in $(DESTDIR)
	@tools/setup build
	@cmake -G Ninja -S . -B "$(INSTALL_BUILD)" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCOIR_PROGRAMS=OFF -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@cmake --build "$(INSTALL_BUILD)"
	@DESTDIR="$(DESTDIR)" cmake --install "$(INSTALL_BUILD)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

uninstall:  ## remove what the last "make install" installed, from $(DESTDIR) too
	@tools/uninstall "$(INSTALL_BUILD)" "$(DESTDIR)"

amalgamation: ## write the library as one coir.c and one coir.h, to build/amalgamation
	@tools/amalgamate build/amalgamation

deb:        ## make the Debian packages of the library, in build/deb
	@tools/setup build
	@tools/make-deb build/deb $(DEB_BUILD)

man:        ## make the man pages, in build/man
	@tools/make-man build/man

format:     ## lay the sources out
	@clang-format-14 -i $$(git ls-files '*.c' '*.h')

clean:
	@rm -rf build

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/'

.PHONY: run man build test check-all campaigns coverage bench install uninstall amalgamation deb format clean help
