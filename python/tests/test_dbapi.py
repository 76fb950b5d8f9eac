"""DB-API 2.0 against the real service, also through pandas."""

from __future__ import annotations

import datetime
import decimal
import unittest

import numpy
import pandas  # type: ignore[import]

from cdp_data_engine import CdpError, dbapi
from support import ServiceTest


class Dbapi(ServiceTest):
    def setUp(self) -> None:
        super().setUp()
        self.connection = dbapi.connect()
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()

    def test_runs_statements(self) -> None:
        table = self.table(n="INTEGER", t="TEXT")
        cursor = self.cursor
        self.assertEqual((cursor.description, cursor.rowcount), (None, -1))
        cursor.execute(f"INSERT INTO {table} (n, t) VALUES (%s, %s), (2, 'b')", [1, "%"])
        self.assertEqual((cursor.rowcount, cursor.description), (2, None))
        self.assertRaises(dbapi.ProgrammingError, cursor.fetchone)
        cursor.executemany(f"INSERT INTO {table} (n) VALUES (%(n)s)", [{"n": 3}, {"n": 4}])
        self.assertEqual(cursor.rowcount, 2)
        self.connection.commit()
        cursor.execute(f"SELECT n, t, n AS n FROM {table} WHERE n %% 10 > %s ORDER BY n", (0,))
        self.assertEqual(cursor.rowcount, 4)
        assert cursor.description is not None
        self.assertEqual([c[:2] for c in cursor.description],
                         [("n", "INTEGER"), ("t", "TEXT"), ("n_2", "INTEGER")])
        self.assertTrue(cursor.description[0][1] == dbapi.NUMBER != dbapi.STRING)
        self.assertEqual(cursor.fetchone(), (1, "%", 1))
        self.assertEqual(cursor.fetchmany(2), [(2, "b", 2), (3, None, 3)])
        self.assertEqual(cursor.fetchall(), [(4, None, 4)])
        self.assertEqual((cursor.fetchone(), cursor.fetchmany(), cursor.fetchall()), (None, [], []))
        rows = list(cursor.execute("SELECT 'a%s' AS t, 1.5::numeric, date '2026-01-31'"))
        self.assertEqual(rows, [("a%s", decimal.Decimal("1.5"), datetime.date(2026, 1, 31))])

    def test_each_execute_is_a_transaction(self) -> None:
        table = self.table()
        sql = f"INSERT INTO {table} (n) VALUES (1); SELECT 1/0"
        self.assertRaises(dbapi.DataError, self.cursor.execute, sql)
        self.assertEqual(self.count(table), (0, 0))
        self.cursor.execute(f"INSERT INTO {table} (n) VALUES (1)")
        self.assertRaises(dbapi.NotSupportedError, self.connection.rollback)
        self.assertEqual(self.count(table), (1, 1))

    def test_has_the_exceptions_of_pep_249(self) -> None:
        table = self.table(n="INTEGER")
        self.client.create_index(table, "n", unique=True)
        insert = f"INSERT INTO {table} (n) VALUES (1)"
        self.cursor.execute(insert)
        for kind, sql in (
            (dbapi.IntegrityError, insert),
            (dbapi.ProgrammingError, "SELEC"),
            (dbapi.ProgrammingError, "SELECT * FROM no_table"),
            (dbapi.DataError, "SELECT 'x'::int"),
            (dbapi.NotSupportedError, "BEGIN"),
            (dbapi.OperationalError, "SET statement_timeout = 1; SELECT pg_sleep(5)"),
        ):
            with self.assertRaises(kind, msg=sql) as caught:
                self.cursor.execute(sql)
            self.assertIsInstance(caught.exception, dbapi.DatabaseError)
        for params in ([], [1, 2], {"x": 1}):
            self.assertRaises(dbapi.ProgrammingError, self.cursor.execute, "SELECT %s", params)
        self.assertRaises(dbapi.InterfaceError, self.cursor.execute, "SELECT %s", [{1}])
        self.assertRaises(dbapi.InterfaceError, dbapi.connect, "", "x")
        reader = dbapi.connect(read_only=True)
        self.assertRaises(dbapi.ProgrammingError, reader.cursor().execute, insert)
        reader.close()
        self.assertRaises(dbapi.InterfaceError, reader.cursor)
        self.cursor.close()
        self.assertRaises(dbapi.InterfaceError, self.cursor.execute, "SELECT 1")

    def test_pandas_reads_by_it(self) -> None:
        sql = "SELECT n, n * 0.5::float8 AS half FROM generate_series(1, %(last)s::int) n"
        frame = pandas.read_sql(sql, self.connection, params={"last": 1000})
        self.assertEqual((frame["n"].sum(), frame["half"].sum()), (500_500, 250_250.0))
        chunks = pandas.read_sql(sql, self.connection, params={"last": 10}, chunksize=4)
        self.assertEqual([len(chunk) for chunk in chunks], [4, 4, 2])

    def test_results_are_data_frames(self) -> None:
        sql = "SELECT 2::bigint^n AS x, (n + 9007199254740992)::bigint AS n, NULL::bigint AS z"
        result = self.client.query(f"{sql} FROM generate_series(0, 1) n")
        frame = result.to_pandas()
        self.assertEqual(frame["n"].tolist(), [9007199254740992, 9007199254740993])
        self.assertEqual(str(frame["z"].dtype), "Int64")
        table = self.table(n="INTEGER", at="TIMESTAMP")
        sent = pandas.DataFrame({"n": [1, 2], "at": pandas.to_datetime(["2026-01-31", None])})
        self.assertRaises(TypeError, self.client.insert, table, sent)
        self.client.insert(table, sent.to_dict("records"))
        rows = self.client.query(f"SELECT at FROM {table} ORDER BY n").rows
        at = datetime.datetime(2026, 1, 31, tzinfo=datetime.timezone.utc)
        self.assertEqual([row["at"] for row in rows], [at, None])
        nanoseconds = numpy.datetime64("2026-01-31T09:30:00.123456789")
        self.client.insert(table, [{"n": 3, "at": nanoseconds}])
        [row] = self.client.query(f"SELECT at FROM {table} WHERE n = 3").rows
        self.assertEqual(row["at"], at.replace(hour=9, minute=30, microsecond=123457))
        with self.assertRaisesRegex(CdpError, "no timedelta64 of this unit"):
            self.client.insert(table, [{"n": numpy.timedelta64(5, "ns")}])
        cut = self.client.query("SELECT generate_series(1, 3)", max_rows=2)
        self.assertRaisesRegex(ValueError, "truncated after 2 rows", cut.to_pandas)
        self.assertRaisesRegex(ValueError, "truncated after 2 rows", cut.to_arrow)
        uncut = pandas.DataFrame(self.client.stream("SELECT generate_series(1, 10001) AS n"))
        self.assertEqual(len(uncut), 10_001)
        self.assertRaises(ImportError, result.to_arrow)


if __name__ == "__main__":
    unittest.main()
