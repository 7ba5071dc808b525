#!/usr/bin/env bash
# The files of deploy/ as far as they can be tried without a container engine and without systemd as the first process.
# Usage: bash bench/serve/deploy.sh PROGRAM   (root, so that the server can run as somebody else; `kubernetes-validate` from PyPI on the PATH)
set -euo pipefail
program=$(realpath "$1")
folder=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; rm -rf "$folder"' EXIT
chmod 755 "$folder"

echo "== systemd unit"
sed "s|/usr/local/bin/flipcast|$program|" deploy/flipcast.service > "$folder/flipcast.service"
systemd-analyze verify "$folder/flipcast.service" && echo "systemd-analyze verify: no complaint"
systemd-analyze security --offline=true "$folder/flipcast.service" --no-pager | grep Overall | tr -cd '[:print:]\n'

echo "== Kubernetes manifests"
csplit -s -z -f "$folder/manifest-" -b %d.yaml deploy/kubernetes.yaml '/^---/' '{*}'
for manifest in "$folder"/manifest-*.yaml; do
  # KServe's own resource is in no schema of Kubernetes.
  grep -q serving.kserve.io/v1beta1 "$manifest" || kubernetes-validate --strict "$manifest" | sed "s|$folder/||"
done

echo "== Containerfile, its steps by hand"
mkdir "$folder/source"
git archive HEAD | tar -x -C "$folder/source"
(cd "$folder/source" && cargo metadata --locked --offline --format-version 1 > /dev/null) && echo "COPY, then cargo --locked: the lock file fits the manifests of a clean copy"
echo "libraries: $(ldd "$program" | awk '{print $1}' | xargs -n1 basename | tr '\n' ' ')"
install -D "$program" "$folder/root/usr/local/bin/flipcast"
install -d -o nobody "$folder/state"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$folder/write-token"
chmod 644 "$folder/write-token"
cp crates/cli/assets/demo/resnet20.fashion_mnist.* crates/cli/assets/demo/calibration.json "$folder"
chmod 644 "$folder"/*.json "$folder"/*.safetensors
# As ENTRYPOINT and CMD say it, by a user who owns nothing but the state.
setpriv --reuid nobody --regid nogroup --clear-groups "$folder/root/usr/local/bin/flipcast" serve --state "$folder/state" --listen 0.0.0.0:18686 \
  --write-token "$folder/write-token" --model "$folder/resnet20.fashion_mnist.safetensors" --calibration "$folder/calibration.json" > /dev/null 2> "$folder/log" &
server=$!
ready() { curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:18686/v2/health/ready; }
for _ in $(seq 100); do [ "$(ready)" = 200 ] && break; sleep 0.2; done
echo "ready: $(ready), run by $(ps -o user= -p $server)"
code() { curl -s -o /dev/null -w '%{http_code}' "$@" -X POST http://127.0.0.1:18686/streams/x/reset; }
echo "writing without a token: $(code); with it, to a stream that does not exist: $(code -H "Authorization: Bearer $(cat "$folder/write-token")")"
kill -TERM $server
wait $server && echo "SIGTERM: ended with 0"
