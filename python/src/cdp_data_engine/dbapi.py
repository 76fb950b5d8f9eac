"""
DB-API 2.0 (PEP 249) over free SQL, for pandas.read_sql and other programs that expect it.

Each ``execute`` is one request, and so one transaction that is committed when it returns:
autocommit. ``commit`` does nothing; ``rollback`` raises NotSupportedError, since nothing can be
undone.
"""

from __future__ import annotations

import datetime
import re
import time
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type
from typing import Union

from ._dbapi_errors import (
    DatabaseError as DatabaseError,
    DataError as DataError,
    Error as Error,
    IntegrityError as IntegrityError,
    InterfaceError as InterfaceError,
    InternalError as InternalError,
    NotSupportedError as NotSupportedError,
    OperationalError as OperationalError,
    ProgrammingError as ProgrammingError,
    Warning as Warning,
    from_cdp_error,
)
from ._values import Column
from .client import CdpClient
from .errors import CdpError

apilevel = "2.0"
#: Threads may share the module and connections.
threadsafety = 2
#: ``%s`` or ``%(name)s``; ``%%`` is a percent sign. Without parameters SQL is sent as it is.
paramstyle = "pyformat"


class _TypeObject:
    """Equal to the types of columns that it stands for."""

    def __init__(self, *types: str) -> None:
        self._types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        return other in self._types if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self._types)


STRING = _TypeObject("TEXT", "character varying", "bpchar", "name")
BINARY = _TypeObject("bytea")
NUMBER = _TypeObject("INTEGER", "integer", "smallint", "numeric", "FLOAT", "real")
DATETIME = _TypeObject(
    "TIMESTAMP",
    "timestamp without time zone",
    "date",
    "time without time zone",
    "time with time zone",
    "interval",
)
ROWID = _TypeObject("oid")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    return Timestamp(*time.localtime(ticks)[:6])


Parameters = Union[Sequence[Any], Mapping[str, Any], None]
Row = Tuple[Any, ...]
Description = List[Tuple[str, str, None, None, None, None, None]]

_PLACEHOLDER = re.compile(r"%(?:(%)|(s)|\((\w+)\)s|)")


def connect(
    url: Optional[str] = None,
    token: Optional[str] = None,
    *,
    read_only: bool = False,
    timeout_ms: Optional[int] = None,
    **options: Any,
) -> "Connection":
    """
    :param url: default: ``CDP_URL``
    :param token: default: ``CDP_TOKEN``
    :param read_only: every statement runs as the reader, and is retried if its response is lost
    :param timeout_ms: of each statement
    :param options: those of :class:`CdpClient`
    """
    try:
        client = CdpClient(url, token, **options)
    except ValueError as error:
        raise InterfaceError(str(error)) from None
    return Connection(client, {"read_only": read_only or None, "timeout_ms": timeout_ms})


class Connection:
    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, client: CdpClient, options: Mapping[str, Any]) -> None:
        self._client: Optional[CdpClient] = client
        self._options = options

    def cursor(self) -> "Cursor":
        self._open_client()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do: every ``execute`` has been committed."""
        self._open_client()

    def rollback(self) -> None:
        self._open_client()
        raise NotSupportedError("every execute was committed; nothing can be rolled back")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def _open_client(self) -> CdpClient:
        if self._client is None:
            raise InterfaceError("the connection is closed")
        return self._client


class Cursor:
    """``execute`` reads the whole result; for results larger than memory, use CdpClient.stream."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: Optional[Description] = None
        #: Rows of the result, or rows affected; -1 before the first ``execute``.
        self.rowcount = -1
        self.lastrowid = None
        self._rows: Optional[Iterator[List[Any]]] = None
        self._is_closed = False

    def execute(self, operation: str, parameters: Parameters = None) -> "Cursor":
        """:raises Error: if the response is lost, OperationalError: it may have been done"""
        client = self._client()
        self.description, self._rows, self.rowcount = None, None, -1
        sql, params = _compile(operation, parameters)
        rows: List[List[Any]] = []
        try:
            stream = client._open_rows(sql, params, self.connection._options, as_lists=True)
            try:
                chunk = stream.next_rows()
                while chunk is not None:
                    rows += chunk
                    chunk = stream.next_rows()
            finally:
                stream.close()
        except CdpError as error:
            raise from_cdp_error(error) from error
        except TypeError as error:
            raise InterfaceError(str(error)) from error
        self.rowcount = stream.row_count
        if stream.columns:
            self.description = [_describe(column) for column in stream.columns]
            self._rows = iter(rows)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> None:
        """One request, and one transaction, for each; CdpClient.insert is the way for many rows."""
        total = 0
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            total += self.rowcount
        self.rowcount = total

    def fetchone(self) -> Optional[Row]:
        for row in self._result():
            return tuple(row)
        return None

    def fetchmany(self, size: Optional[int] = None) -> List[Row]:
        rows = self._result()
        wanted = self.arraysize if size is None else size
        return [tuple(row) for _, row in zip(range(wanted), rows)]

    def fetchall(self) -> List[Row]:
        return [tuple(row) for row in self._result()]

    def __iter__(self) -> Iterator[Row]:
        return (tuple(row) for row in self._result())

    def close(self) -> None:
        self._is_closed = True
        self._rows = None

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def _client(self) -> CdpClient:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        return self.connection._open_client()

    def _result(self) -> Iterator[List[Any]]:
        self._client()
        if self._rows is None:
            raise ProgrammingError("there is no result: the last statement returned no rows")
        return self._rows


def _describe(column: Column) -> Tuple[str, str, None, None, None, None, None]:
    return (column["name"], column["type"] or "unknown", None, None, None, None, None)


def _compile(sql: str, parameters: Parameters) -> Tuple[str, List[Any]]:
    """The statement with ``$1``, ``$2``; as psycopg, it does not look for quotes."""
    if not isinstance(sql, str):
        raise InterfaceError("the statement is not a string")
    if parameters is None:
        return sql, []
    if isinstance(parameters, (str, bytes)):
        raise InterfaceError("parameters: a sequence or a mapping, not text")
    given = parameters
    values: List[Any] = []
    places: Dict[str, int] = {}

    def place(match: "re.Match[str]") -> str:
        percent, by_position, name = match.groups()
        if percent:
            return "%"
        if name is not None and isinstance(given, Mapping):
            if name not in given:
                raise ProgrammingError(f"there is no parameter {name!r}")
            if name not in places:
                values.append(given[name])
                places[name] = len(values)
            return f"${places[name]}"
        if by_position and not isinstance(given, Mapping):
            if len(values) == len(given):
                raise ProgrammingError("there are more %s than parameters")
            values.append(given[len(values)])
            return f"${len(values)}"
        raise ProgrammingError("placeholders are %s, or %(name)s for a mapping; %% is %")

    text = _PLACEHOLDER.sub(place, sql)
    if not isinstance(given, Mapping) and len(values) < len(given):
        raise ProgrammingError(f"there are {len(given)} parameters for {len(values)} %s")
    return text, values
