"""What the tests share: the client under test, and servers that answer as a network can."""

from __future__ import annotations

import itertools
import os
import socketserver
import threading
import unittest
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List

from cdp_data_engine import CdpClient

_numbers = itertools.count(1)


def new_name() -> str:
    return f"t{os.getpid()}_{next(_numbers)}"


class ServiceTest(unittest.TestCase):
    """With CDP_URL and CDP_TOKEN of a service that runs."""

    def setUp(self) -> None:
        self.client = CdpClient()
        self.addCleanup(self.client.close)

    def table(self, **columns: str) -> str:
        name = new_name()
        self.client.create_table(name, columns or {"n": "INTEGER"})
        return name

    def count(self, table: str) -> "tuple[int, int]":
        sql = f"SELECT count(*) AS rows, count(DISTINCT n) AS different FROM {table}"
        row = self.client.query(sql).rows[0]
        return row["rows"], row["different"]


Response = Callable[[Any, bytes], None]


def status(line: str, *headers: str, body: bytes = b"") -> Response:
    """An HTTP response."""
    head = [f"HTTP/1.1 {line}", f"Content-Length: {len(body)}", *headers, "Connection: close"]
    data = "\r\n".join(head).encode() + b"\r\n\r\n" + body
    return lambda sock, request: sock.sendall(data)


def cut_stream(*lines: bytes) -> Response:
    """Chunks without the last one: the connection ends first."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
    data = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    return lambda sock, request: sock.sendall(data)


@contextmanager
def server(*responses: Response) -> Iterator["tuple[str, List[bytes]]"]:
    """Gives each connection its response, the last one to all further ones. Yields URL and requests."""
    requests: List[bytes] = []
    ended = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            request = b""
            while b"\r\n\r\n" not in request:
                part = self.request.recv(65_536)
                if not part:
                    return
                request += part
            requests.append(request)
            responses[min(len(requests), len(responses)) - 1](self.request, request)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}", requests
        finally:
            ended.set()
            running.shutdown()
            thread.join()


def hang(sock: Any, request: bytes) -> None:
    """No response: waits until the client has left."""
    while sock.recv(65_536):
        pass
