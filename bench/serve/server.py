"""A monitor as a child process, and plain requests to it."""

import http.client
import json
import os
import signal
import subprocess


class Server:
    def __init__(self, program, arguments, log):
        self.log = open(log, "ab")
        command = [program, "serve", "--listen", "127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode().strip()
        if not line.startswith("listening on http://"):
            raise SystemExit(f"the server said {line!r}; see {log}")
        self.address = line.removeprefix("listening on http://")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.address, timeout=timeout)

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return 1024 * int(line.split()[1])


    def processor(self):
        """Seconds of processor time so far, of all threads."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pixels(data, shape, request_id, stream):
    """A request with binary pixels: its body and headers."""
    head = json.dumps({
        "id": request_id, "parameters": {"stream": stream, "binary_data_output": True},
        "inputs": [{"name": "pixels", "datatype": "UINT8", "shape": shape, "parameters": {"binary_data_size": len(data)}}],
    }).encode()
    return head + data, {"Inference-Header-Content-Length": str(len(head))}
