"""The API as methods that use its own names."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Type, Union

from . import _changes, _insert, _quarantine, _query, _saved, _schema, _subjects, _webhooks
from . import _operations as ops
from ._changes import SNAPSHOT_HEAD, Change, Snapshot
from ._insert import Insert, InsertResult, OnProgress, OnRefused, StoreOptions
from ._insert_stream import RecordStream, Text, TextStream
from ._methods import sync
from ._operations import Names, Operation, T
from ._pump import Source, pump
from ._quarantine import Moment, quarantine_page
from ._quarantine import where as where_of
from ._query import sql_request
from ._stream import RowStream
from ._transport import Headers, Transport
from ._values import Row


class CdpClient:
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

    token = sync(ops.token)
    create_table = sync(_schema.create_table)
    alter_table = sync(_schema.alter_table)
    drop_table = sync(_schema.drop_table)
    add_column = sync(_schema.add_column)
    alter_column = sync(_schema.alter_column)
    drop_column = sync(_schema.drop_column)
    create_index = sync(_schema.create_index)
    indexes = sync(_schema.indexes)
    drop_index = sync(_schema.drop_index)
    tables = sync(_schema.tables)
    describe = sync(_schema.describe)
    insert_batch = sync(_insert.insert_batch)
    delete = sync(ops.delete)
    quarantine_groups = sync(_quarantine.quarantine_groups)
    replay_quarantine = sync(_quarantine.replay_quarantine)
    drop_quarantine = sync(_quarantine.drop_quarantine)
    receipt = sync(ops.receipt)
    receipts = sync(ops.receipts)
    query = sync(_query.query)
    feed = sync(_changes.feed)
    set_feed = sync(_changes.set_feed)
    drop_feed = sync(_changes.drop_feed)
    changes_page = sync(_changes.changes_page)
    subjects = sync(_subjects.subjects)
    declare_subjects = sync(_subjects.declare_subjects)
    propose_subjects = sync(_subjects.propose_subjects)
    find_subject = sync(_subjects.find_subject)
    erase_subject = sync(_subjects.erase_subject)
    erasure = sync(_subjects.erasure)
    queries = sync(_saved.queries)
    saved_query = sync(_saved.saved_query)
    save_query = sync(_saved.save_query)
    run_query = sync(_saved.run_query)
    delete_query = sync(_saved.delete_query)
    schedules = sync(_saved.schedules)
    schedule = sync(_saved.schedule)
    save_schedule = sync(_saved.save_schedule)
    run_schedule = sync(_saved.run_schedule)
    pause_schedule = sync(_saved.pause_schedule)
    resume_schedule = sync(_saved.resume_schedule)
    delete_schedule = sync(_saved.delete_schedule)
    segments = sync(_saved.segments)
    segment = sync(_saved.segment)
    save_segment = sync(_saved.save_segment)
    run_segment = sync(_saved.run_segment)
    segment_members = sync(_saved.segment_members)
    pause_segment = sync(_saved.pause_segment)
    resume_segment = sync(_saved.resume_segment)
    delete_segment = sync(_saved.delete_segment)
    webhooks = sync(_webhooks.webhooks)
    webhook = sync(_webhooks.webhook)
    create_webhook = sync(_webhooks.create_webhook)
    change_webhook = sync(_webhooks.change_webhook)
    rotate_webhook_secret = sync(_webhooks.rotate_webhook_secret)
    delete_webhook = sync(_webhooks.delete_webhook)
    test_webhook = sync(_webhooks.test_webhook)
    webhook_deliveries = sync(_webhooks.webhook_deliveries)
    replay_webhook = sync(_webhooks.replay_webhook)

    def insert(
        self,
        table: str,
        records: Source,
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
        """
        Any number of records, in batches of 250, each stored as a whole or not at all. A retry
        stores nothing twice.

        :param on_conflict: columns of a unique index: a record whose key a row has changes that row
        :param resolution: ``merge`` (default), ``replace``, ``ignore`` or ``newest``
        :param version: for ``newest``: the column that says which is newer
        :param unchanged: ``skip``: nothing is written for a row that has all the values
        :param merge_json: an object in a JSONB column keeps the members that the record's lacks
        :param unknown: fields that are no columns: ``ignore``, or ``into:extra`` to keep them there
        :param on_error: ``quarantine``: the service keeps bad records instead of refusing them
        :param concurrency: batches in flight; default 4, with on_conflict 1: the last of a key wins
        :param on_progress: called after each batch
        :param on_refused: called with each refused record; without it the first one ends the insert
        :raises CdpError: with ``inserted``, and ``errors[]["record"]`` counted in the whole input
        """
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
        pump(insert, records, self._transport, concurrency)
        return insert.result

    def insert_stream(
        self,
        table: str,
        records: Union[Source, Text],
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
        """
        Any number of records as streams, which is several times as fast as :meth:`insert`: each
        stream has up to 10,000 records, and is stored as a whole or not at all.

        :param records: any iterable of records; with ``content_type``, text in UTF-8: str, bytes,
            an iterable of them, or a function that returns one, so that it can be sent again after
            a broken connection
        :param content_type: ``text/csv``, ``text/tab-separated-values`` or ``application/x-ndjson``
        :param delimiter: of a CSV, instead of a comma
        :param null: text that means NULL, besides an empty field
        :param idempotency_key: of text: a later process that sends the same text under the same
            key stores only what is not stored yet
        :param on_progress: called after each stream; ``batches`` are the transactions
        :param on_refused: called with each refused record; without it the first one ends the call
        :raises CdpError: with ``inserted``
        """
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
            pump(insert, records, self._transport, concurrency)  # type: ignore[arg-type]
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
        )
        self._run(stream.send())
        return stream.result

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
        where = where_of(table, error, column, since, until, id)
        after: Optional[str] = None
        while True:
            page = self._run(quarantine_page(where, after))
            yield from page["records"]
            after = page["next"]
            if after is None:
                return

    def changes(
        self,
        *,
        after: Optional[str] = None,
        tables: Optional[Sequence[str]] = None,
        limit: Optional[int] = None,
    ) -> Iterator[Change]:
        """
        Each change of the feed, and then those to come, until the caller leaves the loop. It goes
        on after lost connections and restarts of the service, as often as ``max_retries`` says.

        :param after: a cursor; default: what is committed after the loop has begun
        :param limit: changes that one request reads, 1 to 10,000; default 1,000
        :raises CursorExpiredError: with a ``hint`` how to go on
        """
        # Without a cursor, a repeated request would begin later than the first one.
        wait = _changes.wait_of(self._transport.timeout)
        while True:
            page = self.changes_page(
                after=after, tables=tables, limit=limit, wait=0 if after is None else wait
            )
            yield from page["changes"]
            after = page["cursor"]

    def snapshot(self, table: str) -> Snapshot:
        """
        The rows of a table, with the cursor from which :meth:`changes` go on without a gap.

        :raises CdpError: also while it is read: a loop that ends has seen every row
        """
        request = _changes.snapshot_request(table)
        stream = self._transport.open(request, "application/x-ndjson")
        return Snapshot(RowStream(stream, begins=SNAPSHOT_HEAD))

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

    def export_subject(self, who: Mapping[str, Any]) -> Iterator[bytes]:
        """
        Everything about somebody as lines of NDJSON; the last one is the manifest.

        :raises CdpError: also while it is read: a loop that ends has seen every row
        """
        lines = _subjects.Lines()
        stream = self._transport.open(_subjects.export_request(who), "application/x-ndjson")
        try:
            chunk = stream.read()
            while chunk:
                yield from lines.take(chunk)
                chunk = stream.read()
        finally:
            stream.close()
        lines.end()

    def _open_rows(
        self, sql: str, params: Sequence[Any], options: Mapping[str, Any], as_lists: bool = False
    ) -> RowStream:
        row_mode = "array" if as_lists else None
        request = sql_request(sql, params, {**options, "columns": True, "row_mode": row_mode})
        return RowStream(self._transport.open(request, "application/x-ndjson"), as_lists=as_lists)

    def _run(self, operation: Operation[T]) -> T:
        return ops.drive(operation, self._transport.json)
