# A thin front for CMake. Each target installs what is missing (tools/setup), builds, and does what it says.
PORT ?= 8080

run:        ## serve the showcase on http://127.0.0.1:$(PORT)
	@tools/setup build
	@cmake --preset release >/dev/null && cmake --build build/release --target coir-showcase
	@exec build/release/showcase/coir-showcase $(PORT)

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

bench:      ## measure, beside bare loops and peers
	@tools/setup bench
	@cmake --preset release >/dev/null && cmake --build build/release
	@bench/run

man:        ## make the man pages, in build/man
	@tools/make-man build/man

format:     ## lay the sources out
	@clang-format-14 -i $$(git ls-files '*.c' '*.h')

clean:
	@rm -rf build

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/'

.PHONY: run man build test check-all bench format clean help
