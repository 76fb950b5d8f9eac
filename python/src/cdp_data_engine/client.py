"""The API as methods that use its own names."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Type

from . import _operations as ops
from ._insert import Insert, InsertResult, OnProgress, OnRefused, StoreOptions, insert_batch
from ._operations import Moment, Operation, Response, T
from ._pump import Source, pump
from ._query import QueryResult, query, sql_request
from ._schema import Names, SchemaMethods
from ._stream import RowStream
from ._transport import Headers, Transport
from ._values import Row


class CdpClient(SchemaMethods):
    """
    A client for the project of its token. Threads may share it. Every method raises
    :class:`CdpError`, or TypeError for a value that cannot be sent.

    :param url: address of the service; default: ``CDP_URL``
    :param token: default: ``CDP_TOKEN``
    :param timeout: seconds that an attempt may wait for the next bytes
    :param max_retries: for one request; the default takes about 20 seconds in all
    :param headers: called before each attempt for further headers, such as a traceparent
    :param ssl_context: default: ``ssl.create_default_context()``
    :raises ValueError: if the URL or the token is missing or cannot be one
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: float = 100.0,
        max_retries: int = 8,
        headers: Optional[Headers] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._transport = Transport(
            url,
            token,
            timeout=timeout,
            max_retries=max_retries,
            headers=headers,
            ssl_context=ssl_context,
        )

    def __repr__(self) -> str:
        return f"<CdpClient {self._transport.url}>"

    def __enter__(self) -> "CdpClient":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections. The client can still be used."""
        self._transport.close()

    def token(self) -> Response:
        """The token's project and scopes."""
        return self._run(ops.token())

    def insert(
        self,
        table: str,
        records: Source,
        *,
        on_conflict: Optional[Names] = None,
        resolution: Optional[str] = None,
        on_error: Optional[str] = None,
        dry_run: bool = False,
        return_ids: bool = False,
        concurrency: Optional[int] = None,
        on_progress: Optional[OnProgress] = None,
        on_refused: Optional[OnRefused] = None,
    ) -> InsertResult:
        """
        Any number of records, in batches of 250, each stored as a whole or not at all. A retry
        stores nothing twice.

        :param on_conflict: columns of a unique index: a record whose key a row has changes that row
        :param resolution: ``merge`` (default), ``replace`` or ``ignore``
        :param on_error: ``quarantine``: the service keeps bad records instead of refusing them
        :param concurrency: batches in flight; default 4, with on_conflict 1: the last of a key wins
        :param on_progress: called after each batch
        :param on_refused: called with each refused record; without it the first one ends the insert
        :raises CdpError: with ``inserted``, and ``errors[]["record"]`` counted in the whole input
        """
        options = StoreOptions(on_conflict, resolution, on_error, dry_run, return_ids)
        insert = Insert(table, options, on_progress, on_refused)
        if concurrency is None:
            concurrency = options.concurrency
        pump(insert, records, self._transport, concurrency)
        return insert.result

    def insert_batch(
        self,
        table: str,
        records: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: Optional[str] = None,
        on_conflict: Optional[Names] = None,
        resolution: Optional[str] = None,
        on_error: Optional[str] = None,
        dry_run: bool = False,
        return_ids: bool = False,
    ) -> Response:
        """
        1 to 250 records in one request, under your own key: for 24 hours the same batch under the
        same key is stored once, even if several processes send it.

        :returns: the response of the API: ``inserted_rows``, ``updated_rows``, ``ids``, ``impact``
        """
        options = StoreOptions(on_conflict, resolution, on_error, dry_run, return_ids)
        return self._run(insert_batch(table, records, options, idempotency_key))

    def delete(
        self,
        table: str,
        keys: Sequence[Mapping[str, Any]],
        *,
        by: Names,
        idempotency_key: Optional[str] = None,
        dry_run: bool = False,
    ) -> int:
        """
        The rows of 1 to 250 keys, such as ``[{"email": "ada@example.com"}]``.

        :param by: columns of a unique index
        :returns: how many rows there were
        """
        return self._run(ops.delete(table, keys, by, idempotency_key, dry_run))

    def quarantine(
        self,
        *,
        table: Optional[str] = None,
        error: Optional[str] = None,
        column: Optional[str] = None,
        since: Moment = None,
        until: Moment = None,
        id: Optional[str] = None,
    ) -> Iterator[Dict[str, Any]]:
        """The records there, the oldest first. ``record`` is the JSON that was sent."""
        where = ops.where(table, error, column, since, until, id)
        after: Optional[str] = None
        while True:
            page = self._run(ops.quarantine_page(where, after))
            yield from page["records"]
            after = page["next"]
            if after is None:
                return

    def replay_quarantine(
        self,
        table: str,
        *,
        error: Optional[str] = None,
        column: Optional[str] = None,
        since: Moment = None,
        until: Moment = None,
        id: Optional[str] = None,
        rename: Optional[Mapping[str, str]] = None,
        set: Optional[Mapping[str, Any]] = None,
        on_conflict: Optional[Names] = None,
        resolution: Optional[str] = None,
        dry_run: bool = False,
    ) -> Response:
        """
        Retries quarantined records; each one that is stored leaves the quarantine.

        :param rename: new names of keys
        :param set: values to replace in the records, or to add to them
        :returns: ``inserted``, ``updated``, ``ignored``, ``refused``, ``errors``; with ``dry_run``
            also ``impact``
        """
        where = ops.where(None, error, column, since, until, id)
        replay = ops.replay(table, where, rename, set, on_conflict, resolution, dry_run)
        return self._run(replay)

    def drop_quarantine(
        self,
        *,
        table: Optional[str] = None,
        error: Optional[str] = None,
        column: Optional[str] = None,
        since: Moment = None,
        until: Moment = None,
        id: Optional[str] = None,
        all: bool = False,
    ) -> int:
        """Deletes records from the quarantine, with ``all`` every one. :returns: how many"""
        where = ops.where(table, error, column, since, until, id)
        return self._run(ops.drop_quarantine(where, all))

    def receipt(self, table: str, key: str, *, settle: bool = False) -> Dict[str, Any]:
        """
        Returns the outcome of the batch with an idempotency key.

        :param settle: if nothing is stored, refuse the key from now on, so that ``not_stored``
            is final
        """
        return self.receipts(table, [key], settle=settle)[0]

    def receipts(
        self, table: str, keys: Sequence[str], *, settle: bool = False
    ) -> List[Dict[str, Any]]:
        """The same of up to 1,000 batches, in the order of their keys."""
        return self._run(ops.receipts(table, keys, settle))

    def query(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        read_only: Optional[bool] = None,
        timeout_ms: Optional[int] = None,
        max_rows: Optional[int] = None,
        dry_run: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> QueryResult:
        """
        One transaction; its parameters are ``$1``, ``$2``, …

        :param max_rows: 10,000 by default, at most 100,000; ``truncated`` is True if there were
            more
        :param idempotency_key: for SQL that writes: a retry does not run it again. Without it, SQL
            that may have run is not sent again, unless it is ``read_only``
        """
        options = {"read_only": read_only, "timeout_ms": timeout_ms, "max_rows": max_rows}
        key = idempotency_key
        request = sql_request(sql, params, options, dry_run=dry_run, idempotency_key=key)
        return self._run(query(request))

    def stream(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        read_only: Optional[bool] = None,
        timeout_ms: Optional[int] = None,
    ) -> Iterator[Row]:
        """
        The rows of a query of any size, as fast as the caller takes them. Leaving the loop
        cancels the statement.

        :raises CdpError: also while it is read: a loop that ends has seen every row
        """
        rows = self._open_rows(sql, params, {"read_only": read_only, "timeout_ms": timeout_ms})
        try:
            chunk = rows.next_rows()
            while chunk is not None:
                yield from chunk
                chunk = rows.next_rows()
        finally:
            rows.close()

    def csv(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        read_only: Optional[bool] = None,
        timeout_ms: Optional[int] = None,
    ) -> Iterator[bytes]:
        """The bytes of a CSV file with a header: an empty field is NULL, ``""`` an empty string."""
        options = {"read_only": read_only, "timeout_ms": timeout_ms}
        stream = self._transport.open(sql_request(sql, params, options), "text/csv")
        try:
            chunk = stream.read()
            while chunk:
                yield chunk
                chunk = stream.read()
        finally:
            stream.close()

    def _open_rows(
        self, sql: str, params: Sequence[Any], options: Mapping[str, Any], as_lists: bool = False
    ) -> RowStream:
        row_mode = "array" if as_lists else None
        request = sql_request(sql, params, {**options, "columns": True, "row_mode": row_mode})
        return RowStream(self._transport.open(request, "application/x-ndjson"), as_lists=as_lists)

    def _run(self, operation: Operation[T]) -> T:
        return ops.drive(operation, self._transport.json)
