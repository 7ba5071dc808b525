"""Load, many streams, many connections, a burst and a full disk: what a monitor stands, in figures.

    python3 bench/serve/load.py --program target/release/flipcast --model M --calibration C [--full-disk 2000]

`--full-disk` mounts a small file system and needs root.
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

SIDE = 28
draw = random.Random(0)


def request(images, stream, request_id=""):
    return pixels(draw.randbytes(images * SIDE * SIDE * 3), [images, SIDE, SIDE, 3], request_id, stream)


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
            connection.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
        held.append(connection)
    body, headers = request(4, "beside")
    status, _ = post(server.connect(), body, headers)
    print(f"{count} connections, half of them with half a request: a request beside them is answered with {status}; memory grew by {mib(server.memory() - before)}", flush=True)
    for connection in held:
        connection.close()


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
        live = server.get("/v2/health/live")
        # Room again: the state is that of the acknowledged images.
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        body, headers = request(1, "after", "again")
        for _ in range(20):
            status, _ = post(server.connect(), body, headers)
            if status == 200:
                break
            time.sleep(0.5)
        counted = server.get("/streams?limit=1")["count"] - 1
        print(f"a full disk: answers {statuses}, live {live}; with room again {status}; {counted} images counted, {acknowledged} acknowledged", flush=True)
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
    args = parser.parse_args()
    state = tempfile.mkdtemp(prefix="flipcast-load-")
    server = start(args, state, state)
    print(f"memory at the start: {mib(server.memory())}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}", flush=True)
    for images, senders in [(1, 1), (64, 1), (64, 4)]:
        load(server, images, senders, args.seconds)
    connections(server, 1000)
    streams(server, 200, 64)
    streams(server, args.streams, 1)
    started = time.time()
    server.stop()
    print(f"stopped in {time.time() - started:.1f} s; the state has {mib(os.path.getsize(state + '/flipcast.redb'))}", flush=True)
    started = time.time()
    server = start(args, state, state)
    count = server.get("/streams?limit=1")["count"]
    print(f"started again with {count} streams in {time.time() - started:.1f} s", flush=True)
    server.stop()
    burst(args, args.burst)
    if args.full_disk:
        full_disk(args)


if __name__ == "__main__":
    main()
