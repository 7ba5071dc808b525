#!/usr/bin/env bash
# What there is to show of imported networks on a GPU.
#
#     bash tools/models/gpu_check.sh PART FLIPCAST NETWORKS PACKED OUT [WEIGHTS]
#
# FLIPCAST is the program's release build, NETWORKS that of `cargo build --release -p flipcast-cuda --example networks`. PACKED is a folder with
# networks.tar.gz (of tools/models/pack_networks.py: resnet50 and mobilenet_v2, also as ONNX, vgg11_bn, efficientnet_lite0 and ghostnet_100), a tar
# of clean Tiny-ImageNet images, tiny_imagenet_2000.tar, and NAME.packed of tools/models/refold.py. Tables go to the folder OUT. PART is
#
# - steps: step times of the built-in network, the program and the ONNX file, in turns (steps-gpu-tf32.csv)
# - kinks: gradients along the executor's branches (kinks-gpu-f32.csv)
# - restored:NAME: norms of the folded ONNX file of WEIGHTS/NAME.tiny_in200.safetensors restored from 1,000 images, whole and cut as in training, and
#   compared with the original's (restored-NAME.csv)
set -euo pipefail
part=$1 flipcast=$2 networks=$3 packed=$4 out=$5 weights=${6:-}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
unpack() {
  tar xzf "$packed/networks.tar.gz" -C "$work"
  "$networks" fill "$work"
}
case $part in
  steps)
    unpack
    bash "$here/step_times.sh" "$flipcast" "$work" 3 --device cuda --precision tf32 --batch 64 --repeat 20 | tee "$out/steps-gpu-tf32.csv"
    ;;
  kinks)
    unpack
    "$networks" kinks "$work" f32 timm.efficientnet_lite0 timm.ghostnet_100 torchvision.vgg11_bn | tee "$out/kinks-gpu-f32.csv"
    ;;
  restored:*)
    name=${part#restored:}
    data=$packed/tiny_imagenet_2000.tar
    original=$weights/$name.tiny_in200.safetensors
    for kind in clean crop; do
      mkdir "$work/$kind"
      python3 "$here/refold.py" fill "$original" "$packed/$name.packed" "$work/$kind/net.onnx"
      # The hash in the card is that of the weights.
      python3 -c 'import json, sys; card = json.load(open(sys.argv[1])); card.pop("file", None); json.dump(card, open(sys.argv[2], "w"))' \
        "${original%.safetensors}.json" "$work/$kind/net.json"
    done
    "$flipcast" models restore "$work/clean/net.onnx" --clean "$data"
    "$flipcast" models restore "$work/crop/net.onnx" --clean "$data" --training-crop resized:0.35
    python3 "$here/compare_restored.py" "$flipcast" "$data" 1000 "$out/restored-$name.csv" \
      original="$original" clean="$work/clean/net.onnx" crop="$work/crop/net.onnx" -- --device cuda --precision f32 | tee "$out/restored-$name.txt"
    ;;
  *)
    echo "a part is \`$part\`, expected steps, kinks or restored:NAME" >&2
    exit 2
    ;;
esac
