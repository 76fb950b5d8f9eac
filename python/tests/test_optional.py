"""
What the package does with pyarrow and dlt, which Debian does not have: with stand-ins that take
what the real ones take.
"""

from __future__ import annotations

import pathlib
import sys
import types
import unittest
from typing import Any, Callable, Dict
from unittest import mock

from support import ServiceTest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

from dlt_destination import cdp_destination  # noqa: E402


class Arrow(ServiceTest):
    SQL = "SELECT n, n > 1 AS many, NULL AS none FROM generate_series(1, 2) n"

    def test_takes_a_list_of_each_column(self) -> None:
        stand_in = types.ModuleType("pyarrow")
        stand_in.table = lambda columns: columns  # type: ignore[attr-defined]
        with mock.patch.dict(sys.modules, {"pyarrow": stand_in}):
            table = self.client.query(self.SQL).to_arrow()
        self.assertEqual(table, {"n": [1, 2], "many": [False, True], "none": [None, None]})


class DltDestination(ServiceTest):
    def test_stores_what_dlt_hands_over(self) -> None:
        given: Dict[str, Any] = {}

        def destination(**options: Any) -> Callable[[Any], Any]:
            given.update(options)
            return lambda function: function

        stand_in = types.ModuleType("dlt")
        stand_in.destination = destination  # type: ignore[attr-defined]
        with mock.patch.dict(sys.modules, {"dlt": stand_in}):
            sink = cdp_destination()
        self.assertEqual((given["batch_size"], given["skip_dlt_columns_and_tables"]), (250, False))
        name = self.table(n="INTEGER")
        self.client.drop_table(name)
        columns = {"n": "bigint", "paid": "bool", "_dlt_id": "text", "_dlt_load_id": "text"}
        described = {key: {"name": key, "data_type": kind} for key, kind in columns.items()}
        table = {"name": name, "columns": described}
        items = [{"n": n, "paid": n > 1, "_dlt_id": f"x{n}", "_dlt_load_id": "1"} for n in (1, 2)]
        sink(items[:1], table)
        # Run again in another batch, with a column that is new.
        described["note"] = {"name": "note", "data_type": "text"}
        sink([*items, {"n": 3, "_dlt_id": "x3", "_dlt_load_id": "2", "note": "new"}], table)
        rows = self.client.query(f"SELECT n, paid, note FROM {name} ORDER BY n").rows
        self.assertEqual([tuple(row.values()) for row in rows],
                         [(1, False, None), (2, True, None), (3, None, "new")])
        self.assertRaises(ValueError, sink, [{"n": 4}], table)


if __name__ == "__main__":
    unittest.main()
