"""Runs a small study by Ray on this machine, kills a worker in flight and compares the joined records with one undisturbed run.

    python3 -m venv ray && ray/bin/pip install ray && PATH=$PWD/ray/bin:$PATH python3 tools/clusters/check_ray.py target/release/flipcast
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ASSETS = HERE.parents[1] / "crates/cli/assets/demo"
FLIPCAST = pathlib.Path(sys.argv[1]).resolve()


def log(*words):
    print(time.strftime("%T"), *words, flush=True)


def workers():
    """Processes of Ray's that run a shard."""
    found = subprocess.run(["pgrep", "-f", "ray::run_shard"], capture_output=True, text=True).stdout
    return [int(number) for number in found.split()]


def records(folder):
    return sum(len(path.read_text().splitlines()) for path in folder.glob("records-*.jsonl"))


with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    common = [str(HERE / "plan.toml"), "--set", f"ASSETS={ASSETS}"]
    never = ["--progress", "never"]
    log("one run, undisturbed")
    begun = time.time()
    subprocess.run([FLIPCAST, "study", "run", *common, "--out", "whole", "--threads", "1", *never], cwd=scratch, check=True)
    alone = time.time() - begun
    subprocess.run([FLIPCAST, "study", "merge", "whole", "--out", "whole.jsonl"], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    log("four shards by Ray")
    command = [FLIPCAST, "study", "submit", *common, "--engine", "ray", "--program", str(FLIPCAST), "--shards", "4", "--out", "parts", "--", *never]
    driver = subprocess.Popen(command, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while driver.poll() is None and records(scratch / "parts") < 12:
        time.sleep(0.1)
    alive = workers()
    if alive:
        log(f"SIGKILL for a worker, {records(scratch / 'parts')} records so far")
        os.kill(alive[0], signal.SIGKILL)
    said = driver.communicate()[0]
    for line in said.splitlines():
        if re.search("died|retr|cells made|records of|written", line, re.IGNORECASE):
            print("  ", line[:200])
    assert driver.returncode == 0 and alive, said
    log("comparison, times aside")
    status = subprocess.call([sys.executable, HERE / "compare.py", "whole.jsonl", "parts/merged.jsonl", "parts"], cwd=scratch)
    log(f"one run took {alone:.1f} s")
    sys.exit(status)
