"""What a project saves by name, and webhooks."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from cdp_data_engine import AsyncCdpClient, BadRequestError, NotFoundError
from support import ServiceTest


class Saved(ServiceTest):
    def test_runs_a_saved_query(self) -> None:
        sql = "SELECT $1 AS word, $2 * 1.5::numeric AS number"
        parameters = [{"name": "word", "type": "TEXT"}, {"name": "n", "type": "INTEGER"}]
        saved = self.client.save_query("py-query", {"sql": sql, "parameters": parameters})
        self.assertEqual(saved["parameters"], parameters)
        self.assertEqual(self.client.saved_query("py-query")["sql"], sql)
        found = self.client.run_query("py-query", {"word": "a", "n": 9007199254740993})
        self.assertEqual(found.rows, [{"word": "a", "number": Decimal("13510798882111489.5")}])
        with self.assertRaises(BadRequestError):
            self.client.run_query("py-query")
        self.assertIn("py-query", [query["name"] for query in self.client.queries()])
        self.client.delete_query("py-query")
        with self.assertRaises(NotFoundError):
            self.client.saved_query("py-query")
        with self.assertRaises(BadRequestError):
            self.client.saved_query("../schema")

    def test_runs_a_schedule(self) -> None:
        self.client.save_schedule("py-schedule", {"sql": "SELECT 1", "every": "1h"})
        self.assertEqual(self.client.run_schedule("py-schedule", dry_run=True)["rows"], 1)
        self.assertEqual(self.client.run_schedule("py-schedule")["run"]["outcome"], "ok")
        self.assertEqual(len(self.client.schedule("py-schedule")["runs"]), 1)
        self.assertTrue(self.client.pause_schedule("py-schedule")["paused"])
        self.assertFalse(self.client.resume_schedule("py-schedule")["paused"])
        self.assertIn("py-schedule", [one["name"] for one in self.client.schedules()])
        self.client.delete_schedule("py-schedule")

    def test_keeps_the_members_of_a_segment(self) -> None:
        segment = {"sql": "SELECT 'a' AS key", "every": "1h", "max_change": 0}
        self.client.save_segment("py-segment", segment)
        self.client.run_segment("py-segment")
        self.client.save_segment("py-segment", {**segment, "sql": "SELECT 'b' AS key"})
        with self.assertRaises(BadRequestError):
            self.client.run_segment("py-segment")
        self.assertEqual(self.client.run_segment("py-segment", force=True)["run"]["rows"], 2)
        members = self.client.segment_members("py-segment")
        self.assertEqual(([row["key"] for row in members.rows], members.truncated), (["b"], False))
        self.assertEqual(len(self.client.segment("py-segment")["runs"]), 3)
        self.assertTrue(self.client.pause_segment("py-segment")["paused"])
        self.assertFalse(self.client.resume_segment("py-segment")["paused"])

        async def names() -> "list[str]":
            async with AsyncCdpClient() as client:
                return [one["name"] for one in await client.segments()]

        self.assertIn("py-segment", asyncio.run(names()))
        self.client.delete_segment("py-segment")

    def test_manages_webhooks(self) -> None:
        self.client.set_feed()
        self.addCleanup(self.client.drop_feed)
        created = self.client.create_webhook({"url": "https://93.184.216.34/", "ops": ["insert"]})
        id = created["webhook"]["id"]
        self.assertFalse(self.client.change_webhook(id, {"active": False})["status"] == "active")
        self.assertEqual([one["id"] for one in self.client.webhooks()], [id])
        rotated = self.client.rotate_webhook_secret(id, previous_hours=0)
        self.assertNotEqual(rotated["secret"], created["secret"])
        self.assertEqual(self.client.webhook_deliveries(id), [])
        cursor = self.client.changes_page()["cursor"]
        self.assertEqual(self.client.replay_webhook(id, cursor)["cursor"], cursor)
        self.client.delete_webhook(id)
        with self.assertRaises(NotFoundError):
            self.client.webhook(id)
