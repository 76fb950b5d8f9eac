"""
Mirrors a table of a project into SQLite, and keeps it the same.

    CDP_URL=… CDP_TOKEN=… python3 mirror.py customers customers.db

The cursor is stored in the same SQLite transaction as the rows it belongs to. So the mirror may
be killed at any time: each change counts once.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any, Dict, Iterable, List, Optional

from cdp_data_engine import CdpClient, CursorExpiredError

#: Rows of a snapshot that are inserted at a time.
CHUNK = 1_000


class Mirror:
    def __init__(self, client: CdpClient, table: str, path: str) -> None:
        self.client = client
        self.table = table
        # This program begins and ends transactions itself.
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS _mirror (name TEXT PRIMARY KEY, cursor TEXT)")

    def run(self) -> None:
        """Follows the table until it is dropped, or leaves the feed."""
        cursor = self.cursor()
        while True:
            try:
                if cursor is None:
                    cursor = self.read_snapshot()
                page = self.client.changes_page(after=cursor, tables=[self.table], wait=30)
                cursor = self.apply(page["changes"], page["cursor"])
            except CursorExpiredError as error:
                print(f"{error}: reading the table again", file=sys.stderr)
                cursor = None

    def cursor(self) -> Optional[str]:
        row = self.db.execute("SELECT cursor FROM _mirror WHERE name = ?", [self.table]).fetchone()
        return None if row is None else row[0]

    def read_snapshot(self) -> str:
        """Replaces the mirror by the table as it is now. Readers see the old rows until then."""
        snapshot = self.client.snapshot(self.table)
        self.db.execute("BEGIN")
        try:
            self.db.execute(f"DROP TABLE IF EXISTS {quoted(self.table)}")
            for number, rows in enumerate(chunks(snapshot)):
                if number == 0:
                    columns = list(rows[0]) if rows else self.columns()
                    names = ", ".join(quoted(name) for name in columns)
                    self.db.execute(f"CREATE TABLE {quoted(self.table)} ({names})")
                self.insert(rows)
            key = self.key()
            if key:
                names = ", ".join(quoted(name) for name in key)
                self.db.execute(f"CREATE UNIQUE INDEX {quoted(self.table + '_key')}"
                                f" ON {quoted(self.table)} ({names})")
            self.store(snapshot.cursor)
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        return snapshot.cursor

    def columns(self) -> List[str]:
        return [column["name"] for column in self.client.describe(self.table)["columns"]]

    def key(self) -> List[str]:
        for index in self.client.indexes(self.table):
            if index["primary"]:
                return [str(column) for column in index["columns"]]
        return []

    def apply(self, changes: List[Dict[str, Any]], cursor: str) -> Optional[str]:
        """Applies a page in one transaction. :returns: None: the table must be read again"""
        self.db.execute("BEGIN")
        try:
            for change in changes:
                if change["op"] == "schema":
                    if change["change"] in ("dropped", "left"):
                        raise SystemExit(f"{self.table} is no longer in the feed")
                    # It has other columns or rows now. What was applied so far does not matter.
                    self.db.execute("ROLLBACK")
                    self.forget()
                    return None
                self.apply_one(change)
            self.store(cursor)
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise
        return cursor

    def apply_one(self, change: Dict[str, Any]) -> None:
        op, record = change["op"], change["record"]
        if op == "truncate":
            self.db.execute(f"DELETE FROM {quoted(self.table)}")
        elif op == "insert":
            self.insert([record])
        elif op == "delete":
            self.db.execute(f"DELETE FROM {quoted(self.table)} WHERE {where(change['key'])}",
                            values(change["key"]))
        else:
            # An update of the key has the former one. Columns that Postgres did not send, because
            # they are long and stayed the same, are not in the record, so they stay here too.
            former = change.get("old") or change["key"]
            former = {name: former[name] for name in change["key"]}
            names = ", ".join(f"{quoted(name)} = ?" for name in record)
            self.db.execute(f"UPDATE {quoted(self.table)} SET {names} WHERE {where(former)}",
                            [*values(record), *values(former)])

    def insert(self, rows: List[Dict[str, Any]]) -> None:
        if rows:
            names = ", ".join(quoted(name) for name in rows[0])
            places = ", ".join("?" for _ in rows[0])
            self.db.executemany(
                f"INSERT INTO {quoted(self.table)} ({names}) VALUES ({places})", map(values, rows)
            )

    def store(self, cursor: str) -> None:
        self.db.execute("INSERT OR REPLACE INTO _mirror VALUES (?, ?)", [self.table, cursor])
        self.db.execute("COMMIT")

    def forget(self) -> None:
        self.db.execute("DELETE FROM _mirror WHERE name = ?", [self.table])


def chunks(rows: Iterable[Dict[str, Any]]) -> Iterable[List[Dict[str, Any]]]:
    chunk: List[Dict[str, Any]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    yield chunk


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def where(key: Dict[str, Any]) -> str:
    return " AND ".join(f"{quoted(name)} = ?" for name in key)


def values(record: Dict[str, Any]) -> List[Any]:
    """SQLite has no lists, objects or booleans: they are stored as JSON, and as 0 and 1."""
    return [json.dumps(value) if isinstance(value, (list, dict)) else value
            for value in record.values()]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: mirror.py TABLE FILE")
    with CdpClient(max_retries=1_000_000) as client:
        try:
            Mirror(client, sys.argv[1], sys.argv[2]).run()
        except KeyboardInterrupt:
            pass
