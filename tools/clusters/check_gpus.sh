#!/usr/bin/env bash
# Runs a small study on one GPU and on all GPUs of this machine at once, two cells on each, and compares the records.
#
#   tools/clusters/check_gpus.sh target/release/flipcast [PLAN]
#
# The first word may be several, such as "python3 -m flipcast".
set -euo pipefail
flipcast=$1
here=$(realpath "$(dirname "$0")")
plan=$(realpath "${2:-$here/tiny.toml}")
assets=$(realpath "$here/../../crates/cli/assets/demo")
scratch=$(mktemp -d)
cd "$scratch"
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
echo "$gpus GPUs"
for device in cuda cuda:all; do
    jobs=$([ "$device" = cuda ] && echo 1 || echo $((2 * (gpus > 0 ? gpus : 1))))
    begun=$(date +%s%N)
    $flipcast study run "$plan" --out "$device" --set ASSETS="$assets" --device "$device" --jobs "$jobs" --progress never
    echo "--device $device --jobs $jobs: $((($(date +%s%N) - begun) / 1000000)) ms"
    $flipcast study merge "$device" --out "$device.jsonl" > /dev/null
done
python3 "$here/compare.py" cuda.jsonl cuda:all.jsonl cuda:all
rm -rf "$scratch"
