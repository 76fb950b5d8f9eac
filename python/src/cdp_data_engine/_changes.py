"""The feed of changes: its settings, its pages, and tables with the cursor where changes go on."""

from __future__ import annotations

from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterator, List, Optional, Sequence
from typing import Union

from ._json import to_json
from ._operations import Operation, Response, query_text
from ._stream import RowStream
from ._transport import Request
from .errors import CdpError, network_error

_FEED = "/api/cdp/feed"
_CHANGES = "/api/cdp/changes"

#: Seconds that a request of a loop waits for a change.
WAIT = 30

Change = Dict[str, Any]
Row = Dict[str, Any]
NextRows = Callable[[], Awaitable[Optional[List[Row]]]]


def feed() -> Operation[Optional[Response]]:
    """The project's feed of changes; None: it has none."""
    response: Response = yield Request("GET", _FEED, idempotent=True)
    found: Optional[Response] = response["feed"]
    return found


def set_feed(
    *,
    tables: Union[str, Sequence[str], None] = None,
    old: Optional[bool] = None,
    retention_hours: Optional[int] = None,
    retention_mib: Optional[int] = None,
) -> Operation[Response]:
    """
    Keeps changes from now on; for the first time, the project's server restarts. What is missing
    has its default.

    :param tables: ``"all"`` (default), or names
    :param old: whether updates and deletes also have the old row
    """
    given = {
        "tables": tables if tables is None or isinstance(tables, str) else list(tables),
        "old": old,
        "retention_hours": retention_hours,
        "retention_mib": retention_mib,
    }
    body = to_json({name: value for name, value in given.items() if value is not None})
    response: Response = yield Request("PUT", _FEED, idempotent=True, body=body)
    found: Response = response["feed"]
    return found


def drop_feed() -> Operation[None]:
    """Keeps no more changes, and deletes those that are kept."""
    yield Request("DELETE", _FEED, idempotent=True)


def changes_page(
    *,
    after: Optional[str] = None,
    tables: Optional[Sequence[str]] = None,
    limit: Optional[int] = None,
    wait: Optional[int] = None,
) -> Operation[Response]:
    """
    One answer of the feed.

    :param after: a cursor; default: changes from now on
    :param limit: 1 to 10,000; default 1,000
    :param wait: seconds that the service waits for a change if there is none, at most 60; default 0
    :returns: ``changes``, and ``cursor``: after all that was read, also of other tables
    """
    if isinstance(tables, str):
        raise TypeError('tables is a list of names: ["customers"]')
    query = query_text(
        {
            "after": after,
            "tables": None if tables is None else ",".join(tables),
            "limit": None if limit is None else str(limit),
            "wait": None if wait is None else str(wait),
        }
    )
    response: Response = yield Request("GET", _CHANGES + query, idempotent=True)
    return {"changes": response["changes"], "cursor": response["cursor"]}


def wait_of(timeout: float) -> int:
    """Less than the time limit of a request."""
    return min(WAIT, int(timeout / 2))


def snapshot_request(table: str) -> Request:
    return Request("GET", f"{_CHANGES}/snapshot" + query_text({"table": table}), idempotent=True)


#: The first line of a snapshot begins like this.
SNAPSHOT_HEAD = b'{"cursor":'


class Snapshot:
    """
    The rows of a table as they were at one moment. Iterate once; leaving the loop ends the request.

    :ivar cursor: the changes after it are exactly those that the rows do not show
    """

    def __init__(self, rows: RowStream) -> None:
        self._rows = rows
        self._first: Optional[List[Row]] = []
        try:
            while rows.head is None and self._first is not None:
                self._first = rows.next_rows()
            if rows.head is None:
                raise network_error("The snapshot has no cursor")
        except CdpError:
            rows.close()
            raise
        self.table: str = rows.head["table"]
        self.cursor: str = rows.head["cursor"]

    def __iter__(self) -> Iterator[Row]:
        chunk = self._first
        try:
            while chunk is not None:
                yield from chunk
                chunk = self._rows.next_rows()
        finally:
            self._rows.close()


class AsyncSnapshot:
    """:class:`Snapshot` for asyncio: ``async for row in await client.snapshot("customers")``."""

    def __init__(self, rows: RowStream, first: Snapshot, next_rows: NextRows) -> None:
        self._rows = rows
        self._first = first._first
        self._next_rows = next_rows
        self.table = first.table
        self.cursor = first.cursor

    async def __aiter__(self) -> AsyncIterator[Row]:
        chunk = self._first
        try:
            while chunk is not None:
                for row in chunk:
                    yield row
                chunk = await self._next_rows()
        finally:
            self._rows.close()
