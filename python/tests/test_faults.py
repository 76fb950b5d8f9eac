"""The client on a bad network: what is repeated is stored once, what could do harm is not."""

from __future__ import annotations

import asyncio
import os
import time
import unittest
from typing import Any

from cdp_data_engine import (
    AsyncCdpClient,
    CdpClient,
    CdpError,
    NetworkError,
    UnavailableError,
    UnexpectedAnswerError,
)
from support import cut_stream, hang, server, status

STORED = b'{"success":true,"inserted_rows":1,"message":"1 record inserted"}'
LIMITED = b"""{"success":false,"error":"rate_limited","message":"slow","status":429,
    "request_id":"r"}"""
GOOD = status("201 Created", "Content-Type: application/json", body=STORED)
HTML = status("503 Service Unavailable", "Content-Type: text/html", body=b"<h1>Busy</h1>")


def refused(seconds: str) -> Any:
    headers = ("Content-Type: application/json", f"Retry-After: {seconds}")
    return status("429 Too Many Requests", *headers, body=LIMITED)


def client(url: str, **options: Any) -> CdpClient:
    return CdpClient(url, "cdp_secret", **{"timeout": 0.5, **options})


def keys(requests: "list[bytes]") -> "list[bytes]":
    return [line for r in requests for line in r.split(b"\r\n") if line.startswith(b"Idempotency")]


class Retries(unittest.TestCase):
    def test_an_insert_is_sent_again_under_its_key(self) -> None:
        nothing = lambda sock, request: None  # noqa: E731
        half = lambda sock, request: sock.sendall(b"HTTP/1.1 201 OK\r\nContent-Length: 99\r\n\r\n{")  # noqa: E731,E501
        for fault in (nothing, half, HTML, hang, refused("0")):
            with server(fault, GOOD) as (url, requests):
                result = client(url).insert("t", [{"n": 1}])
                self.assertEqual((result.inserted, result.retries), (1, 1))
                first, second = keys(requests)
                self.assertEqual(first, second)

    def test_waits_as_long_as_retry_after_asks(self) -> None:
        with server(refused("1"), GOOD) as (url, _):
            begin = time.monotonic()
            client(url).insert("t", [{"n": 1}])
            self.assertGreaterEqual(time.monotonic() - begin, 1)
        with server(refused("61")) as (url, requests):
            with self.assertRaises(UnavailableError) as caught:
                client(url).insert("t", [{"n": 1}])
            self.assertEqual((caught.exception.retry_after, len(requests)), (61, 1))

    def test_gives_up(self) -> None:
        with server(HTML) as (url, requests):
            with self.assertRaises(UnexpectedAnswerError) as caught:
                client(url, max_retries=2).insert("t", [{"n": 1}])
            self.assertEqual((caught.exception.status, len(requests)), (503, 3))

    def test_what_may_have_been_done_is_not_sent_again(self) -> None:
        for fault in (lambda sock, request: None, HTML, hang):
            with server(fault) as (url, requests):
                with self.assertRaises(CdpError):
                    client(url).query("UPDATE t SET n = n + 1")
                self.assertEqual((len(requests), keys(requests)), (1, []))

    def test_a_change_of_the_schema_is_sent_again_under_its_key(self) -> None:
        done = status("200 OK", body=b"{}")
        for fault in (lambda sock, request: None, HTML, hang, refused("0")):
            with server(fault, done, done) as (url, requests):
                client(url).drop_table("t")
                client(url).drop_table("t")
                first, second, another = keys(requests)
                self.assertEqual(first, second)
                self.assertNotEqual(first, another)
        with server(HTML, done) as (url, requests):
            client(url).drop_table("t", dry_run=True)
            self.assertEqual((len(requests), keys(requests)), (2, []))

    def test_nobody_listens(self) -> None:
        with server(GOOD) as (url, _):
            pass
        with self.assertRaisesRegex(NetworkError, "No response: .*refused"):
            client(url, max_retries=0).tables()


class Streams(unittest.TestCase):
    COLUMNS = b'{"columns":[{"name":"n","type":"INTEGER"}]}\n'

    def test_that_broke_off_raise(self) -> None:
        for lines in (
            [self.COLUMNS, b'{"n":"1"}\n{"n":"2"}\n'],
            [self.COLUMNS, b'{"n":"1"}\n{"n":"2"}\n{"n"'],
            [self.COLUMNS, b'{"n":"1"}\n{"n":"2"}\n{"done":true,"row_count":2}\n'],
            [self.COLUMNS, b'{"n":"1"}\n{"n":"2"}\n{"done":true,"row_count":3}\n', b""],
        ):
            with server(cut_stream(*lines)) as (url, _):
                seen = []
                with self.assertRaises(NetworkError):
                    for row in client(url).stream("SELECT n FROM t"):
                        seen.append(row["n"])
                self.assertEqual(seen, [1, 2])

    def test_that_are_no_streams_raise(self) -> None:
        page = status("200 OK", "Content-Type: text/html", body=b"<h1>Sign in</h1>")
        with server(page) as (url, _):
            with self.assertRaises(UnexpectedAnswerError):
                list(client(url).stream("SELECT 1"))
            with self.assertRaises(UnexpectedAnswerError):
                list(client(url).csv("SELECT 1"))

    def test_that_hang_raise(self) -> None:
        def half(sock: Any, request: bytes) -> None:
            cut_stream(self.COLUMNS, b'{"n":"1"}\n')(sock, request)
            hang(sock, request)

        with server(half) as (url, _):
            with self.assertRaises(NetworkError):
                list(client(url).stream("SELECT 1"))


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = AsyncCdpClient()
        self.table = f"a{os.getpid()}_{time.monotonic_ns()}"
        await self.client.create_table(self.table, {"n": "INTEGER"})

    async def asyncTearDown(self) -> None:
        await self.client.drop_table(self.table)
        await self.client.close()

    async def count(self) -> int:
        rows = (await self.client.query(f"SELECT count(*) AS n FROM {self.table}")).rows
        return int(rows[0]["n"])

    async def test_inserts_and_reads(self) -> None:
        async def source() -> Any:
            for n in range(1001):
                yield {"n": n if n != 300 else "x"}

        bad = []
        result = await self.client.insert(self.table, source(), on_refused=bad.append)
        self.assertEqual((result.inserted, result.batches, bad[0].index), (1000, 5, 300))
        self.assertEqual(await self.count(), 1000)
        sql = f"SELECT n FROM {self.table}"
        self.assertEqual(sum([row["n"] async for row in self.client.stream(sql)]), 500_200)
        self.assertEqual(len(b"".join([part async for part in self.client.csv(sql)])), 3893)
        with self.assertRaises(CdpError) as caught:
            await self.client.insert(self.table, [{"m": 1}])
        self.assertEqual(caught.exception.inserted, 0)
        await self.client.insert(self.table, [{"n": "x"}], on_error="quarantine")
        self.assertEqual(len([r async for r in self.client.quarantine(table=self.table)]), 1)

    async def test_a_failing_source_says_what_was_stored(self) -> None:
        async def source() -> Any:
            for n in range(500):
                yield {"n": n}
            raise RuntimeError

        with self.assertRaises(CdpError) as caught:
            await self.client.insert(self.table, source())
        self.assertEqual((caught.exception.code, caught.exception.inserted), ("caller_error", 500))
        self.assertEqual(await self.count(), 500)

    async def test_runs_many_calls_at_a_time(self) -> None:
        sleeps = (self.client.query("SELECT pg_sleep(0.2)", read_only=True) for _ in range(6))
        await asyncio.gather(*sleeps)

    async def test_a_canceled_call_ends_its_statement(self) -> None:
        await self.client.insert(self.table, [{"n": 1}])
        sql = f"SELECT pg_sleep(50) FROM {self.table}"
        for call in (self.client.query(sql), anext_of(self.client.stream(sql))):
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        # The table can be dropped only once nobody reads it: see asyncTearDown.

    async def test_a_canceled_insert_ends_while_it_waits(self) -> None:
        with server(hang) as (url, requests):
            other = AsyncCdpClient(url, "cdp_secret")
            insert = asyncio.ensure_future(other.insert("t", [{"n": 1}]))
            while not requests:
                await asyncio.sleep(0.01)
            insert.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await insert
            await other.close()


async def anext_of(rows: Any) -> Any:
    async for row in rows:
        return row


if __name__ == "__main__":
    unittest.main()
