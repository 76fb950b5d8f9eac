"""
What each call sends, and how it reads the responses: generators that yield requests and receive
their responses. The sync and the async client drive the same generators.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import urlencode

from ._batches import body_of, record_json
from ._json import to_json
from ._transport import Request
from .errors import BadRequestError, CdpError

T = TypeVar("T")
Operation = Generator[Request, Any, T]
Response = Dict[str, Any]
Names = Union[str, Sequence[str]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")


def drive(operation: Operation[T], send: Callable[[Request], Any]) -> T:
    """Runs an operation to its end. :param send: sends a request and returns its response"""
    try:
        request = next(operation)
        while True:
            try:
                response = send(request)
            except CdpError as error:
                request = operation.throw(error)
            else:
                request = operation.send(response)
    except StopIteration as end:
        result: T = end.value
        return result


def new_key() -> str:
    """128 random bits."""
    return uuid.uuid4().hex


def in_path(name: str) -> str:
    """:raises CdpError: invalid_name: ``..`` would lead to another path"""
    if not isinstance(name, str) or not _NAME.match(name):
        message = f"{json.dumps(str(name))} does not match ^[A-Za-z_][A-Za-z0-9_]{{0,62}}$"
        raise BadRequestError("invalid_name", message)
    return name


def names(columns: Names) -> str:
    return columns if isinstance(columns, str) else ",".join(columns)


def token() -> Operation[Response]:
    """The token's project and scopes."""
    response: Response = yield Request("GET", "/api/cdp/token", idempotent=True)
    return response


def delete(
    table: str,
    keys: Sequence[Mapping[str, Any]],
    *,
    by: Names,
    idempotency_key: Optional[str] = None,
    dry_run: bool = False,
) -> Operation[int]:
    """
    The rows of 1 to 250 keys, such as ``[{"email": "ada@example.com"}]``.

    :param by: columns of a unique index
    :returns: how many rows there were
    """
    query = query_text({"by": names(by), "dry_run": true_or_none(dry_run)})
    response = yield Request(
        "DELETE",
        f"/api/cdp/data/{in_path(table)}{query}",
        idempotent=True,
        body=body_of([record_json(key, i) for i, key in enumerate(keys)]),
        headers={} if dry_run else {"Idempotency-Key": idempotency_key or new_key()},
    )
    deleted: int = response["deleted_rows"]
    return deleted


def receipt(table: str, key: str, *, settle: bool = False) -> Operation[Dict[str, Any]]:
    """
    Returns the outcome of the batch with an idempotency key.

    :param settle: if nothing is stored, refuse the key from now on, so that ``not_stored``
        is final
    """
    found = yield from receipts(table, [key], settle=settle)
    return found[0]


def receipts(
    table: str, keys: Sequence[str], *, settle: bool = False
) -> Operation[List[Dict[str, Any]]]:
    """The same of up to 1,000 batches, in the order of their keys."""
    body = {"table": table, "keys": list(keys), "settle": settle}
    response = yield Request(
        "POST", "/api/cdp/receipts/query", idempotent=True, body=to_json(body)
    )
    found: List[Dict[str, Any]] = response["receipts"]
    return found


def add_impact(total: Optional[Response], impact: Response) -> Response:
    """Adds up what several dry runs would do. :param total: of the requests before"""
    if total is None:
        return impact
    rows: Dict[str, Dict[str, Any]] = {}
    for row in [*total["rows"], *impact["rows"]]:
        known = rows.setdefault(row["table"], {"table": row["table"]})
        for name in ("inserted", "updated", "deleted"):
            known[name] = known.get(name, 0) + row[name]
    modes: Dict[str, Dict[str, None]] = {}
    for lock in [*total["locks"], *impact["locks"]]:
        modes.setdefault(lock["table"], {}).update(dict.fromkeys(lock["modes"]))
    sequences = dict.fromkeys([*total.get("sequences", []), *impact.get("sequences", [])])
    return {
        "rows": list(rows.values()),
        "locks": [{"table": table, "modes": list(held)} for table, held in modes.items()],
        "rewritten": list(dict.fromkeys([*total["rewritten"], *impact["rewritten"]])),
        **({"sequences": list(sequences)} if sequences else {}),
        "duration_ms": total["duration_ms"] + impact["duration_ms"],
    }


def query_text(query: Mapping[str, Optional[str]]) -> str:
    """With its question mark."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def true_or_none(flag: bool) -> Optional[str]:
    return "true" if flag else None
