"""Streams of records and of text."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import unittest
from contextlib import contextmanager
from typing import Any, AsyncIterator, Iterator, List
from urllib.parse import urlsplit

from cdp_data_engine import AsyncCdpClient, CdpClient, CdpError, InsertResult, RefusedRecord
from support import ServiceTest


def records(count: int) -> "Iterator[dict[str, Any]]":
    for n in range(count):
        yield {"n": n, "name": f"é {n}"}


def csv(count: int) -> Iterator[str]:
    yield "n,name\n"
    for n in range(count):
        yield f"{n},name {n}\n"


@contextmanager
def breaking(*limits: int) -> "Iterator[str]":
    """A proxy whose connections end after so many bytes of the client, one after the other."""
    target = urlsplit(os.environ["CDP_URL"])
    left: List[int] = list(limits)
    listener = socket.create_server(("127.0.0.1", 0))

    def copy(source: socket.socket, sink: socket.socket, limit: float) -> None:
        try:
            data = source.recv(65_536)
            while data and limit > 0:
                limit -= len(data)
                sink.sendall(data)
                data = source.recv(65_536)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def handle(client: socket.socket) -> None:
        with client, socket.create_connection((target.hostname, target.port)) as service:
            back = threading.Thread(target=copy, args=(service, client, float("inf")))
            back.start()
            copy(client, service, left.pop(0) if left else float("inf"))
            back.join()

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


class Records(ServiceTest):
    def test_of_any_number_are_stored_with_progress(self) -> None:
        for count in (0, 1, 25_000):
            table = self.table(n="INTEGER", name="TEXT")
            said: List[int] = []
            result = self.client.insert_stream(
                table, records(count), on_progress=lambda so_far: said.append(so_far.inserted)
            )
            self.assertEqual((result.inserted, result.batches), (count, -(-count // 10_000)))
            self.assertEqual(said[-1:], [count] if count else [])
            self.assertEqual(self.count(table), (count, count))

    def test_are_stored_once_although_connections_break(self) -> None:
        table = self.table(n="INTEGER", name="TEXT")
        # The third takes one batch, and breaks in the second if the client sends that there, too.
        with breaking(200_000, 1, 300_000, 100_000) as url, CdpClient(url) as client:
            result = client.insert_stream(table, records(50_000))
        self.assertEqual((result.inserted, result.retries >= 3), (50_000, True))
        self.assertEqual(self.count(table), (50_000, 50_000))

    def test_goes_on_without_refused_records(self) -> None:
        table = self.table(n="INTEGER", name="TEXT")
        for some in (701, 2):
            source: List[Any] = list(records(12_000))
            for n in range(5, 12_000, some):
                source[n] = {"n": f"bad {n}"}
            refused: List[RefusedRecord] = []
            result = self.client.insert_stream(table, source, on_refused=refused.append)
            numbers = [each.index for each in refused]
            self.assertEqual(sorted(numbers), list(range(5, 12_000, some)))
            self.assertEqual(result.inserted, 12_000 - len(numbers))
            error = refused[0].errors[0]
            self.assertEqual((error["record"], error["column"]), (refused[0].index, "n"))
            self.assertRegex(error["message"], f"^Record {refused[0].index}, column")

    def test_names_the_record_of_the_whole_input(self) -> None:
        table = self.table(n="INTEGER", name="TEXT")
        with self.assertRaises(CdpError) as caught:
            self.client.insert_stream(table, [*records(20_000), {"n": "x"}], on_conflict=None)
        self.assertEqual(caught.exception.errors[0]["record"], 20_000)
        self.assertRegex(caught.exception.message, "^Record 20000, column")
        self.assertEqual(self.count(table)[0], caught.exception.inserted)

    def test_upserts_and_keeps_bad_records_in_the_quarantine(self) -> None:
        table = self.table(n="INTEGER", name="TEXT")
        self.client.create_index(table, "n", unique=True)
        self.client.insert_stream(table, records(10))
        source: List[Any] = [*records(12), {"n": "x"}]
        result = self.client.insert_stream(table, source, on_conflict="n", on_error="quarantine")
        self.assertEqual((result.inserted, result.updated, result.quarantined), (2, 10, 1))


class Text(ServiceTest):
    def test_is_sent_as_it_is(self) -> None:
        whole = "".join(csv(30_000))
        pieces = [whole[:7], "", whole[7:100_000], whole[100_000:].encode()]
        for text in (whole, whole.encode(), csv(30_000), lambda: csv(30_000), pieces):
            table = self.table(n="INTEGER", name="TEXT")
            result = self.client.insert_stream(table, text, content_type="text/csv")
            self.assertEqual((result.inserted, result.batches), (30_000, 3))
            self.assertEqual(self.count(table), (30_000, 30_000))
        result = self.client.insert_stream(
            table, "n;name\n1;NA\n", content_type="text/csv", delimiter=";", null="NA"
        )
        self.assertEqual(result.inserted, 1)
        self.assertEqual(
            self.client.query(f"SELECT name FROM {table} WHERE n = 1 ORDER BY name").rows[1],
            {"name": None},
        )

    def test_is_sent_again_if_it_can_be_read_again(self) -> None:
        for text in ("".join(csv(60_000)), lambda: csv(60_000)):
            table = self.table(n="INTEGER", name="TEXT")
            with breaking(700_000, 1, 300_000) as url, CdpClient(url) as client:
                result = client.insert_stream(table, text, content_type="text/csv")
            self.assertEqual((result.inserted, result.retries >= 3), (60_000, True))
            self.assertEqual(self.count(table), (60_000, 60_000))
        table = self.table(n="INTEGER", name="TEXT")
        key = {"content_type": "text/csv", "idempotency_key": "k"}
        with breaking(700_000) as url, CdpClient(url) as client:
            with self.assertRaises(CdpError) as caught:
                client.insert_stream(table, csv(60_000), **key)
        self.assertEqual(caught.exception.code, "network_error")
        self.assertEqual(self.client.insert_stream(table, csv(60_000), **key).inserted, 60_000)
        self.assertEqual(self.count(table), (60_000, 60_000))

    def test_fails_with_the_line_or_the_error_of_the_source(self) -> None:
        table = self.table(n="INTEGER")
        # Longer than what the connection holds: the client still sends when the service answers.
        long = "n\n1\nx\n" + "2\n" * 5_000_000
        with self.assertRaises(CdpError) as caught:
            self.client.insert_stream(table, long, content_type="text/csv")
        error = caught.exception
        self.assertEqual((error.code, error.errors[0]["line"]), ("invalid_value", 3))

        def source() -> Iterator[str]:
            yield "n\n1\n"
            raise OSError("no more")

        with self.assertRaises(CdpError) as caught:
            self.client.insert_stream(table, source, content_type="text/csv")
        self.assertEqual(caught.exception.code, "caller_error")
        self.assertIsInstance(caught.exception.__cause__, OSError)
        with self.assertRaises(TypeError):
            self.client.insert_stream(table, [{"n": 1}], delimiter=";")
        self.assertEqual(self.count(table)[0], 0)


class Asyncio(ServiceTest):
    def test_takes_async_sources_too(self) -> None:
        table = self.table(n="INTEGER", name="TEXT")

        async def each() -> "AsyncIterator[dict[str, Any]]":
            for record in records(25_000):
                yield record

        async def lines() -> AsyncIterator[str]:
            for line in csv(1_000):
                await asyncio.sleep(0)
                yield line

        async def run() -> List[InsertResult]:
            async with AsyncCdpClient() as client:
                return [
                    await client.insert_stream(table, each()),
                    await client.insert_stream(table, lines(), content_type="text/csv"),
                    await client.insert_stream(table, csv(10), content_type="text/csv"),
                ]

        results = asyncio.run(run())
        self.assertEqual([result.inserted for result in results], [25_000, 1_000, 10])


if __name__ == "__main__":
    unittest.main()
