"""One HTTP call, with a time limit, and retried if a retry is safe."""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import random
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, TypeVar, Union
from urllib.parse import urlsplit

from ._connections import Cancel, Connection, Connections
from .errors import CdpError, UnexpectedAnswerError, error_from, network_error

#: The service did nothing, so any call can be retried.
_NOTHING_DONE = {"rate_limited", "overloaded", "table_busy", "database_unavailable", "disk_full"}
#: The service may have done it, so only an idempotent call can be retried.
_OUTCOME_UNKNOWN = {"network_error", "request_in_flight", "outcome_unknown"}
#: Responses of a proxy that could not reach the service, or lost the connection to it.
_GATEWAY_STATUSES = {429, 502, 503, 504}

_BACKOFF_SECONDS = 0.25
_BACKOFF_MAX_SECONDS = 8.0
#: A longer wait is not worth a retry.
_RETRY_AFTER_MAX_SECONDS = 60.0

Headers = Callable[[], Mapping[str, str]]
T = TypeVar("T")


@dataclass
class Request:
    method: str
    path: str
    #: A second execution changes nothing: a read, or a write with an Idempotency-Key.
    idempotent: bool
    #: JSON, unless the headers say otherwise; or what makes the pieces of a body of any size.
    body: Union[bytes, Callable[[], Iterable[bytes]], None] = None
    headers: Dict[str, str] = field(default_factory=dict)
    #: The body can be sent again.
    repeatable: bool = True
    #: Set by the transport.
    retries: int = 0


class Stream:
    """A response whose body is still to be read. Closing it early cancels the statement."""

    def __init__(
        self,
        connection: Connection,
        sock: Optional[socket.socket],
        response: http.client.HTTPResponse,
        cancel: Cancel,
    ) -> None:
        self._connection = connection
        self._sock = sock
        self._response = response
        self._cancel = cancel

    def read(self) -> bytes:
        """
        What has arrived, at most 64 KiB; b"" at the end.

        :raises NetworkError: if the response broke off
        """
        try:
            with self._cancel.watching(self._sock):
                return self._response.read1(65_536)
        except (OSError, http.client.HTTPException) as error:
            self._cancel.check()
            raise network_error("The stream was interrupted", error) from error

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class Transport:
    """
    Thread-safe.

    :raises ValueError: if the URL or the token is missing or cannot be one. The message never holds
        the token
    """

    def __init__(
        self,
        url: Optional[str],
        token: Optional[str],
        *,
        timeout: float,
        max_retries: int,
        headers: Optional[Headers],
        ssl_context: Optional[ssl.SSLContext],
    ) -> None:
        self.url = _checked_url(os.environ.get("CDP_URL") if url is None else url)
        self._token = _checked_token(os.environ.get("CDP_TOKEN") if token is None else token)
        self._base = urlsplit(self.url).path
        self.timeout = timeout
        self._connections = Connections(self.url, timeout, ssl_context)
        self._headers = headers
        self._max_retries = max_retries

    def close(self) -> None:
        self._connections.close()

    def json(self, request: Request, cancel: Optional[Cancel] = None) -> Any:
        """The response. :raises CdpError: Canceled:"""
        connection, _, response = self._send(request, cancel or Cancel(), _read_json)
        self._connections.give_back(connection)
        return response

    def open(self, request: Request, media_type: str, cancel: Optional[Cancel] = None) -> Stream:
        """
        The response with its body unread.

        :raises CdpError: unexpected_answer if it is not of this media type
        """

        def check(response: http.client.HTTPResponse) -> http.client.HTTPResponse:
            if response.headers.get_content_type() != media_type:
                raise _unexpected(response)
            return response

        cancel = cancel or Cancel()
        request.headers["Accept"] = media_type
        connection, sock, response = self._send(request, cancel, check)
        return Stream(connection, sock, response, cancel)

    def _send(
        self, request: Request, cancel: Cancel, read: Callable[[http.client.HTTPResponse], T]
    ) -> Tuple[Connection, Optional[socket.socket], T]:
        while True:
            try:
                return self._attempt(request, cancel, read)
            except CdpError as error:
                if request.retries >= self._max_retries or not _may_retry(error, request):
                    raise
                if not request.repeatable:
                    raise
                delay = _delay(error, request.retries)
            cancel.sleep(delay)
            request.retries += 1

    def _attempt(
        self, request: Request, cancel: Cancel, read: Callable[[http.client.HTTPResponse], T]
    ) -> Tuple[Connection, Optional[socket.socket], T]:
        headers = self._all_headers(request)
        cancel.check()
        connection: Optional[Connection] = None
        try:
            connection = self._connections.take()
            # http.client forgets it if the response is the connection's last one.
            sock = connection.sock
            with cancel.watching(sock):
                try:
                    path = self._base + request.path
                    body = request.body() if callable(request.body) else request.body
                    connection.request(request.method, path, body, headers)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # It may have answered before it had read the body.
                response = connection.getresponse()
                if not 200 <= response.status < 300:
                    raise _error_in(response)
                return connection, sock, read(response)
        except BaseException as error:
            if connection is not None:
                connection.close()
            cancel.check()
            if isinstance(error, (OSError, http.client.HTTPException)):
                raise network_error("No response", error) from error
            raise

    def _all_headers(self, request: Request) -> Dict[str, str]:
        headers = dict(self._headers() if self._headers is not None else {})
        headers["Authorization"] = f"Bearer {self._token}"
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        headers.update(request.headers)
        return headers


def _read_json(response: http.client.HTTPResponse) -> Any:
    body = response.read()
    try:
        return json.loads(body)
    except ValueError:
        raise _unexpected(response) from None


def _error_in(response: http.client.HTTPResponse) -> CdpError:
    found = error_from(_read_json(response), _retry_after(response))
    return _unexpected(response) if found is None else found


def _unexpected(response: http.client.HTTPResponse) -> CdpError:
    return UnexpectedAnswerError(
        "unexpected_answer",
        f"The response with status {response.status} is not from the service",
        status=response.status,
        retry_after=_retry_after(response),
    )


def _retry_after(response: http.client.HTTPResponse) -> Optional[float]:
    """Seconds, or a date (RFC 9110, 10.2.3)."""
    value = response.headers.get("Retry-After", "")
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
        return max(0.0, moment.timestamp() - time.time())
    except (TypeError, ValueError, IndexError):
        return None


def _may_retry(error: CdpError, request: Request) -> bool:
    if (error.retry_after or 0) > _RETRY_AFTER_MAX_SECONDS:
        return False
    if error.code in _NOTHING_DONE:
        return True
    if not request.idempotent:
        return False
    if error.code == "unexpected_answer":
        return error.status in _GATEWAY_STATUSES
    return error.code in _OUTCOME_UNKNOWN


def _delay(error: CdpError, retries: int) -> float:
    """Backoff with full jitter on top of Retry-After: clients do not return all at once."""
    # A float has no 2.0**1024.
    backoff = min(_BACKOFF_MAX_SECONDS, _BACKOFF_SECONDS * 2.0 ** min(retries, 10))
    return (error.retry_after or 0) + random.random() * backoff


def _checked_url(url: Optional[str]) -> str:
    if url is None:
        raise ValueError("url is missing; give it, or set CDP_URL")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or any(c <= " " or c > "~" for c in url):
        raise ValueError("url must be a URL such as http://127.0.0.1:8080")
    if "@" in parts.netloc:
        raise ValueError("url: name and password do not belong there; the token is an argument")
    return url.rstrip("/")


def _checked_token(token: Optional[str]) -> str:
    if token is None or not token.strip():
        raise ValueError("token is missing; give it, or set CDP_TOKEN")
    # http.client would refuse it too, and show it.
    if any(c <= " " or c > "~" for c in token):
        raise ValueError("token: it has spaces or characters that a token never has")
    return token
