#!/usr/bin/env bash
# Load on two cores of an idle machine: requests beside the bare engine, connections, streams, a burst, slow clients, kills. About four minutes.
# Usage: bash bench/serve/two_cores.sh PROGRAM [TWO_LOOKS SHARED]   (SHARED has models/resnet50.tiny_in200.safetensors and data/tiny_imagenet_val.tar)
set -uo pipefail
program=$(realpath "$1")
assets=crates/cli/assets/demo
model=$assets/resnet20.fashion_mnist.safetensors
two="taskset -c 0,1"
echo "$(lscpu | sed -n 's/^Model name: *//p'), $(nproc) cores, of which two; load average $(cut -d' ' -f1 /proc/loadavg); $("$program" --version)"
if [ $# -ge 3 ]; then
  folder=$(mktemp -d)
  resnet=$3/models/resnet50.tiny_in200.safetensors
  # A calibration of few images: it is needed to serve, and what it says is of no interest here.
  "$program" calibrate --model "$resnet" --data "$3/data/tiny_imagenet_val.tar" --limit 128 --fast --quiet \
    --shifts rotate:3,film_grain:3,hue_shift:3,sharpen:3,shear:3,median_blur:3,desaturate:3,colour_cast:3,banding:3 --out "$folder/calibration.json" > "$folder/log" 2>&1 || tail -5 "$folder/log"
  $two python3 bench/serve/load.py --program "$program" --model "$resnet" --calibration "$folder/calibration.json" --side 64 --only share --engine "$2" --batches 8 --rounds 5
fi
$two python3 bench/serve/load.py --program "$program" --model $model --calibration $assets/calibration.json --seconds 5 --only load,connections,streams,slow,burst
$two python3 bench/serve/kill.py --program "$program" --model $model --calibration $assets/calibration.json --kills 50 | tail -6
