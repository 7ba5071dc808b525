"""Natural shift on PACS from packed images to records, in one command: trains four networks, calibrates, estimates, adapts with every method, and looks at the two phases.

    python3 studies/natural/run.py --flipcast target/release/flipcast --packed FOLDER --work FOLDER --out FOLDER

`--packed` is what `pack.py` wrote. What is in `--work` already is not made again. At `--seconds` everything that still runs is ended; what is finished is written to `--out` all the same. Needs the program
`flipcast`, and Python with PyTorch, NumPy and a JPEG decoder."""

import argparse
import concurrent.futures
import gzip
import lzma
import pathlib
import signal
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PLAN = HERE.parent / "plans" / "natural_pacs.toml"
# Sets that flipcast reads, and the packed parts they consist of.
SETS = {
    "photo_calibrate": ["photo_calibrate"],
    "photo_art_calibrate": ["photo_calibrate", "art_calibrate"],
    "photo_test": ["photo_test"],
    "art": ["art_train", "art_calibrate", "art_test"],
    "art_test": ["art_test"],
    "cartoon": ["cartoon"],
    "sketch": ["sketch"],
}
# Networks: where they start, what they are trained on, what calibrates them, what they meet.
NETWORKS = {
    f"{start}.pacs_{name}": (start, parts, calibration, tests)
    for start in ("resnet18", "resnet50")
    for name, parts, calibration, tests in (
        ("photo", "photo_train", "photo_calibrate", ["photo_test", "art", "cartoon", "sketch"]),
        ("photo_art", "photo_train,art_train", "photo_art_calibrate", ["photo_test", "art_test", "cartoon", "sketch"]),
    )
}
METHODS = ["source", "bn", "bn_cumulative", "tent", "rpl", "cpl", "eta", "eata", "rdumb", "sar", "roid", "deyo", "come", "asr"]


class Driver:
    """Where things lie, and until when they may run."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.flipcast = str(pathlib.Path(arguments.flipcast).resolve())
        self.packed, self.work, self.out = (pathlib.Path(path).resolve() for path in (arguments.packed, arguments.work, arguments.out))
        for folder in (self.work, self.out, self.work / "weights", self.work / "data", self.work / "adapted"):
            folder.mkdir(parents=True, exist_ok=True)
        self.begun = time.time()
        self.log = open(self.out / "log.txt", "a", buffering=1)

    def tell(self, text):
        line = f"{time.time() - self.begun:7.1f} s  {text}"
        print(line, flush=True)
        self.log.write(line + "\n")

    def left(self):
        return self.arguments.seconds - (time.time() - self.begun)

    def call(self, what, command, stdout=None):
        """Runs a command until it ends or the time is over; whether it ended well."""
        if self.left() < 5:
            self.tell(f"{what}: no time left")
            return False
        begun = time.time()
        process = subprocess.Popen(command, stdout=stdout or subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, errors = process.communicate(timeout=self.left())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                output, errors = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
        ended = process.returncode == 0
        self.tell(f"{what}: {'done' if ended else f'ended with {process.returncode}'} after {time.time() - begun:.1f} s")
        if what.startswith("train"):
            self.log.write(output or "")
        if not ended:
            self.log.write(" ".join(map(str, command)) + "\n" + (output or "")[-2000:] + (errors or "")[-4000:] + "\n")
        return ended

    def device(self):
        if self.arguments.device == "cpu":
            return ["--device", "cpu"]
        return ["--device", self.arguments.device, "--precision", "bf16"]

    def unpack(self):
        images = self.work / "images"
        if not images.exists():
            with tarfile.open(self.packed / "pacs.tar.xz") as archive:
                archive.extractall(self.work / "images.part", filter="data")
            (self.work / "images.part").rename(images)
        for name, parts in SETS.items():
            path = self.work / "data" / f"{name}.tar"
            if path.exists():
                continue
            with tarfile.open(path.with_suffix(".part"), "w") as archive:
                files = sorted((file.parent.name, file.name, file) for part in parts for file in (images / part).glob("*/*.jpg"))
                for label, file_name, file in files:
                    archive.add(file, f"{label}/{file_name}")
            path.with_suffix(".part").rename(path)
        self.tell("unpacked")

    def train(self, network):
        start, parts, _, _ = NETWORKS[network]
        out = self.work / "weights" / f"{network}.safetensors"
        if out.with_suffix(".json").exists():
            return True
        command = [sys.executable, HERE / "train.py", "--start", self.packed / f"{start}.xz", "--images", self.work / "images"]
        command += ["--parts", parts, "--out", out, "--epochs", str(self.arguments.epochs)]
        if self.arguments.limit:
            command += ["--limit", str(self.arguments.limit)]
        return self.call(f"train {network}", command)

    def study(self, network, only):
        """What the plan says of a network and a protocol or analysis."""
        command = [self.flipcast, "study", "run", self.arguments.plan, "--only", f"{network} {only}", "--out", self.work / "study" / network]
        command += ["--set", f"WEIGHTS={self.work / 'weights'}", "--set", f"DATA={self.work / 'data'}", "--progress", "never"]
        command += ["--jobs", str(self.arguments.jobs), "--threads", "2", *self.device()]
        if self.arguments.limit:
            command += ["--limit", str(self.arguments.limit)]
        return self.call(f"study {network} {only}", command)

    def adapt(self, network, method, test):
        """Predictions of one method on one set, and the truth beside them."""
        stem = self.work / "adapted" / f"{network}-{test}-{method}"
        result = stem.with_name(stem.name + ".json")
        if result.exists() and result.stat().st_size:
            return
        command = [self.flipcast, "adapt", "--model", self.work / "weights" / f"{network}.safetensors", "--data", self.work / "data" / f"{test}.tar"]
        command += ["--method", method, "--json", "--quiet", "--threads", "2", *self.device()]
        command += ["--clean", self.work / "data" / f"{NETWORKS[network][2]}.tar"] if method in ("eata",) else []
        command += ["--out", stem.with_name(stem.name + ".csv"), "--logits-out", stem.with_name(stem.name + ".npy")] if method in ("source", "bn", "tent") else []
        if self.arguments.limit:
            command += ["--limit", "32", "--batch-size", "16"]
        part = stem.with_name(stem.name + ".part")
        with open(part, "w") as output:
            ended = self.call(f"adapt {network} {test} {method}", command, output)
        if ended:
            part.rename(result)

    def adapt_all(self, network, methods):
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            pairs = [(method, test) for test in NETWORKS[network][3] for method in methods]
            list(pool.map(lambda pair: self.adapt(network, *pair), pairs))

    def advise(self, network):
        """What `flipcast advise` says of every set."""
        calibration = self.work / f"{network}.advice.json"
        model = ["--model", self.work / "weights" / f"{network}.safetensors", "--threads", "4", "--quiet", *self.device()]
        data = [self.flipcast, "calibrate", *model, "--data", self.work / "data" / f"{NETWORKS[network][2]}.tar", "--advise"]
        data += ["--out", calibration, "--record", self.work / f"{network}.advice.jsonl"]
        if self.arguments.limit:
            data += ["--limit", str(self.arguments.limit), "--shifts", "rotate:3,film_grain:3,hue_shift:3"]
        if not calibration.exists() and not self.call(f"calibrate for advice {network}", data):
            return
        for test in NETWORKS[network][3]:
            command = [self.flipcast, "advise", *model, "--calibration", calibration, "--data", self.work / "data" / f"{test}.tar", "--json"]
            if self.arguments.limit:
                command += ["--limit", str(self.arguments.limit)]
            with open(self.work / "adapted" / f"{network}-{test}-advice.json", "w") as output:
                self.call(f"advise {network} {test}", command, output)

    def chain(self, network):
        """Everything about one network, the most wanted first."""
        if not self.train(network):
            return
        self.study(network, "flipcast")
        if self.arguments.estimates_only:
            return
        published = [f"rdumb-1000 {test}.tar" for test in NETWORKS[network][3][1:]]
        small = network.startswith("resnet18")
        for only in published if small else []:
            self.study(network, only)
        if network.endswith("_photo"):
            self.study(network, "phases")
        self.adapt_all(network, METHODS)
        for only in [] if small else published:
            self.study(network, only)
        # It makes 32 images of every image, on the processor: minutes where the others take seconds.
        self.adapt_all(network, ["cotta"])
        if network == "resnet18.pacs_photo":
            self.advise(network)

    def collect(self):
        """Records, results of adapting, and one network's weights, in files that are small enough to be carried."""
        with gzip.open(self.out / "records.jsonl.gz", "wb") as out:
            for path in sorted((self.work / "study").glob("*/*.jsonl")):
                out.write(path.read_bytes())
        with tarfile.open(self.out / "adapted.tar.gz", "w:gz") as archive:
            for path in sorted((self.work / "adapted").glob("*")):
                archive.add(path, path.name)
            for path in sorted(self.work.glob("*.advice.json*")):
                archive.add(path, path.name)
        weights = self.work / "weights" / "resnet18.pacs_photo.safetensors"
        if weights.exists() and not self.arguments.estimates_only:
            data = lzma.compress(weights.read_bytes(), preset=1)
            for index in range(0, len(data), 15 << 20):
                (self.out / f"{weights.name}.xz.{index // (15 << 20)}").write_bytes(data[index : index + (15 << 20)])
            (self.out / "resnet18.pacs_photo.json").write_bytes(weights.with_suffix(".json").read_bytes())
        self.tell("collected " + ", ".join(f"{path.name} {path.stat().st_size / 2**20:.1f} MiB" for path in sorted(self.out.iterdir())))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flipcast", required=True)
    parser.add_argument("--packed", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=3, help="cells and adaptations at once of every network")
    parser.add_argument("--plan", default=PLAN)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--estimates-only", action="store_true", help="train, calibrate and estimate, and nothing else")
    parser.add_argument("--limit", type=int, help="images of every set, to try it out")
    driver = Driver(parser.parse_args())
    driver.unpack()
    networks = driver.arguments.networks.split(",")
    with concurrent.futures.ThreadPoolExecutor(len(networks)) as pool:
        for future in [pool.submit(driver.chain, network) for network in networks]:
            future.result()
    driver.collect()


if __name__ == "__main__":
    main()
