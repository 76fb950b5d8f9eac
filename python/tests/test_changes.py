"""Changes and snapshots, against a service where projects have servers of their own."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import unittest
from typing import Any, Dict, List

from cdp_data_engine import (
    AsyncCdpClient,
    BadRequestError,
    CdpClient,
    CursorExpiredError,
    NetworkError,
    NotFoundError,
)
from support import ServiceTest, hang, server, status

PAGE = b'{"success":true,"message":"","changes":[%b],"cursor":"%b"}'


def page(cursor: bytes, *changes: bytes) -> Any:
    body = PAGE % (b",".join(b'{"n":%b}' % change for change in changes), cursor)
    return status("200 OK", "Content-Type: application/json", body=body)


def after(request: bytes) -> bytes:
    path = request.split(b" ", 2)[1]
    return path.partition(b"after=")[2].partition(b"&")[0]


class Feed(ServiceTest):
    def setUp(self) -> None:
        super().setUp()
        self.client.set_feed()
        # The service looks at most once a second whether a feed is on.
        for _ in range(50):
            try:
                self.client.changes_page()
                return
            except NotFoundError:
                time.sleep(0.1)

    def insert(self, table: str, *numbers: int) -> None:
        self.client.insert(table, [{"n": n} for n in numbers])

    def test_is_turned_on_changed_and_turned_off(self) -> None:
        self.client.drop_feed()
        self.assertIsNone(self.client.feed())
        with self.assertRaises(NotFoundError):
            self.client.changes_page()
        self.assertEqual(self.client.set_feed()["tables"], "all")
        table = self.table()
        self.assertEqual(self.client.set_feed(tables=[table], old=True)["tables"], [table])
        found = self.client.feed() or {}
        self.assertEqual((found["old"], found["retention_hours"]), (True, 72))

    def test_has_each_change_in_order(self) -> None:
        table, other = self.table(), self.table()
        cursor = self.client.changes_page()["cursor"]
        self.insert(table, 1, 2)
        self.insert(other, 9)
        self.insert(table, 2**60)
        self.client.query(f"DELETE FROM {table} WHERE n = 1")
        taken = itertools.islice(self.client.changes(after=cursor, tables=[table], limit=1), 4)
        changes = [(change["op"], (change["record"] or {}).get("n")) for change in taken]
        self.assertEqual(
            changes, [("insert", 1), ("insert", 2), ("insert", str(2**60)), ("delete", None)]
        )

    def test_waits_for_changes(self) -> None:
        table = self.table()
        found: List[Dict[str, Any]] = []
        changes = self.client.changes(after=self.client.changes_page()["cursor"], tables=[table])
        thread = threading.Thread(target=lambda: found.append(next(changes)))
        thread.start()
        time.sleep(0.2)
        self.insert(table, 7)
        thread.join()
        self.assertEqual(found[0]["record"]["n"], 7)

    def test_ends_with_an_error_that_says_how_to_go_on(self) -> None:
        with self.assertRaises(CursorExpiredError) as caught:
            next(self.client.changes(after="00000000.1.0"))
        self.assertIn("/api/cdp/changes/snapshot?table=", caught.exception.hint or "")
        with self.assertRaises(BadRequestError):
            next(self.client.changes(after="now"))
        with self.assertRaises(TypeError):
            next(self.client.changes(tables="customers"))

    def test_goes_on_from_a_snapshot(self) -> None:
        table, nothing = self.table(), self.table()
        self.insert(table, *range(300))
        snapshot = self.client.snapshot(table)
        self.insert(table, 300, 301)
        self.assertEqual(sorted(row["n"] for row in snapshot), list(range(300)))
        changes = self.client.changes(after=snapshot.cursor, tables=[table])
        self.assertEqual([next(changes)["record"]["n"] for _ in range(2)], [300, 301])
        empty = self.client.snapshot(nothing)
        self.assertEqual((list(empty), empty.table[0]), ([], "t"))
        with self.assertRaises(NotFoundError):
            self.client.snapshot("missing")

    def test_does_the_same_for_asyncio(self) -> None:
        table = self.table()
        self.insert(table, 1, 2)

        async def work() -> None:
            async with AsyncCdpClient() as client:
                self.assertEqual(((await client.feed()) or {})["tables"], "all")
                snapshot = await client.snapshot(table)
                self.assertEqual([row["n"] async for row in snapshot], [1, 2])
                self.insert(table, 3)
                async for change in client.changes(after=snapshot.cursor, tables=[table]):
                    self.assertEqual(change["record"]["n"], 3)
                    break
                waiting = asyncio.ensure_future(client.changes(tables=[table]).__anext__())
                await asyncio.sleep(0.3)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting

        asyncio.run(work())


class Faults(unittest.TestCase):
    def test_go_on_after_the_last_change_that_was_taken(self) -> None:
        lost = lambda sock, request: None  # noqa: E731
        half = lambda sock, request: sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")  # noqa: E731,E501
        html = status("503 Service Unavailable", "Content-Type: text/html", body=b"<h1>Busy</h1>")
        answers = (page(b"c1", b"1", b"2"), lost, half, html, hang, page(b"c2", b"3"), page(b"c3", b"4"))
        with server(*answers) as (url, requests):
            changes = CdpClient(url, "cdp_secret", timeout=0.5).changes(after="c0")
            self.assertEqual([next(changes)["n"] for _ in range(4)], [1, 2, 3, 4])
        self.assertEqual([after(r) for r in requests], [b"c0", *[b"c1"] * 5, b"c2"])

    def test_begin_with_a_cursor_before_they_wait(self) -> None:
        with server(page(b"c1"), lambda sock, request: None, page(b"c2", b"1")) as (url, requests):
            changes = CdpClient(url, "cdp_secret").changes()
            self.assertEqual(next(changes)["n"], 1)
        self.assertEqual([after(r) for r in requests], [b"", b"c1", b"c1"])
        self.assertIn(b"wait=0", requests[0])
        self.assertIn(b"wait=30", requests[1])

    def test_give_up_after_the_retries(self) -> None:
        with server(lambda sock, request: None) as (url, requests):
            with self.assertRaises(NetworkError):
                next(CdpClient(url, "cdp_secret", max_retries=1).changes())
        self.assertEqual(len(requests), 2)


if __name__ == "__main__":
    unittest.main()
