"""Kills a monitor with SIGKILL at random moments under load, and counts.

    python3 bench/serve/kill.py --program target/release/flipcast --model M --calibration C --kills 50

Senders give every request an id and send it until it is acknowledged. Afterwards every stream must hold every image exactly once, and its
windows must follow each other without a gap.
"""

import argparse
import random
import tempfile
import threading
import time

from server import Server, pixels

STREAMS = 4
IMAGES = 6


class Sender(threading.Thread):
    """Sends requests of one stream one after the other, each until it is acknowledged."""

    def __init__(self, number, place):
        super().__init__(daemon=True)
        self.number, self.place = number, place
        self.random = random.Random(number)
        self.acknowledged = self.repeated = 0
        self.stopped = False

    def run(self):
        request = 0
        while not self.stopped:
            data = self.random.randbytes(IMAGES * 28 * 28 * 3)
            body, headers = pixels(data, [IMAGES, 28, 28, 3], f"{self.number}-{request}", f"s{self.number}")
            tries = 0
            while True:
                tries += 1
                try:
                    connection = self.place["server"].connect(5)
                    connection.request("POST", "/v2/models/m/infer", body, headers)
                    response = connection.getresponse()
                    answer = response.read()
                    if response.status == 200:
                        self.repeated += b'"counted":false' in answer
                        break
                    if response.status not in (429, 503):
                        raise SystemExit(f"{response.status}: {answer[:200]}")
                except (OSError, ValueError, KeyError) as _:
                    pass
                except Exception as error:  # a connection that breaks within an answer
                    if type(error).__module__ != "http.client":
                        raise
                time.sleep(0.01)
            self.acknowledged += 1
            request += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["program", "model", "calibration"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    state = tempfile.mkdtemp(prefix="flipcast-kill-")
    arguments = ["--model", args.model, "--calibration", args.calibration, "--name", "m", "--state", state, "--window-images", "64"]
    start = lambda: Server(args.program, arguments, f"{state}/log")
    place = {"server": start()}
    senders = [Sender(number, place) for number in range(STREAMS)]
    for sender in senders:
        sender.start()
    for kill in range(args.kills):
        wait = draw.uniform(0.05, 2.0)
        time.sleep(wait)
        place["server"].kill()
        done = sum(sender.acknowledged for sender in senders)
        print(f"kill {kill + 1}: after {wait:.2f} s, {done} requests acknowledged so far", flush=True)
        place["server"] = start()
    for sender in senders:
        sender.stopped = True
    for sender in senders:
        sender.join(30)
    lost = twice = gaps = 0
    for sender in senders:
        stream = place["server"].get(f"/streams/s{sender.number}")
        expected = IMAGES * sender.acknowledged
        lost += max(0, expected - stream["images"])
        twice += max(0, stream["images"] - expected)
        windows = place["server"].get(f"/streams/s{sender.number}/windows?limit=2000")["windows"]
        for number, window in enumerate(windows):
            gaps += window["number"] != number or window["first_image"] != 64 * number or window["images"] != 64
        gaps += len(windows) not in ((stream["images"] - 1) // 64, stream["images"] // 64)
        print(f"stream s{sender.number}: {stream['images']} images, {expected} acknowledged, {len(windows)} windows, {sender.repeated} requests sent again after they were counted")
    place["server"].stop()
    print(f"{args.kills} kills: {lost} images lost, {twice} counted twice, {gaps} windows missing or wrong")
    raise SystemExit(1 if lost or twice or gaps else 0)


if __name__ == "__main__":
    main()
