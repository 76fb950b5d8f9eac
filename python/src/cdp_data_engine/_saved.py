"""
What a project saves by name: queries, schedules and segments. Bodies and responses are those of
the API (docs/queries.md, docs/schedules.md, docs/segments.md).
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional

from ._json import to_json
from ._operations import Operation, Response, query_text, true_or_none
from ._query import QueryResult, result_of
from ._transport import Request
from .errors import BadRequestError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}\Z")

Saved = Dict[str, Any]


def queries() -> Operation[List[Saved]]:
    """The saved queries."""
    return _one("queries", Request("GET", _path("queries"), idempotent=True))


def saved_query(name: str) -> Operation[Saved]:
    """One of them; :meth:`query` runs SQL."""
    return _one("query", Request("GET", _path("queries", name), idempotent=True))


def save_query(name: str, query: Mapping[str, Any]) -> Operation[Saved]:
    """
    Saves a query, or replaces it.

    :param query: ``{"sql": …, "parameters": [{"name": "country", "type": "TEXT"}]}``
    """
    return _put("query", _path("queries", name), query)


def run_query(
    name: str,
    parameters: Optional[Mapping[str, Any]] = None,
    *,
    timeout_ms: Optional[int] = None,
    max_rows: Optional[int] = None,
    dry_run: bool = False,
) -> Operation[QueryResult]:
    """
    Runs a saved query.

    :param parameters: a value, or None, for each parameter
    :param max_rows: 10,000 by default, at most 100,000; ``truncated`` is True if there were more
    """
    options = {"timeout_ms": timeout_ms, "max_rows": max_rows}
    given = {key: value for key, value in options.items() if value is not None}
    body: Dict[str, Any] = {"parameters": dict(parameters or {}), "numbers": "string", **given}
    path = _path("queries", name, "run") + query_text({"dry_run": true_or_none(dry_run)})
    response: Response = yield Request("POST", path, idempotent=dry_run, body=to_json(body))
    return result_of(response)


def delete_query(name: str) -> Operation[None]:
    """Deletes a saved query."""
    yield Request("DELETE", _path("queries", name), idempotent=False)


def schedules() -> Operation[List[Saved]]:
    """The schedules, each with its last run."""
    return _one("schedules", Request("GET", _path("schedules"), idempotent=True))


def schedule(name: str) -> Operation[Saved]:
    """One with its last ``runs``."""
    return _one("schedule", Request("GET", _path("schedules", name), idempotent=True))


def save_schedule(name: str, schedule: Mapping[str, Any]) -> Operation[Saved]:
    """
    Makes or replaces a schedule.

    :param schedule: ``{"sql": …, "cron": "0 3 * * *", "time_zone": "Europe/Berlin"}``
    """
    return _put("schedule", _path("schedules", name), schedule)


def run_schedule(name: str, *, dry_run: bool = False) -> Operation[Response]:
    """Runs it now: ``run``, after 30 seconds at most, while a longer one goes on; or its error."""
    query = query_text({"dry_run": true_or_none(dry_run)})
    response: Response = yield _action("schedules", name, "run" + query, dry_run)
    return response


def pause_schedule(name: str) -> Operation[Saved]:
    """Lets it wait until it is resumed."""
    return _one("schedule", _action("schedules", name, "pause"))


def resume_schedule(name: str) -> Operation[Saved]:
    """From its next time on."""
    return _one("schedule", _action("schedules", name, "resume"))


def delete_schedule(name: str) -> Operation[None]:
    """Deletes a schedule with its runs."""
    yield Request("DELETE", _path("schedules", name), idempotent=False)


def segments() -> Operation[List[Saved]]:
    """The segments, each with its last run."""
    return _one("segments", Request("GET", _path("segments"), idempotent=True))


def segment(name: str) -> Operation[Saved]:
    """One with its last ``runs``."""
    return _one("segment", Request("GET", _path("segments", name), idempotent=True))


def save_segment(name: str, segment: Mapping[str, Any]) -> Operation[Saved]:
    """
    Makes or replaces a segment.

    :param segment: ``{"sql": "SELECT … AS key …", "every": "1h", "max_change": 20}``
    """
    return _put("segment", _path("segments", name), segment)


def run_segment(name: str, *, force: bool = False, dry_run: bool = False) -> Operation[Response]:
    """
    Finds its members now: ``run``, after 30 seconds at most, while a longer one goes on; or its
    error.

    :param force: also if it changes more than ``max_change``
    """
    query = query_text({"force": true_or_none(force), "dry_run": true_or_none(dry_run)})
    response: Response = yield _action("segments", name, "run" + query, dry_run)
    return response


def segment_members(name: str) -> Operation[QueryResult]:
    """
    ``key`` and ``entered_at`` of the members, by key; ``truncated`` is True if there are more than
    10,000. :meth:`stream` reads all of them from ``segment_members``.
    """
    response: Response = yield Request("GET", _path("segments", name, "members"), idempotent=True)
    return result_of(response)


def pause_segment(name: str) -> Operation[Saved]:
    """Lets it wait until it is resumed."""
    return _one("segment", _action("segments", name, "pause"))


def resume_segment(name: str) -> Operation[Saved]:
    """From its next time on."""
    return _one("segment", _action("segments", name, "resume"))


def delete_segment(name: str) -> Operation[None]:
    """Deletes a segment with its members and runs; its changes stay."""
    yield Request("DELETE", _path("segments", name), idempotent=False)


def _path(kind: str, name: Optional[str] = None, action: Optional[str] = None) -> str:
    """:raises CdpError: invalid_name: ``..`` would lead to another path"""
    if name is not None and not (isinstance(name, str) and _NAME.match(name)):
        message = f"{json.dumps(str(name))} does not match ^[A-Za-z][A-Za-z0-9_-]{{0,62}}$"
        raise BadRequestError("invalid_name", message)
    return "/".join(part for part in ("/api/cdp", kind, name, action) if part is not None)


def _action(kind: str, name: str, action: str, idempotent: bool = False) -> Request:
    return Request("POST", _path(kind, name, action), idempotent=idempotent)


def _put(field: str, path: str, body: Mapping[str, Any]) -> Operation[Saved]:
    return _one(field, Request("PUT", path, idempotent=True, body=to_json(dict(body))))


def _one(field: str, request: Request) -> Operation[Any]:
    response: Response = yield request
    return response[field]
