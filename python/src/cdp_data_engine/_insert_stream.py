"""
Inserts streams (docs/api.md, "Streams"): records, or text as it is.

http.client reads a response only when it has sent the whole request, so nothing is known of a
stream before its end. Records are therefore sent as streams of one chunk of the service each, which
can be sent again. Text is one stream; if it breaks off, it is sent from its beginning if it can be
read again, and the service skips what it has stored.
"""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterable, Callable, Iterable, Iterator, List, Mapping, Optional, Union
from urllib.parse import quote

from ._batches import Cutter, Item
from ._insert import Insert, InsertResult, OnProgress, StoreOptions
from ._operations import Operation, new_key
from ._transport import Request
from .errors import CallerError, CdpError

#: A chunk of the service: this much is stored in one transaction.
_CHUNK_RECORDS = 10_000
_CHUNK_BYTES = 1024 * 1024
#: So many records are sent at a time if the service does not list all bad ones of a chunk.
_FEW = 250

Pieces = Union[Iterable[Union[str, bytes]], AsyncIterable[Union[str, bytes]]]
#: A function is called again if the text has to be sent again.
Text = Union[str, bytes, Pieces, Callable[[], Pieces]]


class RecordStream(Insert):
    """Records, in streams of one chunk each."""

    def cutter(self) -> Cutter:
        return Cutter(_CHUNK_RECORDS, _CHUNK_BYTES)

    def send(self, batch: List[Item]) -> Operation[None]:
        try:
            yield from super().send(batch)
        except _TooManyErrors:
            for at in range(0, len(batch), _FEW):
                yield from super().send(batch[at : at + _FEW])

    def _request(self, batch: List[Item]) -> Request:
        request = self._options.request(self._table, b"\n".join([i.json for i in batch]), None)
        request.headers["Content-Type"] = "application/x-ndjson"
        return request

    def _send_good(self, error: CdpError, batch: List[Item]) -> Operation[None]:
        if self._on_refused is not None and error.error_count > len(error.errors):
            if len(batch) > _FEW:
                raise _TooManyErrors
        error.message = _in_record(error.message, error.errors[0] if error.errors else {})
        error.errors = [
            {**_without_line(place), "message": _in_record(place["message"], place)}
            for place in error.errors
        ]
        yield from super()._send_good(error, batch)


class _TooManyErrors(Exception):
    """The service does not list all of them."""


def _without_line(place: Mapping[str, Any]) -> Mapping[str, Any]:
    if "line" not in place:
        return place
    other = {name: value for name, value in place.items() if name not in ("line", "offset")}
    return {**other, "record": place["line"] - 1}


def _in_record(message: str, place: Mapping[str, Any]) -> str:
    line = place.get("line")
    return message if line is None else message.replace(f"Line {line}", f"Record {line - 1}", 1)


class TextStream:
    """Text as it is, in one request."""

    def __init__(
        self,
        table: str,
        text: Text,
        content_type: str,
        options: StoreOptions,
        delimiter: Optional[str],
        null: Optional[str],
        idempotency_key: Optional[str],
        on_progress: Optional[OnProgress],
        loop: Optional[asyncio.AbstractEventLoop] = None,
    ) -> None:
        self._text = text
        self._loop = loop
        self._on_progress = on_progress
        self.result = InsertResult()
        whole = text.encode() if isinstance(text, str) else text
        is_whole = isinstance(whole, bytes)
        request = options.request(
            table, whole if isinstance(whole, bytes) else b"", idempotency_key or new_key()
        )
        if not is_whole:
            request.body = self._pieces
            request.repeatable = callable(text)
        request.headers["Content-Type"] = content_type
        for name, value in (("delimiter", delimiter), ("null", null)):
            if value is not None:
                separator = "&" if "?" in request.path else "?"
                request.path += f"{separator}{name}={quote(value, safe='')}"
        self.request = request

    def send(self) -> Operation[None]:
        try:
            response = yield self.request
        finally:
            self.result.retries = self.request.retries
        result = self.result
        # A token that may only append learns no more.
        accepted = response.get("accepted_rows", 0)
        result.inserted = response.get("inserted_rows", accepted)
        result.updated = response.get("updated_rows", 0)
        result.ignored = response.get("ignored_rows", 0)
        result.unchanged = response.get("unchanged_rows", 0)
        result.quarantined = response.get("quarantined_rows", 0)
        result.batches = response["chunks"]
        if self._on_progress is not None:
            self._on_progress(result)

    def _pieces(self) -> Iterator[bytes]:
        try:
            source: Any = self._text() if callable(self._text) else self._text
            pieces = source if self._loop is None else _waited_for(source, self._loop)
            for piece in pieces:
                # An empty piece would end the body.
                if piece:
                    yield piece.encode() if isinstance(piece, str) else piece
        except Exception as error:
            message = f"The source of the text failed: {error!r}"
            raise CallerError("caller_error", message) from error


def _waited_for(source: Pieces, loop: asyncio.AbstractEventLoop) -> Iterator[Union[str, bytes]]:
    """The pieces of an async source, in the thread that sends them."""
    if not isinstance(source, AsyncIterable):
        yield from source
        return
    pieces = source.__aiter__()

    async def following() -> Union[str, bytes, None]:
        try:
            return await pieces.__anext__()
        except StopAsyncIteration:
            return None

    while True:
        piece = asyncio.run_coroutine_threadsafe(following(), loop).result()
        if piece is None:
            return
        yield piece
