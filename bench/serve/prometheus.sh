#!/usr/bin/env bash
# A real Prometheus (Debian package `prometheus`) scrapes the demo with the configuration and rules of deploy/.
# Usage: bash bench/serve/prometheus.sh PROGRAM
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'kill ${monitor:-} ${prometheus:-} 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
cp deploy/alerts.yml "$folder"
sed 's/scrape_interval: 15s/scrape_interval: 2s/' deploy/prometheus.yml > "$folder/prometheus.yml"
promtool check config "$folder/prometheus.yml" | sed "s|$folder/||"
promtool check rules deploy/alerts.yml
"$program" serve --demo > /dev/null 2>&1 &
monitor=$!
prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" --web.listen-address=127.0.0.1:9191 > "$folder/log" 2>&1 &
prometheus=$!
sleep 40
query() { curl -s "http://127.0.0.1:9191/api/v1/query" --data-urlencode "query=$1"; }
for expression in 'up{job="flipcast"}' flipcast_images_total 'count(flipcast_estimated_accuracy_ratio)' 'count(flipcast_alarm_active)' 'histogram_quantile(0.99, sum by (le) (rate(flipcast_request_duration_seconds_bucket[1m])))'; do
  echo "$expression: $(query "$expression" | python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["status"], [row["value"][1] for row in r["data"]["result"]])')"
done
echo "rules: $(curl -s http://127.0.0.1:9191/api/v1/rules | python3 -c 'import json,sys; r=json.load(sys.stdin); print([(rule["name"], rule["health"], rule["state"]) for g in r["data"]["groups"] for rule in g["rules"]])')"
