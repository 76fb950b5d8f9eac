"""
What each call sends, and how it reads the responses: generators that yield requests and receive
their responses. The sync and the async client drive the same generators.
"""

from __future__ import annotations

import datetime
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
Moment = Union[datetime.datetime, str, None]
Where = Mapping[str, Optional[str]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_QUARANTINE = "/api/cdp/quarantine"


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


def names(columns: Union[str, Sequence[str]]) -> str:
    return columns if isinstance(columns, str) else ",".join(columns)


def change(
    method: str,
    path: Sequence[str],
    body: Optional[Mapping[str, Any]],
    dry_run: bool,
    return_values: bool = False,
) -> Operation[Response]:
    query = {"return": "values" if return_values else None, "dry_run": true_or_none(dry_run)}
    response: Response = yield Request(
        method,
        _schema_path(path) + query_text(query),
        # A change under a key is made once, however often it is sent.
        idempotent=True,
        body=None if body is None else to_json(dict(body)),
        headers={} if dry_run else {"Idempotency-Key": new_key()},
    )
    return response


def create_table(
    table: str,
    columns: Union[Mapping[str, str], Sequence[Mapping[str, Any]]],
    comment: Optional[str],
    dry_run: bool,
) -> Operation[Response]:
    """:param columns: ``{"email": "TEXT"}``, or the objects of the API"""
    if isinstance(columns, Mapping):
        columns = [{"name": name, "type": kind} for name, kind in columns.items()]
    body: Dict[str, Any] = {"table_name": table, "columns": [dict(column) for column in columns]}
    if comment is not None:
        body["comment"] = comment
    return change("POST", ["table"], body, dry_run)


def create_index(
    table: str,
    columns: Union[str, Sequence[str]],
    unique: bool,
    name: Optional[str],
    dry_run: bool,
) -> Operation[Response]:
    listed = [columns] if isinstance(columns, str) else list(columns)
    body: Dict[str, Any] = {"columns": listed, "unique": unique}
    if name is not None:
        body["name"] = name
    return change("POST", ["table", table, "index"], body, dry_run)


def read(path: Sequence[str], member: str) -> Operation[Any]:
    """:returns: one member of the response"""
    response: Response = yield Request("GET", _schema_path(path), idempotent=True)
    return response[member]


def _schema_path(path: Sequence[str]) -> str:
    return "/".join(["/api/cdp/schema", *map(in_path, path)])


def token() -> Operation[Response]:
    response: Response = yield Request("GET", "/api/cdp/token", idempotent=True)
    return response


def delete(
    table: str,
    keys: Sequence[Mapping[str, Any]],
    by: Union[str, Sequence[str]],
    idempotency_key: Optional[str],
    dry_run: bool,
) -> Operation[int]:
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


def receipts(
    table: str, keys: Sequence[str], settle: bool
) -> Operation[List[Dict[str, Any]]]:
    body = {"table": table, "keys": list(keys), "settle": settle}
    response = yield Request(
        "POST", "/api/cdp/receipts/query", idempotent=True, body=to_json(body)
    )
    found: List[Dict[str, Any]] = response["receipts"]
    return found


def quarantine_page(where: Where, after: Optional[str]) -> Operation[Response]:
    query = query_text({**where, "after": after})
    page: Response = yield Request("GET", _QUARANTINE + query, idempotent=True)
    return page


def replay(
    table: str,
    where: Where,
    rename: Optional[Mapping[str, str]],
    values: Optional[Mapping[str, Any]],
    on_conflict: Union[str, Sequence[str], None],
    resolution: Optional[str],
    dry_run: bool,
) -> Operation[Response]:
    """Retries every record once, in transactions of up to 250."""
    given = {
        **where,
        "table": table,
        "rename": rename and dict(rename),
        "set": values and dict(values),
        "on_conflict": None if on_conflict is None else names(on_conflict),
        "resolution": resolution,
    }
    body = {name: value for name, value in given.items() if value is not None}
    total: Response = {"inserted": 0, "updated": 0, "ignored": 0, "refused": 0, "errors": []}
    while True:
        response = yield Request(
            # A record that was stored has left the quarantine, so a retry does not store it again.
            "POST",
            f"{_QUARANTINE}/replay{query_text({'dry_run': true_or_none(dry_run)})}",
            idempotent=True,
            body=to_json(body),
        )
        for name in ("inserted", "updated", "ignored", "refused"):
            total[name] += response[f"{name}_rows"]
        total["errors"] += response["errors"]
        if "impact" in response:
            total["impact"] = add_impact(total.get("impact"), response["impact"])
        if response["next"] is None:
            return total
        body["after"] = response["next"]


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


def drop_quarantine(where: Where, all_records: bool) -> Operation[int]:
    query = query_text({**where, "all": "true" if all_records else None})
    response = yield Request("DELETE", _QUARANTINE + query, idempotent=True)
    deleted: int = response["deleted_rows"]
    return deleted


def query_text(query: Mapping[str, Optional[str]]) -> str:
    """With its question mark."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def true_or_none(flag: bool) -> Optional[str]:
    return "true" if flag else None


def where(
    table: Optional[str],
    error: Optional[str],
    column: Optional[str],
    since: Moment,
    until: Moment,
    id: Optional[str],
) -> Where:
    """Selects records of the quarantine; they must meet all conditions given."""
    return {
        "table": table,
        "error": error,
        "column": column,
        "since": since.isoformat() if isinstance(since, datetime.datetime) else since,
        "until": until.isoformat() if isinstance(until, datetime.datetime) else until,
        "id": id,
    }
