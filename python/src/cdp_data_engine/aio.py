"""
The client for asyncio: the same calls as ``CdpClient``, each in a thread of its own, so that the
event loop never waits. A task that is canceled cuts off its call's connection.
"""

from __future__ import annotations

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Dict, Mapping, Optional, Sequence, Type, Union

from . import _changes, _insert, _quarantine, _query, _saved, _schema, _subjects, _webhooks
from . import _operations as ops
from ._changes import SNAPSHOT_HEAD, AsyncSnapshot, Change, Snapshot
from ._connections import Cancel
from ._insert import Insert, InsertResult, OnProgress, OnRefused, StoreOptions
from ._insert_stream import RecordStream, Text, TextStream
from ._methods import asynchronous
from ._operations import Names, Operation, T
from ._pump import AsyncSource, pump_async
from ._quarantine import Moment, quarantine_page
from ._quarantine import where as where_of
from ._query import sql_request
from ._stream import RowStream
from ._transport import Headers, Request, Transport
from ._values import Row
from .errors import CdpError

#: Calls of one client at a time; more wait. A stream takes a thread only while it reads.
_THREADS = 64


class AsyncCdpClient:
    """
    :class:`CdpClient` for asyncio: the same arguments, methods and errors. ``stream``, ``csv`` and
    ``quarantine`` are async iterators; ``insert`` also takes an async iterable. Callbacks run in
    the event loop.
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
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="cdp-client")

    def __repr__(self) -> str:
        return f"<AsyncCdpClient {self._transport.url}>"

    async def __aenter__(self) -> "AsyncCdpClient":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes idle connections and ends the threads. The client cannot be used any more."""
        self._executor.shutdown(wait=False)
        self._transport.close()

    token = asynchronous(ops.token)
    create_table = asynchronous(_schema.create_table)
    alter_table = asynchronous(_schema.alter_table)
    drop_table = asynchronous(_schema.drop_table)
    add_column = asynchronous(_schema.add_column)
    alter_column = asynchronous(_schema.alter_column)
    drop_column = asynchronous(_schema.drop_column)
    create_index = asynchronous(_schema.create_index)
    indexes = asynchronous(_schema.indexes)
    drop_index = asynchronous(_schema.drop_index)
    tables = asynchronous(_schema.tables)
    describe = asynchronous(_schema.describe)
    insert_batch = asynchronous(_insert.insert_batch)
    delete = asynchronous(ops.delete)
    quarantine_groups = asynchronous(_quarantine.quarantine_groups)
    replay_quarantine = asynchronous(_quarantine.replay_quarantine)
    drop_quarantine = asynchronous(_quarantine.drop_quarantine)
    receipt = asynchronous(ops.receipt)
    receipts = asynchronous(ops.receipts)
    query = asynchronous(_query.query)
    feed = asynchronous(_changes.feed)
    set_feed = asynchronous(_changes.set_feed)
    drop_feed = asynchronous(_changes.drop_feed)
    changes_page = asynchronous(_changes.changes_page)
    subjects = asynchronous(_subjects.subjects)
    declare_subjects = asynchronous(_subjects.declare_subjects)
    propose_subjects = asynchronous(_subjects.propose_subjects)
    find_subject = asynchronous(_subjects.find_subject)
    erase_subject = asynchronous(_subjects.erase_subject)
    erasure = asynchronous(_subjects.erasure)
    queries = asynchronous(_saved.queries)
    saved_query = asynchronous(_saved.saved_query)
    save_query = asynchronous(_saved.save_query)
    run_query = asynchronous(_saved.run_query)
    delete_query = asynchronous(_saved.delete_query)
    schedules = asynchronous(_saved.schedules)
    schedule = asynchronous(_saved.schedule)
    save_schedule = asynchronous(_saved.save_schedule)
    run_schedule = asynchronous(_saved.run_schedule)
    pause_schedule = asynchronous(_saved.pause_schedule)
    resume_schedule = asynchronous(_saved.resume_schedule)
    delete_schedule = asynchronous(_saved.delete_schedule)
    segments = asynchronous(_saved.segments)
    segment = asynchronous(_saved.segment)
    save_segment = asynchronous(_saved.save_segment)
    run_segment = asynchronous(_saved.run_segment)
    segment_members = asynchronous(_saved.segment_members)
    pause_segment = asynchronous(_saved.pause_segment)
    resume_segment = asynchronous(_saved.resume_segment)
    delete_segment = asynchronous(_saved.delete_segment)
    webhooks = asynchronous(_webhooks.webhooks)
    webhook = asynchronous(_webhooks.webhook)
    create_webhook = asynchronous(_webhooks.create_webhook)
    change_webhook = asynchronous(_webhooks.change_webhook)
    rotate_webhook_secret = asynchronous(_webhooks.rotate_webhook_secret)
    delete_webhook = asynchronous(_webhooks.delete_webhook)
    test_webhook = asynchronous(_webhooks.test_webhook)
    webhook_deliveries = asynchronous(_webhooks.webhook_deliveries)
    replay_webhook = asynchronous(_webhooks.replay_webhook)

    async def insert(
        self,
        table: str,
        records: AsyncSource,
        *,
        on_conflict: Optional[Names] = None,
        resolution: Optional[str] = None,
        version: Optional[str] = None,
        unchanged: Optional[str] = None,
        merge_json: bool = False,
        unknown: Optional[str] = None,
        on_error: Optional[str] = None,
        dry_run: bool = False,
        return_ids: bool = False,
        concurrency: Optional[int] = None,
        on_progress: Optional[OnProgress] = None,
        on_refused: Optional[OnRefused] = None,
    ) -> InsertResult:
        """See :meth:`CdpClient.insert`."""
        options = StoreOptions(
            on_conflict,
            resolution,
            on_error,
            dry_run,
            return_ids,
            version,
            unchanged,
            merge_json,
            unknown,
        )
        insert = Insert(table, options, on_progress, on_refused)
        if concurrency is None:
            concurrency = options.concurrency
        await pump_async(insert, records, self._run, concurrency)
        return insert.result

    async def insert_stream(
        self,
        table: str,
        records: Union[AsyncSource, Text],
        *,
        content_type: Optional[str] = None,
        delimiter: Optional[str] = None,
        null: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        on_conflict: Optional[Names] = None,
        resolution: Optional[str] = None,
        version: Optional[str] = None,
        unchanged: Optional[str] = None,
        merge_json: bool = False,
        unknown: Optional[str] = None,
        on_error: Optional[str] = None,
        on_progress: Optional[OnProgress] = None,
        on_refused: Optional[OnRefused] = None,
    ) -> InsertResult:
        """See :meth:`CdpClient.insert_stream`."""
        options = StoreOptions(
            on_conflict,
            resolution,
            on_error,
            version=version,
            unchanged=unchanged,
            merge_json=merge_json,
            unknown=unknown,
        )
        if content_type is None:
            if delimiter is not None or null is not None or idempotency_key is not None:
                raise TypeError("delimiter, null and idempotency_key are for text: content_type")
            insert = RecordStream(table, options, on_progress, on_refused)
            concurrency = 2 if on_conflict is None else 1
            await pump_async(insert, records, self._run, concurrency)  # type: ignore[arg-type]
            return insert.result
        if on_refused is not None:
            raise TypeError("on_refused is for records; text has on_error")
        stream = TextStream(
            table,
            records,
            content_type,
            options,
            delimiter,
            null,
            idempotency_key,
            on_progress,
            asyncio.get_running_loop(),
        )
        await self._run(stream.send())
        return stream.result

    async def quarantine(
        self,
        *,
        table: Optional[str] = None,
        error: Optional[str] = None,
        column: Optional[str] = None,
        since: Moment = None,
        until: Moment = None,
        id: Optional[str] = None,
    ) -> AsyncIterator[Dict[str, Any]]:
        """The records there, the oldest first. ``record`` is the JSON that was sent."""
        where = where_of(table, error, column, since, until, id)
        after: Optional[str] = None
        while True:
            page = await self._run(quarantine_page(where, after))
            for record in page["records"]:
                yield record
            after = page["next"]
            if after is None:
                return

    async def changes(
        self,
        *,
        after: Optional[str] = None,
        tables: Optional[Sequence[str]] = None,
        limit: Optional[int] = None,
    ) -> AsyncIterator[Change]:
        """See :meth:`CdpClient.changes`."""
        # Without a cursor, a repeated request would begin later than the first one.
        wait = _changes.wait_of(self._transport.timeout)
        while True:
            page = await self.changes_page(
                after=after, tables=tables, limit=limit, wait=0 if after is None else wait
            )
            for change in page["changes"]:
                yield change
            after = page["cursor"]

    async def snapshot(self, table: str) -> AsyncSnapshot:
        """See :meth:`CdpClient.snapshot`."""
        cancel = Cancel()
        stream = await self._in_thread(
            cancel,
            self._transport.open,
            _changes.snapshot_request(table),
            "application/x-ndjson",
            cancel,
        )
        rows = RowStream(stream, begins=SNAPSHOT_HEAD)
        first = await self._in_thread(cancel, Snapshot, rows)
        return AsyncSnapshot(rows, first, lambda: self._in_thread(cancel, rows.next_rows))

    async def stream(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        read_only: Optional[bool] = None,
        timeout_ms: Optional[int] = None,
    ) -> AsyncIterator[Row]:
        """See :meth:`CdpClient.stream`."""
        options = {"read_only": read_only, "timeout_ms": timeout_ms, "columns": True}
        request = sql_request(sql, params, options)
        cancel = Cancel()
        stream = await self._in_thread(
            cancel, self._transport.open, request, "application/x-ndjson", cancel
        )
        rows = RowStream(stream)
        try:
            chunk = await self._in_thread(cancel, rows.next_rows)
            while chunk is not None:
                for row in chunk:
                    yield row
                chunk = await self._in_thread(cancel, rows.next_rows)
        finally:
            rows.close()

    async def csv(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        read_only: Optional[bool] = None,
        timeout_ms: Optional[int] = None,
    ) -> AsyncIterator[bytes]:
        """The bytes of a CSV file with a header: an empty field is NULL, ``""`` an empty string."""
        options = {"read_only": read_only, "timeout_ms": timeout_ms}
        request = sql_request(sql, params, options)
        cancel = Cancel()
        stream = await self._in_thread(cancel, self._transport.open, request, "text/csv", cancel)
        try:
            chunk = await self._in_thread(cancel, stream.read)
            while chunk:
                yield chunk
                chunk = await self._in_thread(cancel, stream.read)
        finally:
            stream.close()

    async def export_subject(self, who: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """See :meth:`CdpClient.export_subject`."""
        lines = _subjects.Lines()
        request = _subjects.export_request(who)
        cancel = Cancel()
        stream = await self._in_thread(
            cancel, self._transport.open, request, "application/x-ndjson", cancel
        )
        try:
            chunk = await self._in_thread(cancel, stream.read)
            while chunk:
                for line in lines.take(chunk):
                    yield line
                chunk = await self._in_thread(cancel, stream.read)
        finally:
            stream.close()
        lines.end()

    async def _run(self, operation: Operation[T]) -> T:
        try:
            request = next(operation)
            while True:
                try:
                    response = await self._send(request)
                except CdpError as error:
                    request = operation.throw(error)
                else:
                    request = operation.send(response)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, request: Request) -> Any:
        cancel = Cancel()
        return await self._in_thread(cancel, self._transport.json, request, cancel)

    async def _in_thread(self, cancel: Cancel, call: Callable[..., T], *args: Any) -> T:
        """Runs a call in a thread. If the task is canceled, the thread ends by itself, at once."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, call, *args)
        except asyncio.CancelledError:
            cancel.set()
            raise
