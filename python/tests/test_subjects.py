"""People: declaring where they are, finding them and handing over."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Dict, List

from cdp_data_engine import AsyncCdpClient, CdpError, PermissionDeniedError
from support import ServiceTest, cut_stream, server
from cdp_data_engine import CdpClient


class Subjects(ServiceTest):
    def declared(self) -> Dict[str, Any]:
        table = self.table(email="TEXT", n="INTEGER")
        self.client.insert(table, [{"email": "Ada@example.com", "n": 1}, {"email": "bob@x", "n": 2}])
        columns = {"columns": {"email": "email"}, "erase": "delete"}
        kind = {"identifiers": {"email": {"normalization": "caseless-1"}}, "tables": {table: columns}}
        self.assertEqual(self.client.declare_subjects({"person": kind})["problems"], [])
        self.assertEqual(self.client.subjects()["subjects"], {"person": kind})
        self.assertIn(table, self.client.propose_subjects()["subjects"]["person"]["tables"])
        return {"person": {"email": "ada@EXAMPLE.com"}}

    def test_finds_and_hands_over(self) -> None:
        who = self.declared()
        found = self.client.find_subject(who, search=True)
        self.assertEqual(found["identifiers"], {"email": ["ada@example.com"]})
        self.assertEqual([table["row_count"] for table in found["tables"]], [1])
        lines = [json.loads(line) for line in self.client.export_subject(who)]
        self.assertEqual([lines[0]["row"]["n"], lines[-1]["manifest"]["rows"]], [1, 1])

        async def collected() -> List[bytes]:
            async with AsyncCdpClient() as client:
                return [line async for line in client.export_subject(who)]

        self.assertEqual(len(asyncio.run(collected())), 2)

    def test_erases_only_with_the_scope(self) -> None:
        with self.assertRaises(PermissionDeniedError):
            self.client.erase_subject(self.declared(), dry_run=True)

    def test_takes_no_export_without_its_manifest_for_a_whole_one(self) -> None:
        row = b'{"table":"t","row":{}}\n'
        with server(cut_stream(row)) as (url, _):
            with CdpClient(url, "cdp_x", max_retries=0) as client, self.assertRaises(CdpError):
                list(client.export_subject({"person": {"email": "a"}}))
