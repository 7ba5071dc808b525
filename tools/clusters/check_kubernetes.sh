#!/usr/bin/env bash
# Validates the manifests of `study submit --engine kubernetes` against the published schema, as PyPI's kubernetes-validate has it.
#
#   python3 -m venv schema && schema/bin/pip install kubernetes-validate
#   PATH=$PWD/schema/bin:$PATH tools/clusters/check_kubernetes.sh target/release/flipcast
set -euo pipefail
flipcast=$(realpath "$1")
scratch=$(mktemp -d)
cd "$scratch"
"$flipcast" study submit table1 --engine kubernetes --shards 16 --out /study/records --image registry.example/flipcast:0.1 --claim study \
    --namespace vision --cpus 8 --memory 32768 --gpus 1 --parallel 4 --dry-run -- --device cuda --jobs 4 > shown
csplit -s -z -f manifest- -b %d.yaml shown '/^# /' '{*}'
for manifest in manifest-*.yaml; do
    head -1 "$manifest"
    kubernetes-validate --strict "$manifest"
done
rm -rf "$scratch"
