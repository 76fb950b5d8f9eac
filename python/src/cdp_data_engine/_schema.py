"""
Tables, columns and indexes: the methods of both clients. Bodies and responses are those of the API
(docs/api.md).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._json import to_json
from ._operations import Names, Operation, Response, in_path, new_key, query_text, true_or_none
from ._transport import Request

Columns = Union[Mapping[str, str], Sequence[Mapping[str, Any]]]


def create_table(
    table: str, columns: Columns, *, comment: Optional[str] = None, dry_run: bool = False
) -> Operation[Response]:
    """:param columns: ``{"email": "TEXT"}``, or objects with ``name``, ``type``, ``comment``"""
    if isinstance(columns, Mapping):
        columns = [{"name": name, "type": kind} for name, kind in columns.items()]
    body: Dict[str, Any] = {"table_name": table, "columns": [dict(column) for column in columns]}
    if comment is not None:
        body["comment"] = comment
    return _change("POST", ["table"], body, dry_run)


def alter_table(
    table: str, change: Mapping[str, Any], *, dry_run: bool = False
) -> Operation[Response]:
    """:param change: ``new_name``, ``comment`` or both"""
    return _change("PUT", ["table", table], change, dry_run)


def drop_table(table: str, *, dry_run: bool = False) -> Operation[Response]:
    return _change("DELETE", ["table", table], None, dry_run)


def add_column(
    table: str, name: str, type: str, *, dry_run: bool = False, **more: Any
) -> Operation[Response]:
    """:param more: ``comment``, ``unique``"""
    column = {"name": name, "type": type, **more}
    return _change("POST", ["table", table, "column"], column, dry_run)


def alter_column(
    table: str,
    column: str,
    change: Mapping[str, Any],
    *,
    return_values: bool = False,
    dry_run: bool = False,
) -> Operation[Response]:
    """
    :param change: at least one of ``new_name``, ``new_type``, ``map``, ``comment``,
        ``default``, ``not_null``, ``unique``
    :param return_values: an error ``not_convertible`` has the most frequent values
    """
    return _change("PUT", ["table", table, "column", column], change, dry_run, return_values)


def drop_column(table: str, column: str, *, dry_run: bool = False) -> Operation[Response]:
    return _change("DELETE", ["table", table, "column", column], None, dry_run)


def create_index(
    table: str,
    columns: Names,
    *,
    unique: bool = False,
    name: Optional[str] = None,
    dry_run: bool = False,
) -> Operation[Response]:
    listed = [columns] if isinstance(columns, str) else list(columns)
    body: Dict[str, Any] = {"columns": listed, "unique": unique}
    if name is not None:
        body["name"] = name
    return _change("POST", ["table", table, "index"], body, dry_run)


def indexes(table: str) -> Operation[List[Dict[str, Any]]]:
    """The primary key first."""
    return _read(["table", table, "index"], "indexes")


def drop_index(table: str, index: str, *, dry_run: bool = False) -> Operation[Response]:
    return _change("DELETE", ["table", table, "index", index], None, dry_run)


def tables() -> Operation[List[Dict[str, Any]]]:
    """All tables and views with their columns."""
    return _read([], "tables")


def describe(table: str) -> Operation[Dict[str, Any]]:
    """One table or view with its columns."""
    return _read(["table", table], "table")


def _change(
    method: str,
    path: Sequence[str],
    body: Optional[Mapping[str, Any]],
    dry_run: bool,
    return_values: bool = False,
) -> Operation[Response]:
    query = {"return": "values" if return_values else None, "dry_run": true_or_none(dry_run)}
    response: Response = yield Request(
        method,
        _path(path) + query_text(query),
        # A change under a key is made once, however often it is sent.
        idempotent=True,
        body=None if body is None else to_json(dict(body)),
        headers={} if dry_run else {"Idempotency-Key": new_key()},
    )
    return response


def _read(path: Sequence[str], member: str) -> Operation[Any]:
    """:returns: one member of the response"""
    response: Response = yield Request("GET", _path(path), idempotent=True)
    return response[member]


def _path(path: Sequence[str]) -> str:
    return "/".join(["/api/cdp/schema", *map(in_path, path)])
