"""Tables, columns and indexes. Bodies and responses are those of the API (docs/api.md)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _operations as ops
from ._operations import Operation, Response, T

Columns = Union[Mapping[str, str], Sequence[Mapping[str, Any]]]
Names = Union[str, Sequence[str]]


class SchemaMethods:
    """What :class:`CdpClient` has for them."""

    def _run(self, operation: Operation[T]) -> T:
        raise NotImplementedError

    def create_table(
        self,
        table: str,
        columns: Columns,
        *,
        comment: Optional[str] = None,
        dry_run: bool = False,
    ) -> Response:
        """:param columns: ``{"email": "TEXT"}``, or objects with ``name``, ``type``, ``comment``"""
        return self._run(ops.create_table(table, columns, comment, dry_run))

    def alter_table(
        self, table: str, change: Mapping[str, Any], *, dry_run: bool = False
    ) -> Response:
        """:param change: ``new_name``, ``comment`` or both"""
        return self._run(ops.change("PUT", ["table", table], change, dry_run))

    def drop_table(self, table: str, *, dry_run: bool = False) -> Response:
        return self._run(ops.change("DELETE", ["table", table], None, dry_run))

    def add_column(
        self, table: str, name: str, type: str, *, dry_run: bool = False, **more: Any
    ) -> Response:
        """:param more: ``comment``, ``unique``"""
        column = {"name": name, "type": type, **more}
        return self._run(ops.change("POST", ["table", table, "column"], column, dry_run))

    def alter_column(
        self,
        table: str,
        column: str,
        change: Mapping[str, Any],
        *,
        return_values: bool = False,
        dry_run: bool = False,
    ) -> Response:
        """
        :param change: at least one of ``new_name``, ``new_type``, ``map``, ``comment``,
            ``default``, ``not_null``, ``unique``
        :param return_values: an error ``not_convertible`` has the most frequent values
        """
        path = ["table", table, "column", column]
        return self._run(ops.change("PUT", path, change, dry_run, return_values))

    def drop_column(self, table: str, column: str, *, dry_run: bool = False) -> Response:
        return self._run(ops.change("DELETE", ["table", table, "column", column], None, dry_run))

    def create_index(
        self,
        table: str,
        columns: Names,
        *,
        unique: bool = False,
        name: Optional[str] = None,
        dry_run: bool = False,
    ) -> Response:
        return self._run(ops.create_index(table, columns, unique, name, dry_run))

    def indexes(self, table: str) -> List[Dict[str, Any]]:
        """The primary key first."""
        return self._run(ops.read(["table", table, "index"], "indexes"))

    def drop_index(self, table: str, index: str, *, dry_run: bool = False) -> Response:
        return self._run(ops.change("DELETE", ["table", table, "index", index], None, dry_run))

    def tables(self) -> List[Dict[str, Any]]:
        """All tables and views with their columns."""
        return self._run(ops.read([], "tables"))

    def describe(self, table: str) -> Dict[str, Any]:
        """One table or view with its columns."""
        return self._run(ops.read(["table", table], "table"))
