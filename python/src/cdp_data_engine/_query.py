"""SQL requests and results: parameters as JSON, rows as Python's types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ._json import NotJsonError, to_json
from ._operations import Operation, Response, query_text, true_or_none
from ._transport import Request
from ._values import Column, Row, converters, convert_rows

_PANDAS_TYPES = {
    # pandas' types that have a NULL; int64 and bool do not.
    "INTEGER": "Int64",
    "integer": "Int32",
    "smallint": "Int16",
    "BOOLEAN": "boolean",
}


@dataclass(frozen=True)
class QueryResult:
    """
    ``truncated`` says whether there were more rows than ``max_rows`` (10,000 by default), or than
    16 MiB hold.
    """

    rows: List[Row]
    #: ``name`` and ``type`` of each.
    columns: List[Column]
    row_count: int
    truncated: bool
    #: Postgres's command tag without its counts: SELECT, INSERT, CREATE TABLE.
    type: str
    #: For INSERT, UPDATE, DELETE and MERGE.
    affected_rows: Optional[int] = None
    #: If several statements ran: all of them.
    results: List["QueryResult"] = field(default_factory=list)
    #: With ``dry_run``.
    impact: Optional[Dict[str, Any]] = None

    def to_pandas(self) -> Any:
        """
        A pandas.DataFrame. Integers and booleans keep their NULLs, numeric is Decimal.

        :raises ValueError: if the result is truncated, since a DataFrame would not show that
        :raises ImportError: without pandas
        """
        names = self._complete_names()
        import pandas

        frame = pandas.DataFrame(self.rows, columns=names)
        types = {c["name"]: _PANDAS_TYPES.get(c["type"]) for c in self.columns}
        return frame.astype({name: kind for name, kind in types.items() if kind is not None})

    def to_arrow(self) -> Any:
        """
        A pyarrow.Table, with the types that pyarrow finds in the values.

        :raises ValueError: as ``to_pandas``
        :raises ImportError: without pyarrow
        """
        names = self._complete_names()
        import pyarrow

        return pyarrow.table({name: [row[name] for row in self.rows] for name in names})

    def _complete_names(self) -> List[str]:
        if self.truncated:
            raise ValueError(
                f"the result is truncated after {self.row_count} rows:"
                " raise max_rows (at most 100000), or use stream()"
            )
        return [column["name"] for column in self.columns]


def sql_request(
    sql: str,
    params: Sequence[Any],
    options: Mapping[str, Any],
    *,
    dry_run: bool = False,
    idempotency_key: Optional[str] = None,
) -> Request:
    """:raises TypeError: for a parameter that cannot be sent, which it names as ``"$1"``"""
    if isinstance(params, (str, bytes, Mapping)):
        raise TypeError("params is a list of values: query(sql, [value])")
    try:
        values = b",".join(to_json(value, f"${i + 1}") for i, value in enumerate(params))
    except NotJsonError as error:
        raise TypeError(str(error)) from None
    given = {name: value for name, value in options.items() if value is not None}
    body = to_json({"sql": sql, "numbers": "string", **given})
    return Request(
        "POST",
        "/api/cdp/sql" + query_text({"dry_run": true_or_none(dry_run)}),
        # Neither a read-only transaction nor a dry run changes anything.
        idempotent=given.get("read_only") is True or dry_run or idempotency_key is not None,
        body=b'%b,"params":[%b]}' % (body[:-1], values),
        headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
    )


def query(
    sql: str,
    params: Sequence[Any] = (),
    *,
    read_only: Optional[bool] = None,
    timeout_ms: Optional[int] = None,
    max_rows: Optional[int] = None,
    dry_run: bool = False,
    idempotency_key: Optional[str] = None,
) -> Operation[QueryResult]:
    """
    One transaction; its parameters are ``$1``, ``$2``, …

    :param max_rows: 10,000 by default, at most 100,000; ``truncated`` is True if there were more
    :param idempotency_key: for SQL that writes: a retry does not run it again. Without it, SQL
        that may have run is not sent again, unless it is ``read_only``
    """
    options = {"read_only": read_only, "timeout_ms": timeout_ms, "max_rows": max_rows}
    response: Response = yield sql_request(
        sql, params, options, dry_run=dry_run, idempotency_key=idempotency_key
    )
    return result_of(response)


def result_of(response: Mapping[str, Any]) -> QueryResult:
    columns: List[Column] = response["columns"]
    return QueryResult(
        rows=convert_rows(response["rows"], converters(columns)),
        columns=columns,
        row_count=response["row_count"],
        truncated=response["truncated"],
        type=response["type"],
        affected_rows=response.get("affected_rows"),
        results=[result_of(result) for result in response.get("results", ())],
        impact=response.get("impact"),
    )
