"""A proxy in front of an object store that fails as stores and networks do, counts what it did, and knows whether a client gave up on a late answer."""

import http.client
import pathlib
import random
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Shares of requests: 503, half of the body behind the length of the whole, a body that is shorter than was listed, a broken connection.
FAULTS = {"503": 0.01, "cut": 0.01, "short": 0.005, "reset": 0.01}
# For so long nothing listens: whoever connects is refused.
AWAY_SECONDS = 1.0


def refused_connections():
    """Connections that were refused so far, as the kernel counts them for all programs of this network namespace."""
    rows = [line.split() for line in pathlib.Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(*rows))["AttemptFails"])


class Proxy(ThreadingHTTPServer):
    """Passes on what is asked of the server at port `behind`. Faults come by chance, from `seed`, but for two that come at fixed requests, so that they are met however few there are:
    of every `period` requests one is answered `late_seconds` late, which must be more than the client's timeout, and at one all connections break and nobody listens for a while."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, behind, seed, period, late_seconds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind, self.random, self.period, self.late_seconds = behind, random.Random(seed), period, late_seconds
        self.lock, self.open, self.away = threading.Lock(), set(), threading.Event()
        self.counts = {"passed": 0, **{kind: 0 for kind in FAULTS}, "late": 0, "away": 0}
        # Late answers that were sent or would have been, and those of them that the client no longer waited for.
        self.waited = self.given_up = 0
        self.asked = self.lists = 0
        # Every answer for it is short.
        self.doomed = None
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            self.serve_forever(poll_interval=0.02)
            self.socket.close()
            time.sleep(AWAY_SECONDS)
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.server_bind()
            self.server_activate()
            self.away.clear()

    def draw(self, path):
        """What happens to a request."""
        with self.lock:
            self.asked += 1
            self.lists += "list-type=2" in path
            if self.doomed and self.doomed in path:
                return "short"
            kind = {self.period // 3: "late", 2 * self.period // 3: "away"}.get(self.asked % self.period)
            if kind is None:
                place = self.random.random()
                for name, share in FAULTS.items():
                    place -= share
                    if place < 0:
                        kind = name
                        break
            self.counts[kind or "passed"] += 1
            return kind

    def settle(self):
        """Waits until every late answer was due: a client that gave up on it and asked again may be done before."""
        while self.waited < self.counts["late"]:
            time.sleep(0.1)

    def go_away(self):
        """Breaks every connection, and listens again only after a while."""
        if self.away.is_set():
            return
        self.away.set()
        self.shutdown()
        with self.lock:
            connections = list(self.open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # Closed already.

    def handle_error(self, request, client_address):
        pass  # A client that gave up on a late answer, or a connection that was broken on purpose.


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    to_server = threading.local()

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.open.add(self.connection)

    def finish(self):
        with self.server.lock:
            self.server.open.discard(self.connection)
        super().finish()

    def fetch(self):
        if not hasattr(self.to_server, "connection"):
            self.to_server.connection = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        self.to_server.connection.request("GET", self.path, headers=headers)
        answer = self.to_server.connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def client_is_gone(self):
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def wait(self):
        """Until it is late; the server that goes away meanwhile leaves this connection alone, so that only the client can have ended it."""
        with self.server.lock:
            self.server.open.discard(self.connection)
        time.sleep(self.server.late_seconds)
        with self.server.lock:
            self.server.given_up += self.client_is_gone()
            self.server.waited += 1
            self.server.open.add(self.connection)

    def do_GET(self):
        fault = self.server.draw(self.path)
        if fault == "away":
            self.server.go_away()
        if fault in ("away", "reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if fault == "late":
            self.wait()
        if fault == "503":
            status, headers, body = 503, [], b"<Error><Code>SlowDown</Code></Error>"
        else:
            status, headers, body = self.fetch()
        sent = body[: len(body) // 2] if fault in ("cut", "short") else body
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "server", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(sent if fault == "short" else body)))
        self.end_headers()
        self.wfile.write(sent)
        if fault == "cut":
            self.close_connection = True
