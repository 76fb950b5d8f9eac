"""The same as ``_schema.py`` for asyncio."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from . import _operations as ops
from ._operations import Operation, Response, T
from ._schema import Columns, Names


class AsyncSchemaMethods:
    """What :class:`AsyncCdpClient` has for them."""

    async def _run(self, operation: Operation[T]) -> T:
        raise NotImplementedError

    async def create_table(
        self,
        table: str,
        columns: Columns,
        *,
        comment: Optional[str] = None,
        dry_run: bool = False,
    ) -> Response:
        """:param columns: ``{"email": "TEXT"}``, or objects with ``name``, ``type``, ``comment``"""
        return await self._run(ops.create_table(table, columns, comment, dry_run))

    async def alter_table(
        self, table: str, change: Mapping[str, Any], *, dry_run: bool = False
    ) -> Response:
        """:param change: ``new_name``, ``comment`` or both"""
        return await self._run(ops.change("PUT", ["table", table], change, dry_run))

    async def drop_table(self, table: str, *, dry_run: bool = False) -> Response:
        return await self._run(ops.change("DELETE", ["table", table], None, dry_run))

    async def add_column(
        self, table: str, name: str, type: str, *, dry_run: bool = False, **more: Any
    ) -> Response:
        """:param more: ``comment``, ``unique``"""
        column = {"name": name, "type": type, **more}
        return await self._run(ops.change("POST", ["table", table, "column"], column, dry_run))

    async def alter_column(
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
        return await self._run(ops.change("PUT", path, change, dry_run, return_values))

    async def drop_column(self, table: str, column: str, *, dry_run: bool = False) -> Response:
        path = ["table", table, "column", column]
        return await self._run(ops.change("DELETE", path, None, dry_run))

    async def create_index(
        self,
        table: str,
        columns: Names,
        *,
        unique: bool = False,
        name: Optional[str] = None,
        dry_run: bool = False,
    ) -> Response:
        return await self._run(ops.create_index(table, columns, unique, name, dry_run))

    async def indexes(self, table: str) -> List[Dict[str, Any]]:
        """The primary key first."""
        return await self._run(ops.read(["table", table, "index"], "indexes"))

    async def drop_index(self, table: str, index: str, *, dry_run: bool = False) -> Response:
        path = ["table", table, "index", index]
        return await self._run(ops.change("DELETE", path, None, dry_run))

    async def tables(self) -> List[Dict[str, Any]]:
        """All tables and views with their columns."""
        return await self._run(ops.read([], "tables"))

    async def describe(self, table: str) -> Dict[str, Any]:
        """One table or view with its columns."""
        return await self._run(ops.read(["table", table], "table"))
