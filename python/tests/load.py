"""
For the tests that kill: loads 20,000 items into the table ``loaded``, and reports each batch.

``load.py insert`` by the client, ``load.py dlt SIZE`` by the example's function in batches of SIZE.
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

from cdp_data_engine import CdpClient  # noqa: E402
from dlt_destination import store  # noqa: E402

ROWS = 20_000

client = CdpClient()
if sys.argv[1] == "insert":
    client.create_table("loaded", {"n": "INTEGER"})
    result = client.insert(
        "loaded", ({"n": n} for n in range(ROWS)), on_progress=lambda p: print(p.inserted, flush=True)
    )
    print(f"{result.inserted} inserted, {result.retries > 0}")
else:
    size = int(sys.argv[2])
    items = [{"_dlt_id": f"row-{n}", "n": n} for n in range(ROWS)]
    for at in range(0, ROWS, size):
        store(client, "loaded", {"_dlt_id": "text", "n": "bigint"}, items[at : at + size])
        print(at, flush=True)
