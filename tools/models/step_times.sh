#!/usr/bin/env bash
# Step times of imported networks beside the built-in ones, in turns.
#
#     bash tools/models/step_times.sh BINARY FOLDER ROUNDS [settings of `flipcast bench`, such as --device cuda --precision tf32 --batch 64]
#
# FOLDER holds torchvision.resnet50 and torchvision.mobilenet_v2 as .pt2 and .onnx, as tools/export_networks.py writes them. Every round times
# the built-in network, the program and the ONNX file one after the other, from another one on each round. Prints each run's median step in
# milliseconds, then for each file the median over rounds of its time divided by the built-in network's of the same round.
set -euo pipefail
binary=$1 folder=$2 rounds=$3
shift 3
median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
# The first word picks the model, the rest are the settings.
step() {
  local model=$1
  shift
  "$binary" bench --model "$model" --classes 10 --json "$@" | sed 's/.*"step_ms":\[\([^]]*\)\].*/\1/' | tr ',' '\n' | median
}
raw=$(mktemp)
trap 'rm -f "$raw"' EXIT
echo "network,kind,round,step_ms"
for name in resnet50 mobilenet_v2; do
  models=("$name" "$folder/torchvision.$name.pt2" "$folder/torchvision.$name.onnx")
  kinds=(built-in pt2 onnx)
  for ((round = 0; round < rounds; round++)); do
    for ((turn = 0; turn < 3; turn++)); do
      which=$(((round + turn) % 3))
      echo "$name,${kinds[which]},$round,$(step "${models[which]}" --size 224 "$@")" | tee -a "$raw"
    done
  done
done
echo
for name in resnet50 mobilenet_v2; do
  for kind in pt2 onnx; do
    ratio=$(awk -F, -v name=$name -v kind=$kind '
      $1 == name && $2 == "built-in" {base[$3] = $4} $1 == name && $2 == kind {time[$3] = $4}
      END {for (round in time) print time[round] / base[round]}' "$raw" | median)
    echo "$name $kind: $ratio of the built-in network's step"
  done
done
