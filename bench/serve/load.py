"""Load, many streams, many connections, a burst and a full disk: what a monitor stands, in figures.

    python3 bench/serve/load.py --program target/release/flipcast --model M --calibration C [--side 28] [--only load,connections] [--full-disk 2000]

`--full-disk` mounts a small file system and needs root. `outputs` needs numpy. Times of the bare engine (`flipcast bench`) stand before and after those of requests.
`--only share --engine target/release/two_looks` compares processor time of the server and of the engine alone, in turns.
"""

import argparse
import http.client
import json
import os
import random
import re
import socket
import subprocess
import tempfile
import threading
import time

from server import Server, pixels

draw = random.Random(0)
side = 28
parts = ["load", "connections", "slow", "streams", "burst", "outputs"]


def request(images, stream, request_id=""):
    return pixels(draw.randbytes(images * side * side * 3), [images, side, side, 3], request_id, stream)


def post(connection, body, headers):
    connection.request("POST", "/v2/models/m/infer", body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def metric(server, name):
    connection = server.connect()
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([\d.eE+-]+)$", text, re.M))


def mib(size):
    return f"{size / 2**20:.0f} MiB"


def load(server, images, senders, seconds):
    """Requests of `images` images from `senders` connections for `seconds`."""
    times, counted = [], []
    network, end = metric(server, "flipcast_network_duration_seconds_sum"), time.time() + seconds

    def work(number):
        body, headers = request(images, f"load-{number}")
        connection = server.connect()
        while time.time() < end:
            started = time.time()
            status, _ = post(connection, body, headers)
            if status == 200:
                times.append(time.time() - started)
                counted.append(images)

    started = time.time()
    threads = [threading.Thread(target=work, args=[number]) for number in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.time() - started
    network = metric(server, "flipcast_network_duration_seconds_sum") - network
    times.sort()
    print(f"{senders} senders, {images} images per request: {sum(counted) / elapsed:.0f} images/s, median {1e3 * times[len(times) // 2]:.1f} ms, "
          f"99th percentile {1e3 * times[int(0.99 * len(times))]:.1f} ms; the source pass took {100 * network / elapsed:.0f}% of the time", flush=True)


def share(args, batches, rounds):
    """Processor time per request of 64 images, less that of the engine for both looks at them, in turns."""
    state = tempfile.mkdtemp(prefix="flipcast-share-")
    server = start(args, state, state)

    def requests(count):
        # Silent connections are closed, and the engine alone may take longer.
        connection, times = server.connect(), []
        for number in range(count):
            body, headers = request(64, "share")
            started = time.time()
            status, answer = post(connection, body, headers)
            assert status == 200, answer
            times.append(time.time() - started)
        return times

    requests(2)
    pairs, times = [], []
    for number in range(rounds):
        engine = json.loads(subprocess.run([args.engine, args.model, str(batches)], capture_output=True, text=True, check=True).stdout)
        before = server.processor()
        took = requests(batches)
        used = (server.processor() - before) / batches
        times += took
        pairs.append((used, engine["processor"], sorted(took)[len(took) // 2], engine["wall"]))
        print(f"round {number + 1}: {1e3 * used:.1f} ms of processor time per request of 64, {1e3 * engine['processor']:.1f} ms by the engine alone "
              f"({100 * (used / engine['processor'] - 1):+.1f}%); on the clock {1e3 * pairs[-1][2]:.1f} ms (median) and {1e3 * engine['wall']:.1f} ms", flush=True)
    extra = sorted(used / engine - 1 for used, engine, _, _ in pairs)
    clock = sorted(request / engine - 1 for _, _, request, engine in pairs)
    times.sort()
    print(f"{rounds} rounds of {batches}: the server adds {100 * extra[len(extra) // 2]:.1f}% to the engine's processor time (median of pairs; {100 * extra[0]:.1f}% to {100 * extra[-1]:.1f}%), "
          f"{100 * clock[len(clock) // 2]:.1f}% on the clock; {64 * len(times) / sum(times):.0f} images/s from one sender, "
          f"99th percentile {1e3 * times[int(0.99 * len(times))]:.0f} ms; load average {os.getloadavg()[0]:.1f}", flush=True)
    server.stop()


def bare(args):
    """The engine alone: a forward pass of 64 images."""
    command = [args.program, "bench", "--model", args.model, "--batch", "64"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    print("\n".join(f"the bare engine: {line}" for line in text.splitlines() if line.startswith(("forward", "step"))), flush=True)


def outputs(args, images, senders=8):
    """A burst of logits that another server predicted."""
    import numpy

    folder = tempfile.mkdtemp(prefix="flipcast-outputs-")
    numbers = numpy.random.default_rng(0)

    def made(count, noise):
        labels = numbers.integers(0, 10, count)
        logits = noise * numbers.standard_normal((count, 10))
        logits[numpy.arange(count), labels] += 4
        return logits.astype("<f4"), labels

    def save(name, count, noise):
        logits, labels = made(count, noise)
        numpy.save(f"{folder}/{name}.npy", logits)
        numpy.save(f"{folder}/{name}_labels.npy", labels)
        return f"{folder}/{name}.npy", f"{folder}/{name}_labels.npy"

    clean, labels = save("clean", 5000, 1.0)
    command = [args.program, "calibrate", "--logits", clean, "--truth", labels, "--out", f"{folder}/calibration.json"]
    for number in range(9):
        logits, truth = save(f"noise{number}", 2000, 1.2 + 0.2 * number)
        command += ["--also-logits", f"noise{number}:1={logits},{truth}"]
    subprocess.run(command, check=True, capture_output=True)
    server = Server(args.program, ["--calibration", f"{folder}/calibration.json", "--state", folder], f"{folder}/log")
    left, times, statuses, lock = [images // 1024 + 1], [], {}, threading.Lock()
    peak, before, started = [server.memory()], server.memory(), time.time()

    def work(sender):
        connection = server.connect()
        logits, _ = made(1024, 1.0)
        head = json.dumps({"outputs": [{"name": "y", "datatype": "FP32", "shape": [1024, 10], "parameters": {"binary_data_size": logits.nbytes}}]}).encode()
        while True:
            with lock:
                if left[0] == 0:
                    return
                left[0] -= 1
                number = left[0]
            headers = {"ce-specversion": "1.0", "ce-type": "org.kubeflow.serving.inference.response", "ce-source": "load", "ce-id": str(number),
                       "ce-inferenceservicename": f"s{sender}", "Inference-Header-Content-Length": str(len(head))}
            asked = time.time()
            while True:
                connection.request("POST", "/", head + logits.tobytes(), headers)
                response = connection.getresponse()
                response.read()
                with lock:
                    statuses[response.status] = statuses.get(response.status, 0) + 1
                    peak.append(server.memory())
                if response.status != 429:
                    break
                time.sleep(0.1)
            times.append(time.time() - asked)

    threads = [threading.Thread(target=work, args=[number]) for number in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, sent = time.time() - started, 1024 * (images // 1024 + 1)
    counted = sum(stream["images"] for stream in server.get("/streams")["streams"])
    times.sort()
    print(f"logits of {sent} images from {senders} senders, 1024 per request: {elapsed:.0f} s, {counted / elapsed:.0f} images/s, 99th percentile {1e3 * times[int(0.99 * len(times))]:.0f} ms, "
          f"answers {statuses}, memory {mib(before)} before and {mib(max(peak))} at most; {counted} counted", flush=True)
    assert counted == sent
    server.stop()
    print(f"the state has {mib(os.path.getsize(folder + '/flipcast.redb'))}", flush=True)


def streams(server, count, images):
    """Many streams with a few images each, in and out of memory."""
    before = server.memory()
    connection, started = server.connect(), time.time()
    body, headers = request(images, "x")
    for number in range(count):
        body_of = body.replace(b'"stream": "x"', b'"stream": "x%d-%05d"' % (images, number))
        length = {"Inference-Header-Content-Length": str(int(headers["Inference-Header-Content-Length"]) + 6 + len(str(images)))}
        status, answer = post(connection, body_of, length)
        assert status == 200, answer
    in_memory = min(count, metric(server, "flipcast_streams_in_memory"))
    grown = server.memory() - before
    print(f"{count} streams of {images} images: {time.time() - started:.0f} s, {in_memory:.0f} in memory, which grew by {mib(grown)} "
          f"({grown / in_memory / 1024:.0f} KiB per stream in memory)", flush=True)
    assert server.get(f"/streams/x{images}-00000")["images"] == images


def connections(server, count):
    """Idle connections, and slow ones that send half a request."""
    before, held = server.memory(), []
    host, port = server.address.split(":")
    for number in range(count):
        connection = socket.create_connection((host, int(port)))
        if number % 2:
            connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{")
        held.append(connection)
    body, headers = request(4, "beside")
    status, _ = post(server.connect(), body, headers)
    print(f"{count} connections, half of them with half a request: a request beside them is answered with {status}; memory grew by {mib(server.memory() - before)}", flush=True)
    for connection in held:
        connection.close()


def slow(args, clients=100):
    """Clients that send a byte a second, and clients that never read their answers."""
    folder = tempfile.mkdtemp(prefix="flipcast-slow-")
    server = start(args, folder, folder, "--timeout", "5")
    before, held = server.memory(), []
    host, port = server.address.split(":")
    body, headers = request(64, "unread")
    head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + f"Content-Length: {len(body)}\r\n\r\n"
    for number in range(clients):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(head.encode())
        if number < 8:
            connection.sendall(body)
        held.append(connection)
    started, peak, answers, ended = time.time(), [before], [], set()
    while time.time() - started < 12:
        for number, connection in enumerate(held[8:]):
            try:
                connection.sendall(body[:1])
            except OSError:
                ended.add(number)
        fast, fast_headers = request(4, "beside")
        asked = time.time()
        status, _ = post(server.connect(), fast, fast_headers)
        answers.append((status, time.time() - asked))
        peak.append(server.memory())
        time.sleep(1)
    print(f"{clients} slow clients, 8 of which never read their answers, with --timeout 5: requests beside them are answered with {sorted({status for status, _ in answers})} "
          f"within {max(seconds for _, seconds in answers):.2f} s, memory {mib(before)} before and {mib(max(peak))} at most; {len(ended)} of {clients - 8} that send a byte a second were cut off; "
          f"{server.get('/streams/unread')['images']} images of those that sent everything are counted", flush=True)
    for connection in held:
        connection.close()
    server.stop()


def burst(args, images, senders=48):
    """More images than can be predicted, as fast as they can be sent."""
    folder = tempfile.mkdtemp(prefix="flipcast-burst-")
    server = start(args, folder, folder, "--queue", "16", "--max-body", "8")
    body, headers = request(256, "burst")
    statuses, peak = {}, [server.memory()]
    left = [images // 256]
    lock = threading.Lock()

    def work():
        connection = server.connect()
        while True:
            with lock:
                if left[0] == 0:
                    return
                left[0] -= 1
            status, _ = post(connection, body, headers)
            with lock:
                statuses[status] = statuses.get(status, 0) + 1
                peak.append(server.memory())

    before, started = server.memory(), time.time()
    threads = [threading.Thread(target=work) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = server.get("/streams/burst")["images"]
    print(f"a burst of {images} images from {senders} senders: {time.time() - started:.0f} s, answers {statuses}, memory {mib(before)} before and {mib(max(peak))} at most; "
          f"{counted} counted, {256 * statuses.get(200, 0)} acknowledged", flush=True)
    # What was answered too late is counted all the same.
    assert 0 <= counted - 256 * statuses.get(200, 0) <= 256 * statuses.get(504, 0)
    server.stop()


def full_disk(args):
    folder = tempfile.mkdtemp(prefix="flipcast-full-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], check=True)
    try:
        server = start(args, folder, tempfile.mkdtemp())
        statuses, acknowledged = {}, 0
        connection = server.connect()
        for number in range(args.full_disk):
            body, headers = request(1, f"s{number}", f"{number}")
            status, _ = post(connection, body, headers)
            statuses[status] = statuses.get(status, 0) + 1
            acknowledged += status == 200
        live, ready = server.get("/v2/health/live"), server.get("/v2/health/ready")
        # Room again: the state is that of the acknowledged images.
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        body, headers = request(1, "after", "again")
        for _ in range(20):
            status, _ = post(server.connect(), body, headers)
            if status == 200:
                break
            time.sleep(0.5)
        counted = server.get("/streams?limit=1")["count"] - 1
        print(f"a full disk: answers {statuses}, {live}, {ready}; with room again {status}; {counted} images counted, {acknowledged} acknowledged", flush=True)
        assert counted == acknowledged and status == 200
        server.stop()
    finally:
        subprocess.run(["umount", "-l", folder])


def start(args, state, logs, *more):
    arguments = ["--model", args.model, "--calibration", args.calibration, "--name", "m", "--state", state, "--max-streams", "200000", *more]
    return Server(args.program, arguments, f"{logs}/log")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["program", "model", "calibration"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--full-disk", type=int, default=0, metavar="REQUESTS")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--burst", type=int, default=1_000_000)
    parser.add_argument("--engine", help="the program two_looks, for the part share")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=28, help="height and width of images")
    parser.add_argument("--only", default=",".join(parts), help=f"some of {', '.join(parts)}")
    args = parser.parse_args()
    global side
    side, only = args.side, args.only.split(",")
    if "share" in only:
        share(args, args.batches, args.rounds)
        only.remove("share")
    if not only and not args.full_disk:
        return
    state = tempfile.mkdtemp(prefix="flipcast-load-")
    server = start(args, state, state, "--streams-in-memory", str(args.streams + 1000))
    print(f"memory at the start: {mib(server.memory())}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}", flush=True)
    if "load" in only:
        for images, senders in [(1, 1), (64, 1), (64, 4)]:
            bare(args)
            load(server, images, senders, args.seconds)
        bare(args)
    if "connections" in only:
        connections(server, 1000)
    if "streams" in only:
        streams(server, 200, 64)
        streams(server, args.streams, 1)
    started = time.time()
    server.stop()
    print(f"stopped in {time.time() - started:.1f} s; the state has {mib(os.path.getsize(state + '/flipcast.redb'))}", flush=True)
    if "streams" in only:
        started = time.time()
        server = start(args, state, state)
        count = server.get("/streams?limit=1")["count"]
        print(f"started again with {count} streams in {time.time() - started:.1f} s", flush=True)
        server.stop()
    if "slow" in only:
        slow(args)
    if "burst" in only:
        burst(args, args.burst)
    if "outputs" in only:
        outputs(args, args.burst)
    if args.full_disk:
        full_disk(args)


if __name__ == "__main__":
    main()
