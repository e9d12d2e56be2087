# Short names; the work is done by meson and by the scripts in tools/.
BUILD  = build
PREFIX = /usr/local
MESON  = meson setup $(BUILD) --prefix=$(PREFIX)

.PHONY: all build run test check clang asan fuzz bench format install clean help
all: build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

run: build
	@exec tools/run

test: build $(BUILD)/.tools-test
	@exec tools/test

# Unit tests, lints and fuzz corpora: seconds, no root.
check: build $(BUILD)/.tools-test
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite unit --suite lint --suite fuzz

# The other compiler: free of warnings, too.
clang: $(BUILD)/.tools-build $(BUILD)/.tools-test
	@test -f $(BUILD)-clang/build.ninja || CC=clang meson setup $(BUILD)-clang >/dev/null
	@ninja -C $(BUILD)-clang --quiet

asan: $(BUILD)/.tools-build $(BUILD)/.tools-test
	@test -f $(BUILD)-asan/build.ninja || CC=clang meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false
	@meson test -C $(BUILD)-asan --print-errorlogs --suite unit --suite fuzz

# The libFuzzer programs: $(BUILD)-fuzz/test/fuzz/fuzz_<codec> test/corpus/<codec>
fuzz: $(BUILD)/.tools-build $(BUILD)/.tools-test
	@test -f $(BUILD)-fuzz/build.ninja || CC=clang meson setup $(BUILD)-fuzz -Dfuzz=true
	@ninja -C $(BUILD)-fuzz --quiet

bench: build $(BUILD)/.tools-test
	@exec tools/bench

format:
	@tools/check-format -i

install: build
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --quiet

clean:
	rm -rf $(BUILD) $(BUILD)-clang $(BUILD)-asan $(BUILD)-fuzz

help:
	@sed -n 's/^\([a-z][a-z]*\):.*/make \1/p' Makefile

$(BUILD)/build.ninja: $(BUILD)/.tools-build
	@test -f $@ || $(MESON) >$(BUILD)/setup.log || { cat $(BUILD)/setup.log; exit 1; }
	@touch $@

# Installed once for each version of the list.
$(BUILD)/.tools-%: tools/setup
	@mkdir -p $(BUILD)
	@tools/setup $*
	@touch $@
