#!/usr/bin/env bash
# Builds the CPU engine for 64-bit ARM and runs its tests in an emulator: the NEON kernels against their scalar twin, networks against the reference.
#
#     sudo apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
#     rustup target add aarch64-unknown-linux-gnu        # or Debian's rustc-web with libstd-rust-web-dev:arm64, and RUSTC=/usr/bin/rustc
#     tools/check_arm.sh [package...]
#
# On such a machine itself `cargo test` does the same.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in aarch64-linux-gnu-gcc qemu-aarch64; do
  command -v "$program" > /dev/null || { echo "$program is missing: the head of $0 says how to get it" >&2; exit 3; }
done
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
# Where the C library is linked dynamically, QEMU 7.2 waits for ever when a thread begins.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static"
packages=()
for package in "${@:-flipcast-kernels flipcast-exec}"; do
  for name in $package; do packages+=(-p "$name"); done
done
# Another compiler than that of the host shares nothing with its build folder. Doctests run in no emulator; names are told as tests begin.
cargo test "${packages[@]}" --target "$target" --target-dir target/arm --lib --tests -- --test-threads 1
