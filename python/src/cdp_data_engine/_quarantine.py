"""The quarantine: records that were refused and kept."""

from __future__ import annotations

import datetime
from typing import Any, List, Mapping, Optional, Sequence, Union

from ._json import to_json
from ._operations import (
    Names,
    Operation,
    Response,
    add_impact,
    names,
    query_text,
    true_or_none,
)
from ._transport import Request

Moment = Union[datetime.datetime, str, None]
Where = Mapping[str, Optional[str]]

_QUARANTINE = "/api/cdp/quarantine"


def quarantine_page(where: Where, after: Optional[str]) -> Operation[Response]:
    query = query_text({**where, "after": after})
    page: Response = yield Request("GET", _QUARANTINE + query, idempotent=True)
    return page


def quarantine_groups(
    *,
    table: Optional[str] = None,
    error: Optional[str] = None,
    column: Optional[str] = None,
    since: Moment = None,
    until: Moment = None,
) -> Operation[List[Mapping[str, Any]]]:
    """How many records have which error in which column; the largest groups first."""
    query = query_text({**where(table, error, column, since, until, None), "group": "true"})
    response = yield Request("GET", _QUARANTINE + query, idempotent=True)
    groups: List[Mapping[str, Any]] = response["groups"]
    return groups


def replay_quarantine(
    table: str,
    *,
    error: Optional[str] = None,
    column: Optional[str] = None,
    since: Moment = None,
    until: Moment = None,
    id: Optional[str] = None,
    rename: Optional[Mapping[str, str]] = None,
    set: Optional[Mapping[str, Any]] = None,
    set_from: Optional[Mapping[str, str]] = None,
    set_sql: Optional[Mapping[str, str]] = None,
    drop: Optional[Sequence[str]] = None,
    record: Any = None,
    on_conflict: Optional[Names] = None,
    resolution: Optional[str] = None,
    version: Optional[str] = None,
    unchanged: Optional[str] = None,
    merge_json: bool = False,
    unknown: Optional[str] = None,
    dry_run: bool = False,
) -> Operation[Response]:
    """
    Retries quarantined records, each once; one that is stored leaves the quarantine.

    :param rename: new names of keys
    :param set: values to replace in the records, or to add to them
    :param set_from: columns that take the value of another key, in records that have it
    :param set_sql: columns that take the value of an SQL expression over ``record``, as jsonb
    :param drop: keys to leave out
    :param record: with ``id``: what to store in place of the record
    :returns: ``inserted``, ``updated``, ``ignored``, ``refused``, ``errors``; with ``unchanged``
        also ``unchanged``, with ``dry_run`` also ``impact``
    """
    given = {
        **where(table, error, column, since, until, id),
        "rename": rename and dict(rename),
        "set": set and dict(set),
        "set_from": set_from and dict(set_from),
        "set_sql": set_sql and dict(set_sql),
        "drop": drop and list(drop),
        "record": record,
        "on_conflict": None if on_conflict is None else names(on_conflict),
        "resolution": resolution,
        "version": version,
        "unchanged": unchanged,
        "merge_json": merge_json or None,
        "unknown": unknown,
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
        if "unchanged_rows" in response:
            total["unchanged"] = total.get("unchanged", 0) + response["unchanged_rows"]
        total["errors"] += response["errors"]
        if "impact" in response:
            total["impact"] = add_impact(total.get("impact"), response["impact"])
        if response["next"] is None:
            return total
        body["after"] = response["next"]


def drop_quarantine(
    *,
    table: Optional[str] = None,
    error: Optional[str] = None,
    column: Optional[str] = None,
    since: Moment = None,
    until: Moment = None,
    id: Optional[str] = None,
    all: bool = False,
) -> Operation[int]:
    """Deletes records from the quarantine, with ``all`` every one. :returns: how many"""
    selected = where(table, error, column, since, until, id)
    query = query_text({**selected, "all": "true" if all else None})
    response = yield Request("DELETE", _QUARANTINE + query, idempotent=True)
    deleted: int = response["deleted_rows"]
    return deleted


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
