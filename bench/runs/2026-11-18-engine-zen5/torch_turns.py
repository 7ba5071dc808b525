# torch_turns.py OUT STEPS_BINARY PYTHON TORCH_WORKER: steps of PyTorch and flipcast in turns, two threads
import json, os, statistics as st, subprocess, sys
out, binary, python, worker = sys.argv[1:]
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
NETS = [("cifar_resnet26", 100, 64, 32, 12, 1500), ("mobilenet_v2", 1000, 32, 224, 3, 2000), ("resnet50", 1000, 16, 224, 3, 3000)]
f = open(out, "a")
def torch(net, layout, env):
    a = [python, worker, "--layout", layout, "--model", net[0], "--classes", net[1], "--batch", net[2], "--size", net[3], "--threads", 2, "--warmup", 1, "--repeat", net[4]]
    p = subprocess.run([str(x) for x in a], check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "2", **env})
    return st.median(json.loads(p.stdout.strip().splitlines()[-1])["step_ms"])
def ours(net):
    p = subprocess.run([binary, *map(str, net[:4]), "2", str(net[5])], check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(p.split(" median ")[1].split()[0])
for net in NETS:
    first = {layout: torch(net, layout, {}) for layout in ("nchw", "channels_last")}
    best = min(first, key=first.get)
    print(net[0], "first", first, file=f, flush=True)
    for turn in range(2):
        o, t, k = ours(net), torch(net, best, {}), torch(net, best, KEEP)
        print(net[0], best, f"flipcast {o:.1f} torch {t:.1f} kept {k:.1f} ratio {t/o:.2f} kept {k/o:.2f}", file=f, flush=True)
