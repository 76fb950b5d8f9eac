"""
Inserts any number of records, in batches. A few are in flight at a time, each with its own
idempotency key, so that a retry stores nothing twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ._batches import Cutter, Item, body_of, record_json
from ._operations import (
    Names,
    Operation,
    Response,
    add_impact,
    in_path,
    names,
    new_key,
    query_text,
    true_or_none,
)
from ._transport import Request
from .errors import CallerError, CdpError

#: Errors that a record causes although they may not name it.
_CAUSED_BY_A_RECORD = {"unique_violation", "constraint_violation", "row_too_large", "sql_error"}
_RECORD = re.compile(r"^Record (\d+)")


@dataclass
class InsertResult:
    """The outcome of all records so far."""

    #: Rows that the service has acknowledged. With a token that may only append, some of them
    #: may be in the quarantine.
    inserted: int = 0
    #: Batches that it has acknowledged.
    batches: int = 0
    #: Retried requests.
    retries: int = 0
    #: Records passed to ``on_refused``.
    refused: int = 0
    #: With ``on_conflict``.
    updated: int = 0
    #: With ``on_conflict``.
    ignored: int = 0
    #: With ``unchanged``.
    unchanged: int = 0
    #: With ``on_error="quarantine"``.
    quarantined: int = 0
    #: With ``dry_run``: of all batches together.
    impact: Optional[Dict[str, Any]] = None
    #: With ``return_ids``, by the position of the record in the input; None if it was refused.
    ids: List[Optional[str]] = field(default_factory=list)


@dataclass(frozen=True)
class RefusedRecord:
    #: Position in the whole input, from 0.
    index: int
    record: Any
    #: What is wrong with it.
    errors: List[Mapping[str, Any]]


OnProgress = Callable[[InsertResult], None]
OnRefused = Callable[[RefusedRecord], None]


@dataclass(frozen=True)
class StoreOptions:
    """What happens to existing rows with the same key, and to bad records."""

    on_conflict: Optional[Names] = None
    resolution: Optional[str] = None
    on_error: Optional[str] = None
    dry_run: bool = False
    return_ids: bool = False
    version: Optional[str] = None
    unchanged: Optional[str] = None
    merge_json: bool = False
    unknown: Optional[str] = None

    @property
    def concurrency(self) -> int:
        """The default: with a key, one batch follows the other: its last record wins."""
        return 4 if self.on_conflict is None else 1

    def request(self, table: str, body: bytes, key: Optional[str]) -> Request:
        query = {
            "return": "ids" if self.return_ids else None,
            "on_conflict": None if self.on_conflict is None else names(self.on_conflict),
            "resolution": self.resolution,
            "version": self.version,
            "unchanged": self.unchanged,
            "merge_json": true_or_none(self.merge_json),
            "unknown": self.unknown,
            "on_error": self.on_error,
            "dry_run": true_or_none(self.dry_run),
        }
        return Request(
            "POST",
            f"/api/cdp/data/{in_path(table)}{query_text(query)}",
            idempotent=True,
            body=body,
            headers={} if self.dry_run else {"Idempotency-Key": key or new_key()},
        )


def insert_batch(
    table: str,
    records: Sequence[Mapping[str, Any]],
    *,
    idempotency_key: Optional[str] = None,
    on_conflict: Optional[Names] = None,
    resolution: Optional[str] = None,
    version: Optional[str] = None,
    unchanged: Optional[str] = None,
    merge_json: bool = False,
    unknown: Optional[str] = None,
    on_error: Optional[str] = None,
    dry_run: bool = False,
    return_ids: bool = False,
) -> Operation[Response]:
    """
    1 to 250 records in one request, under your own key: for 24 hours the same batch under the
    same key is stored once, even if several processes send it.

    :returns: the response of the API: ``inserted_rows``, ``updated_rows``, ``ids``, ``impact``
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
    check_source(records, "a list of records")
    body = body_of([record_json(record, i) for i, record in enumerate(records)])
    response: Response = yield options.request(table, body, idempotency_key)
    return response


def check_source(records: Any, wanted: str = "an iterable of records") -> None:
    """:raises TypeError: for one record; for text, whose characters are not records"""
    if isinstance(records, Mapping):
        raise TypeError(f"insert takes {wanted}; one record goes as [record]")
    if isinstance(records, (str, bytes)):
        raise TypeError(f"insert takes {wanted}, not text")
    if type(records).__name__ == "DataFrame":
        raise TypeError(f'insert takes {wanted}; a DataFrame goes as df.to_dict("records")')


class Insert:
    """The state of one call of insert."""

    def __init__(
        self,
        table: str,
        options: StoreOptions,
        on_progress: Optional[OnProgress],
        on_refused: Optional[OnRefused],
    ) -> None:
        if options.on_error is not None and on_refused is not None:
            raise TypeError("refused records go to on_refused or to the quarantine, not to both")
        in_path(table)
        self.result = InsertResult()
        self._table = table
        self._options = options
        self._on_progress = on_progress
        self._on_refused = on_refused

    def item(self, index: int, record: Any) -> Optional[Item]:
        """The record as it is sent; None if it cannot be, and was refused."""
        try:
            return Item(index, record, record_json(record, index))
        except CdpError as error:
            if self._on_refused is None:
                raise
            self._refuse(RefusedRecord(index, record, error.errors))
            return None

    def cutter(self) -> Cutter:
        return Cutter()

    def send(self, batch: List[Item]) -> Operation[None]:
        request = self._request(batch)
        try:
            response = yield request
        except CdpError as error:
            self.result.retries += request.retries
            yield from self._send_good(error, batch)
            return
        self._count(response, request, batch)
        if self._on_progress is not None:
            self._on_progress(replace(self.result))

    def _request(self, batch: List[Item]) -> Request:
        return self._options.request(self._table, body_of([i.json for i in batch]), None)

    def failed(self, error: Exception) -> CdpError:
        """The exception that insert raises, with the number of acknowledged rows."""
        if not isinstance(error, CdpError):
            message = f"The source of records or a callback failed: {error!r}"
            wrapped = CallerError("caller_error", message)
            wrapped.__cause__ = error
            error = wrapped
        error.inserted = self.result.inserted
        return error

    def _count(self, response: Response, request: Request, batch: List[Item]) -> None:
        result = self.result
        # A token that may only append learns no more.
        accepted = response.get("accepted_rows", 0)
        result.inserted += response.get("inserted_rows", accepted)
        result.updated += response.get("updated_rows", 0)
        result.ignored += response.get("ignored_rows", 0)
        result.unchanged += response.get("unchanged_rows", 0)
        result.quarantined += response.get("quarantined_rows", 0)
        if "impact" in response:
            result.impact = add_impact(result.impact, response["impact"])
        result.batches += 1
        result.retries += request.retries
        for item, row_id in zip(batch, response.get("ids", ())):
            self._set_id(item.index, row_id)

    def _set_id(self, index: int, row_id: Optional[str]) -> None:
        ids = self.result.ids
        ids.extend([None] * (index + 1 - len(ids)))
        ids[index] = row_id

    def _send_good(self, error: CdpError, batch: List[Item]) -> Operation[None]:
        """Sends a refused batch without its bad records. :raises CdpError: if none caused it"""
        partition = None if self._on_refused is None else partition_batch(error, len(batch))
        if partition is None:
            raise _in_input(error, batch)
        refused, resend = partition
        for i, errors in refused.items():
            if i >= len(batch):
                raise _in_input(error, batch)
            item = batch[i]
            places = [_place_in_input(place, item.index) for place in errors]
            self._refuse(RefusedRecord(item.index, item.record, places))
        for positions in resend:
            yield from self.send([batch[i] for i in positions])

    def _refuse(self, refused: RefusedRecord) -> None:
        self.result.refused += 1
        if self._options.return_ids:
            self._set_id(refused.index, None)
        if self._on_refused is not None:
            self._on_refused(refused)


Partition = Tuple[Dict[int, List[Mapping[str, Any]]], List[List[int]]]


def partition_batch(error: CdpError, size: int) -> Optional[Partition]:
    """
    :returns: the bad records by their position, and the batches to send instead, as positions;
        None if no record caused the error
    """
    refused: Dict[int, List[Mapping[str, Any]]] = {}
    for place in error.errors:
        if "record" in place:
            refused.setdefault(place["record"], []).append(place)
    if refused:
        good = [i for i in range(size) if i not in refused]
        return refused, [good] if good else []
    if error.code not in _CAUSED_BY_A_RECORD:
        return None
    if size == 1:
        return {0: [{"record": 0, "error": error.code, "message": error.message}]}, []
    # The error names no record, so bisect.
    middle = (size + 1) // 2
    return {}, [list(range(middle)), list(range(middle, size))]


def _in_input(error: CdpError, batch: List[Item]) -> CdpError:
    """The error with record numbers of the whole input, in its messages too."""

    def index_of(record: int) -> int:
        return batch[record].index if record < len(batch) else record

    error.message = _RECORD.sub(lambda m: f"Record {index_of(int(m[1]))}", error.message)
    error.errors = [
        _place_in_input(place, index_of(place["record"])) if "record" in place else place
        for place in error.errors
    ]
    return error


def _place_in_input(place: Mapping[str, Any], record: int) -> Mapping[str, Any]:
    message = _RECORD.sub(f"Record {record}", place["message"])
    return {**place, "record": record, "message": message}
