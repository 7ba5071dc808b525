"""Compares the joined records of shards with those of one run, times aside: compare.py WHOLE MERGED FOLDER"""
import glob
import json
import sys


def forget(value):
    if isinstance(value, dict):
        return {key: forget(inner) for key, inner in value.items() if key not in ("created", "seconds", "check")}
    return [forget(inner) for inner in value] if isinstance(value, list) else value


def lines(path):
    return [json.dumps(forget(json.loads(line))) for line in open(path)]


whole, merged = lines(sys.argv[1]), lines(sys.argv[2])
made = sum(len(open(path).readlines()) for path in glob.glob(sys.argv[3] + "/records-*.jsonl"))
print(f"{len(whole)} records of one run, {len(merged)} of the shards; equal byte for byte: {whole == merged}")
print(f"records that more than one shard made: {made - len(merged)}")
sys.exit(whole != merged)
