"""Cuts records into batches that the service accepts, each record as the JSON that is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from ._json import NotJsonError, to_json
from .errors import BadRequestError, CdpError

RECORDS_PER_BATCH = 250
BODY_BYTES = 10 * 1024 * 1024

_BRACKETS = 2


@dataclass
class Item:
    """A record with its position in the input."""

    index: int
    record: Any
    json: bytes


class Cutter:
    """Cuts by the number of records and the bytes of the body."""

    def __init__(self, most_records: int = RECORDS_PER_BATCH, most_bytes: int = BODY_BYTES) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._batch: List[Item] = []
        self._bytes = _BRACKETS

    def add(self, item: Item) -> Optional[List[Item]]:
        """:returns: a batch that is full"""
        more = len(item.json) + 1
        if self._batch and self._bytes + more > self._most_bytes:
            full = self.rest()
            self._batch, self._bytes = [item], _BRACKETS + more
            return full
        self._batch.append(item)
        self._bytes += more
        return self.rest() if len(self._batch) == self._most_records else None

    def rest(self) -> List[Item]:
        batch, self._batch, self._bytes = self._batch, [], _BRACKETS
        return batch


def body_of(records: List[bytes]) -> bytes:
    return b"[%b]" % b",".join(records)


def record_json(record: Any, index: int) -> bytes:
    """:raises CdpError: invalid_value, payload_too_large, with the place"""
    if not isinstance(record, Mapping):
        message = f"Record {index}: a {type(record).__name__} is not a mapping of columns"
        raise _refused(index, None, "invalid_value", message)
    try:
        # json.dumps knows dict alone.
        text = to_json(record if isinstance(record, dict) else dict(record))
    except NotJsonError as error:
        where = f"Record {index}"
        if error.member is not None:
            where += f', column "{error.member}"'
        raise _refused(index, error.member, "invalid_value", f"{where}: {error.reason}") from None
    if _BRACKETS + len(text) + 1 > BODY_BYTES:
        message = f"Record {index} alone is larger than the {BODY_BYTES} bytes of a batch"
        raise _refused(index, None, "payload_too_large", message)
    return text


def _refused(index: int, column: Optional[str], code: str, message: str) -> CdpError:
    place: Dict[str, Any] = {"record": index, "error": code, "message": message}
    if column is not None:
        place["column"] = column
    return BadRequestError(code, message, errors=[place])
