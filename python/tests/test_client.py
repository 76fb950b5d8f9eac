"""The client against the real service."""

from __future__ import annotations

import datetime
import decimal
import inspect
import json
import os
import pathlib
import re
import unittest
import uuid
from typing import Any, Dict, List

import cdp_data_engine
from cdp_data_engine import (
    AsyncCdpClient,
    AuthenticationError,
    BadRequestError,
    CallerError,
    CdpClient,
    CdpError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    QueryTimeoutError,
)
from support import ServiceTest

UTC = datetime.timezone.utc


class Insert(ServiceTest):
    def test_cuts_any_iterable_into_batches(self) -> None:
        table = self.table()
        seen: List[int] = []
        result = self.client.insert(
            table, ({"n": n} for n in range(1001)), on_progress=lambda p: seen.append(p.inserted)
        )
        self.assertEqual((result.inserted, result.batches, result.retries), (1001, 5, 0))
        self.assertEqual((len(seen), seen[-1]), (5, 1001))
        self.assertEqual(self.count(table), (1001, 1001))
        self.assertEqual(self.client.insert(table, []).batches, 0)

    def test_cuts_by_bytes_too(self) -> None:
        table = self.table(t="TEXT")
        records = [{"t": "x" * 4_000_000}] * 3
        self.assertEqual(self.client.insert(table, records).batches, 2)

    def test_goes_on_without_refused_records(self) -> None:
        table = self.table()
        records: List[Dict[str, Any]] = [{"n": n} for n in range(300)]
        records[7] = {"n": "x"}
        records[260] = {"m": 1}
        records[261] = {"n": {1}}
        refused: List[Any] = []
        result = self.client.insert(table, records, on_refused=refused.append, return_ids=True)
        self.assertEqual(sorted((r.index, r.errors[0]["column"]) for r in refused),
                         [(7, "n"), (260, "m"), (261, "n")])
        self.assertEqual((result.inserted, result.refused), (297, 3))
        self.assertEqual([i for i, row in enumerate(result.ids) if row is None], [7, 260, 261])
        self.assertEqual(self.count(table), (297, 297))

    def test_names_the_record_of_the_whole_input(self) -> None:
        table = self.table()
        with self.assertRaises(BadRequestError) as caught:
            records = ({"n": n if n < 600 else "x"} for n in range(601))
            self.client.insert(table, records, concurrency=1)
        error = caught.exception
        self.assertEqual((error.code, error.status, error.inserted), ("invalid_value", 400, 500))
        self.assertEqual(error.errors[0]["record"], 600)
        self.assertTrue(error.message.startswith("Record 600, column"), error.message)
        self.assertTrue(error.request_id)
        self.assertEqual(self.count(table), (500, 500))

    def test_says_what_was_stored_if_the_source_fails(self) -> None:
        table = self.table()

        def source() -> Any:
            yield from ({"n": n} for n in range(250))
            raise RuntimeError("the file ended")

        with self.assertRaises(CallerError) as caught:
            self.client.insert(table, source())
        self.assertEqual(caught.exception.inserted, 250)
        self.assertIsInstance(caught.exception.__cause__, RuntimeError)

    def test_refuses_what_is_no_source(self) -> None:
        for wrong in ({"n": 1}, "text"):
            with self.assertRaises(TypeError):
                self.client.insert("t", wrong)
        with self.assertRaises(BadRequestError):
            self.client.insert("t", [1])
        with self.assertRaises(ValueError):
            self.client.insert("t", [], concurrency=0)
        with self.assertRaises(BadRequestError):
            self.client.insert("../token", [{"n": 1}])

    def test_upserts_deletes_and_has_receipts(self) -> None:
        table = self.table(k="TEXT", n="INTEGER")
        self.client.create_index(table, "k", unique=True)
        self.client.insert(table, [{"k": "a", "n": 1}])
        records = [{"k": "a", "n": 2}, {"k": "b", "n": 3}]
        with self.assertRaises(ConflictError) as caught:
            self.client.insert(table, records)
        self.assertEqual(caught.exception.code, "unique_violation")
        result = self.client.insert(table, records, on_conflict="k")
        self.assertEqual((result.inserted, result.updated), (1, 1))
        ignored = self.client.insert(table, records, on_conflict=["k"], resolution="ignore")
        self.assertEqual(ignored.ignored, 2)
        same = self.client.insert(
            table, records, on_conflict="k", unchanged="skip", merge_json=True, unknown="ignore"
        )
        self.assertEqual((same.updated, same.ignored, same.unchanged), (0, 0, 2))
        older = [{"k": "a", "n": 1, "other": 1}, {"k": "b", "n": 3}]
        kept = self.client.insert_stream(
            table, older, on_conflict="k", resolution="newest", version="n", unknown="ignore"
        )
        self.assertEqual((kept.updated, kept.ignored), (0, 2))
        for _ in range(2):
            response = self.client.insert_batch(table, [{"k": "c"}], idempotency_key=f"{table}-c")
            self.assertEqual(response["inserted_rows"], 1)
        self.assertEqual(self.client.receipt(table, f"{table}-c")["status"], "stored")
        settled = self.client.receipts(table, [f"{table}-none"], settle=True)[0]
        self.assertEqual((settled["status"], settled["settled"]), ("not_stored", True))
        self.assertEqual(self.client.delete(table, [{"k": "a"}, {"k": "z"}], by="k"), 1)
        self.assertEqual(self.count(table), (2, 1))

    def test_keeps_bad_records_in_the_quarantine(self) -> None:
        table = self.table()
        result = self.client.insert(table, [{"n": 1}, {"n": "x"}], on_error="quarantine")
        self.assertEqual((result.inserted, result.quarantined), (1, 1))
        kept = list(self.client.quarantine(table=table))
        self.assertEqual(json.loads(kept[0]["record"]), {"n": "x"})
        groups = self.client.quarantine_groups(table=table, column="n")
        self.assertEqual([group["count"] for group in groups], [1])
        replayed = self.client.replay_quarantine(table, column="n", set={"n": 2}, drop=["none"])
        self.assertEqual((replayed["inserted"], replayed["refused"]), (1, 0))
        self.client.insert(table, [{"n": "y"}], on_error="quarantine")
        since = datetime.datetime(2020, 1, 1, tzinfo=UTC)
        self.assertEqual(self.client.drop_quarantine(table=table, since=since), 1)
        self.assertEqual(self.count(table), (2, 2))

    def test_runs_dry(self) -> None:
        table = self.table()
        tried = self.client.insert(table, [{"n": n} for n in range(300)], dry_run=True)
        assert tried.impact is not None
        self.assertEqual((tried.inserted, tried.batches), (300, 2))
        self.assertEqual(tried.impact["rows"][0]["inserted"], 300)
        self.client.insert(table, [{"n": "x"}], on_error="quarantine")
        replayed = self.client.replay_quarantine(table, set={"n": 1}, dry_run=True)
        self.assertEqual((replayed["inserted"], replayed["impact"]["rows"][0]["inserted"]), (1, 1))
        self.assertEqual(self.client.drop_quarantine(table=table), 1)
        keyed = self.table(k="TEXT")
        self.client.create_index(keyed, "k", unique=True)
        self.client.insert(keyed, [{"k": "a"}])
        for _ in range(2):
            self.assertEqual(self.client.delete(keyed, [{"k": "a"}], by="k", dry_run=True), 1)
        impact = self.client.query(f"INSERT INTO {table} VALUES (DEFAULT)", dry_run=True).impact
        assert impact is not None
        self.assertEqual(impact["rows"][0]["inserted"], 1)
        self.assertEqual(self.count(table), (0, 0))


class Tables(ServiceTest):
    def test_are_made_changed_and_dropped(self) -> None:
        table = self.table(a="TEXT")
        client = self.client
        client.add_column(table, "b", "INTEGER", comment="count")
        client.alter_column(table, "a", {"new_name": "c"})
        self.assertEqual([c["name"] for c in client.describe(table)["columns"]], ["id", "c", "b"])
        self.assertIn(table, [found["name"] for found in client.tables()])
        name = client.create_index(table, ["c", "b"], name=f"{table}_cb")["index"]["name"]
        self.assertEqual([index["name"] for index in client.indexes(table)][1:], [name])
        client.drop_index(table, name)
        client.insert(table, [{"c": "x"}])
        with self.assertRaises(ConflictError) as caught:
            client.alter_column(table, "c", {"new_type": "INTEGER"}, return_values=True)
        error = caught.exception
        ids = [str(row["id"]) for row in client.query(f"SELECT id FROM {table}").rows]
        self.assertEqual((error.rows, error.ids), (1, ids))
        self.assertEqual(error.values, [{"value": "x", "rows": 1}])
        client.drop_column(table, "b")
        client.alter_table(table, {"comment": "made by a test"})
        client.drop_table(table)
        with self.assertRaises(NotFoundError):
            client.describe(table)
        self.assertEqual(client.token()["token"]["scopes"][0], "schema:read")


class Sql(ServiceTest):
    VALUES = """
        SELECT 9007199254740993 AS big, 1.50::numeric(9,2) AS exact, 21::numeric AS whole, 3 AS small,
          float8 'NaN' AS nan, 0.1::float8 AS float, true AS yes, NULL AS nothing,
          timestamptz '2026-01-31 09:30:00.5+01' AS at, timestamptz 'infinity' AS never,
          timestamp '2026-01-31 09:30' AS local, date '2026-01-31' AS day, date '0044-03-15 BC' AS ides,
          time '09:30:00.25' AS time, '\\x00ff'::bytea AS bytes,
          '01a1fd4a-ba32-726b-b7d9-cf4374f5ddde'::uuid AS id,
          '{"a": [1.5, 9007199254740993]}'::jsonb AS json, ARRAY[[1.5, NULL]]::numeric[] AS list,
          interval '90 min' AS span"""
    EXPECTED = {
        "big": 9007199254740993,
        "exact": decimal.Decimal("1.50"),
        "whole": decimal.Decimal(21),
        "small": 3,
        "float": 0.1,
        "yes": True,
        "nothing": None,
        "at": datetime.datetime(2026, 1, 31, 8, 30, 0, 500_000, tzinfo=UTC),
        "never": "infinity",
        "local": datetime.datetime(2026, 1, 31, 9, 30),
        "day": datetime.date(2026, 1, 31),
        "ides": "0044-03-15 BC",
        "time": datetime.time(9, 30, 0, 250_000),
        "bytes": b"\x00\xff",
        "id": uuid.UUID("01a1fd4a-ba32-726b-b7d9-cf4374f5ddde"),
        "json": {"a": [1.5, 9007199254740993]},
        "list": [[decimal.Decimal("1.5"), None]],
        "span": "01:30:00",
    }

    def test_has_rows_of_pythons_types(self) -> None:
        for row in (self.client.query(self.VALUES).rows[0], *self.client.stream(self.VALUES)):
            self.assertNotEqual(row["nan"], row.pop("nan"))
            self.assertEqual(row, self.EXPECTED)
            self.assertEqual([type(v) for v in row.values()],
                             [type(v) for v in self.EXPECTED.values()])

    def test_takes_parameters_of_pythons_types(self) -> None:
        sql = """SELECT $1::numeric AS a, $2::timestamptz AS b, $3::uuid AS c, $4::bytea AS d,
            $5::jsonb AS e, $6::int[] AS f, $7::interval = interval '-1 day 90 min' AS g, $8::float8 AS h,
            $9::bigint AS i"""
        at = datetime.datetime(2026, 1, 31, tzinfo=UTC)
        key = uuid.uuid4()
        span = datetime.timedelta(minutes=90) - datetime.timedelta(days=1)
        params = [decimal.Decimal("1.230"), at, key, b"\x00", {"x": decimal.Decimal("0.1")}, [1, None],
                  span, float("-inf"), 2**62]
        row = self.client.query(sql, params).rows[0]
        expected = [decimal.Decimal("1.230"), at, key, b"\x00", {"x": 0.1}, [1, None], True,
                    float("-inf"), 2**62]
        self.assertEqual(list(row.values()), expected)
        with self.assertRaisesRegex(TypeError, r'^"\$2": JSON has no set'):
            self.client.query(sql, [1, {2}])
        with self.assertRaisesRegex(TypeError, "surrogate"):
            self.client.query(sql, ["\ud800"])
        with self.assertRaises(TypeError):
            self.client.query(sql, "text")
        # Whatever the other values are.
        for other in ("a", decimal.Decimal("1"), float("nan")):
            for keyed in ({1: other}, {None: other}, {"x": [{"y": {True: other}}]}):
                with self.assertRaisesRegex(TypeError, "the key .* is not a string"):
                    self.client.query(sql, [keyed])
                with self.assertRaisesRegex(CdpError, "the key .* is not a string"):
                    self.client.insert_batch("none", [keyed])

    def test_streams_more_than_a_response_holds(self) -> None:
        sql = "SELECT n, repeat('x', 200) AS t FROM generate_series(1, $1) n"
        self.assertEqual(sum(row["n"] for row in self.client.stream(sql, [150_000])), 11250075000)
        self.assertTrue(self.client.query(sql, [150_000]).truncated)
        bytes_of_csv = b"".join(self.client.csv("SELECT 1 AS a, '' AS b, NULL AS c"))
        self.assertEqual(bytes_of_csv, b'a,b,c\n1,"",\n')

    def test_a_row_may_look_like_the_last_line(self) -> None:
        sql = "SELECT true AS done, 1 AS row_count FROM generate_series(1, 2)"
        self.assertEqual(list(self.client.stream(sql)), [{"done": True, "row_count": 1}] * 2)
        sql = "SELECT 1 AS columns FROM generate_series(1, 2)"
        self.assertEqual(list(self.client.stream(sql)), [{"columns": 1}] * 2)

    def test_a_stream_ends_with_the_error_of_the_service(self) -> None:
        seen = 0
        with self.assertRaises(BadRequestError) as caught:
            for _ in self.client.stream("SELECT 1 / (n - 90000) AS x FROM generate_series(1, 100000) n"):
                seen += 1
        self.assertEqual(caught.exception.postgres["sqlstate"], "22012")  # type: ignore[index]
        self.assertGreater(seen, 0)

    def test_leaving_the_loop_cancels_the_statement(self) -> None:
        table = self.table()
        self.client.insert(table, [{"n": 1}])
        stream = self.client.stream(f"SELECT generate_series(1, 1000000000) AS g FROM {table}")
        self.assertEqual(next(stream)["g"], 1)
        stream.close()  # type: ignore[attr-defined]
        # Only once nobody reads the table.
        self.client.drop_table(table)

    def test_has_classes_of_errors(self) -> None:
        for kind, code, call in (
            (QueryTimeoutError, "query_timeout",
             lambda: self.client.query("SELECT pg_sleep(9)", timeout_ms=50)),
            (PermissionDeniedError, "permission_denied",
             lambda: self.client.query("CREATE TABLE no (n int)", read_only=True)),
            (AuthenticationError, "unauthorized", lambda: CdpClient(token="wrong").tables()),
            (NotFoundError, "table_not_found", lambda: self.client.insert("no_table", [{"a": 1}])),
            (ConflictError, "table_exists", lambda: [self.client.create_table(t, {"n": "TEXT"})
                                                     for t in [self.table()]]),
        ):
            with self.assertRaises(kind) as caught:
                call()
            self.assertEqual(caught.exception.code, code)
            self.assertIsInstance(caught.exception, CdpError)
        with self.assertRaises(BadRequestError) as wrong:
            self.client.query("SELECT nothing")
        self.assertEqual(wrong.exception.postgres, {"sqlstate": "42703", "position": 8})

    def test_keeps_records_of_pythons_types(self) -> None:
        table = self.table(n="INTEGER", f="FLOAT", at="TIMESTAMP", j="JSONB", t="TEXT")
        at = datetime.datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
        record = {"n": 2**62, "f": float("inf"), "at": at, "t": "é\u2028\"",
                  "j": {"x": [decimal.Decimal("1.000000000000000000001")]}}
        self.client.insert(table, [record])
        row = self.client.query(f"SELECT n, f, at, t, j->'x'->>0 AS x FROM {table}").rows[0]
        self.assertEqual(row, {"n": 2**62, "f": float("inf"), "at": at, "t": "é\u2028\"",
                               "x": "1.000000000000000000001"})


class Package(unittest.TestCase):
    def test_has_the_version_of_the_service(self) -> None:
        root = pathlib.Path(__file__).parents[2]
        version = json.loads((root / "package.json").read_text())["version"]
        project = (root / "python/pyproject.toml").read_text()
        self.assertEqual(cdp_data_engine.__version__, version)
        self.assertIn('version = { attr = "cdp_data_engine.__version__" }', project)
        self.assertNotRegex(project, r'(?m)^version = "')

    def test_has_the_same_methods_for_asyncio(self) -> None:
        def methods(kind: type) -> Dict[str, List[str]]:
            return {
                name: list(inspect.signature(getattr(kind, name)).parameters)
                for name in dir(kind)
                if not name.startswith("_")
            }

        self.assertEqual(methods(CdpClient), methods(AsyncCdpClient))

    def test_has_short_lines(self) -> None:
        folder = pathlib.Path(__file__).parents[1]
        for path in [*folder.rglob("src/**/*.py")]:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                self.assertLessEqual(len(line), 100, f"{path.name}:{number}")

    def test_never_shows_the_token(self) -> None:
        token = os.environ["CDP_TOKEN"]
        for client in (CdpClient(), AsyncCdpClient()):
            self.assertNotIn(token, repr(client))
        for wrong in (token + "\n", f"{token} x", token + "é"):
            with self.assertRaises(ValueError) as caught:
                CdpClient(token=wrong)
            self.assertNotIn(token, str(caught.exception))
        for url in ("", "localhost:1", "ftp://x", f"http://u:{token}@x", "http://x?y", "http://x:99999"):
            with self.assertRaises(ValueError) as caught:
                CdpClient(url)
            self.assertNotIn(token, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
