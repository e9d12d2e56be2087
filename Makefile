# Short names; the work is done by meson and by the scripts in tools/.
BUILD  = build
PREFIX = /usr/local
MESON  = meson setup $(BUILD) --prefix=$(PREFIX)

SECONDS = 300

.PHONY: all build run test check soak clang arm64 asan fuzz bench format install deb tarball test-kernels test-package clean help
all: build ## the same as build

build: $(BUILD)/build.ninja ## the programs and their tests, in build/ (the default)
	@ninja -C $(BUILD) --quiet

run: $(BUILD)/build.ninja ## serve from here, in the foreground; builds the programs and makes the template, where there is none
	@exec tools/run

test: build $(BUILD)/.tools-test $(BUILD)/.tools-deb ## every test; as root, about half an hour
	@exec tools/test

check: build $(BUILD)/.tools-test ## unit tests, lints and fuzz corpora: seconds, no root
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite unit --suite lint --suite fuzz

soak: build $(BUILD)/.tools-test ## random operations and kill -9 of every process, checked by a model; SECONDS=300 SEED=
	@exec tools/soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

test-kernels: build $(BUILD)/.tools-kernels $(BUILD)/.tools-deb ## a core suite on Debian's own kernels, in guests; as root; KERNELS="6.1 6.12 new"
	@exec tools/test-kernels $(addprefix --kernel ,$(KERNELS))

test-package: build $(BUILD)/.tools-kernels $(BUILD)/.tools-deb ## the package installed, upgraded, removed and purged, in guests; as root; KERNELS="6.1 6.12"
	@exec test/package/guest $(or $(KERNELS),6.1 6.12)

clang: $(BUILD)/.tools-build $(BUILD)/.tools-test ## compile everything with the other compiler, for its warnings, in build-clang/
	@test -f $(BUILD)-clang/build.ninja || CC=clang meson setup $(BUILD)-clang -Doptimization=0 -Ddebug=false >/dev/null
	@ninja -C $(BUILD)-clang --quiet

arm64: $(BUILD)/.tools-build $(BUILD)/.tools-test $(BUILD)/.tools-arm64 ## compile everything for arm64, and run the unit tests under qemu-user, in build-arm64/
	@exec tools/arm64

asan: $(BUILD)/.tools-build $(BUILD)/.tools-test ## unit tests and fuzz corpora with sanitizers, in build-asan/
	@test -f $(BUILD)-asan/build.ninja || CC=clang meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false
	@meson test -C $(BUILD)-asan --print-errorlogs --suite unit --suite fuzz

fuzz: $(BUILD)/.tools-build $(BUILD)/.tools-test ## the libFuzzer programs: build-fuzz/test/fuzz/fuzz_NAME test/corpus/NAME
	@test -f $(BUILD)-fuzz/build.ninja || CC=clang meson setup $(BUILD)-fuzz -Dfuzz=true
	@ninja -C $(BUILD)-fuzz --quiet

bench: build $(BUILD)/.tools-test $(BUILD)/.tools-bench ## measure, beside floors and peers; writes docs/benchmarks.*; as root
	@exec tools/bench

format: ## clang-format, in place
	@tools/check-format -i

install: build ## below PREFIX (/usr/local); DESTDIR is honoured
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --quiet

deb: $(BUILD)/.tools-build $(BUILD)/.tools-deb ## the Debian package, in build/package/
	@exec tools/make-deb

tarball: $(BUILD)/build.ninja ## an archive with an installer, for other distributions, in build/package/
	@ninja -C $(BUILD) --quiet sandglass sandglass-portable sandglass-puller-portable sandglass-envd sandglass-interpreter sandglass-mcp mcp-gateway sandglass-criu-shim.so libsandglass.a pages
	@exec tools/make-tarball

clean: ## remove the build directories; data/ stays
	rm -rf $(BUILD) $(BUILD)-clang $(BUILD)-arm64 $(BUILD)-asan $(BUILD)-fuzz

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' Makefile | while read -r name what; do printf '  make %-12s %s\n' "$$name" "$$what"; done

$(BUILD)/build.ninja: $(BUILD)/.tools-build
	@test -f $@ || $(MESON) >$(BUILD)/setup.log || { cat $(BUILD)/setup.log; exit 1; }
	@touch $@

# Installed once for each version of the list.
$(BUILD)/.tools-%: tools/setup
	@mkdir -p $(BUILD)
	@tools/setup $*
	@touch $@
