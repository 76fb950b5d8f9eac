"""Connections to the service, kept for some seconds; and how another thread ends a waiting call."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import ssl
import threading
import time
from typing import Iterator, List, Optional, Set, Tuple, Union
from urllib.parse import urlsplit

Connection = Union[http.client.HTTPConnection, http.client.HTTPSConnection]

#: Far below the idle time after which servers and proxies close a connection.
_IDLE_SECONDS = 4.0


class Connections:
    """The idle connections of a client. A forked process leaves its parent's alone."""

    def __init__(self, url: str, timeout: float, context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._timeout = timeout
        self._is_https = parts.scheme == "https"
        self._context = context
        self._lock = threading.Lock()
        self._idle: List[Tuple[float, Connection]] = []
        self._pid = os.getpid()

    def take(self) -> Connection:
        """:raises OSError: if no connection is available"""
        while True:
            with self._lock:
                if self._pid != os.getpid():
                    self._pid, self._idle = os.getpid(), []
                if not self._idle:
                    break
                since, connection = self._idle.pop()
            if time.monotonic() - since < _IDLE_SECONDS and not _is_readable(connection.sock):
                return connection
            connection.close()
        connection = self._new()
        connection.connect()
        return connection

    def give_back(self, connection: Connection) -> None:
        """Its response was read to the end."""
        if connection.sock is None:
            return
        with self._lock:
            self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _new(self) -> Connection:
        if not self._is_https:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        if self._context is None:
            self._context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=self._context
        )


def _is_readable(sock: Optional[socket.socket]) -> bool:
    """An idle connection becomes readable only if it was closed."""
    if sock is None:
        return True
    try:
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


class Canceled(Exception):
    """The call was ended by :meth:`Cancel.set`."""


class Cancel:
    """Ends calls from another thread: cuts off what they wait for, and wakes those that sleep."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sockets: Set[socket.socket] = set()

    def set(self) -> None:
        self._event.set()
        with self._lock:
            for sock in self._sockets:
                try:
                    # Bypasses TLS, whose state belongs to the thread that reads.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
                except OSError:
                    pass  # It is closed already.

    @contextlib.contextmanager
    def watching(self, sock: Optional[socket.socket]) -> Iterator[None]:
        """:raises Canceled: if it is too late"""
        with self._lock:
            if sock is not None:
                self._sockets.add(sock)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._sockets.discard(sock)  # type: ignore[arg-type]

    def check(self) -> None:
        if self._event.is_set():
            raise Canceled

    def sleep(self, seconds: float) -> None:
        """:raises Canceled:"""
        if self._event.wait(seconds):
            raise Canceled
