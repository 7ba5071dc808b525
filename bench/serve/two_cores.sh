#!/usr/bin/env bash
# What a monitor stands on two cores, in parts of less than four minutes each on an idle machine, so that others need not wait for long.
# Usage: bash bench/serve/two_cores.sh PROGRAM load|streams|stands|kills
#        bash bench/serve/two_cores.sh PROGRAM calibrate|share TWO_LOOKS SHARED FOLDER
#   load       requests beside the bare engine, with the demo's model
#   streams    10,000 streams
#   stands     1,000 connections, slow clients, a burst, a full disk (needs root)
#   kills      50 times SIGKILL under load
#   calibrate  what `share` needs, into FOLDER; what it says is of no interest here
#   share      a ResNet-50's requests of 64 images beside the engine alone; SHARED has models/resnet50.tiny_in200.safetensors and data/tiny_imagenet_val.tar
set -euo pipefail
program=$(realpath "$1")
assets=crates/cli/assets/demo
demo=(--program "$program" --model $assets/resnet20.fashion_mnist.safetensors --calibration $assets/calibration.json)
two="taskset -c 0,1"
if [ "$2" != calibrate ]; then
  echo "$(lscpu | sed -n 's/^Model name: *//p'), $(nproc) cores, of which two; load average $(cut -d' ' -f1 /proc/loadavg); $("$program" --version)"
fi
case "$2" in
  load) $two python3 bench/serve/load.py "${demo[@]}" --seconds 15 --only load ;;
  streams) $two python3 bench/serve/load.py "${demo[@]}" --only streams ;;
  stands) $two python3 bench/serve/load.py "${demo[@]}" --only connections,slow,burst --full-disk 2000 ;;
  kills) $two python3 bench/serve/kill.py "${demo[@]}" --kills 50 ;;
  calibrate)
    "$program" calibrate --model "$4/models/resnet50.tiny_in200.safetensors" --data "$4/data/tiny_imagenet_val.tar" --limit 128 --quick --quiet \
      --shifts rotate:3,film_grain:3,hue_shift:3,sharpen:3,shear:3,median_blur:3,desaturate:3,colour_cast:3,banding:3 --out "$5/calibration.json" ;;
  share)
    $two python3 bench/serve/load.py --program "$program" --model "$4/models/resnet50.tiny_in200.safetensors" --calibration "$5/calibration.json" --side 64 \
      --only share --engine "$3" --batches 8 --rounds 5 ;;
  *) echo "the part is \`$2\`, expected load, streams, stands, kills, calibrate or share" >&2; exit 2 ;;
esac
