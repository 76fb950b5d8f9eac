"""
A destination for dlt (https://dlthub.com) that stores each item exactly once.

    pipeline = dlt.pipeline("shop", destination=cdp_destination())
    pipeline.run(source())

dlt repeats an interrupted load from the files of its load package, and may cut it into other
batches. Every item has its own ``_dlt_id``; with a unique index on that column, a row that exists
already stays as it is. Unlike an Idempotency-Key, that holds however late the repeat is.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from cdp_data_engine import CdpClient, ConflictError, NotFoundError

KEY = "_dlt_id"

#: dlt's data types. The others (text, date, time, decimal, wei, binary) are kept as text.
TYPES = {
    "bigint": "INTEGER",
    "bool": "BOOLEAN",
    "double": "FLOAT",
    "json": "JSONB",
    "timestamp": "TIMESTAMP",
}


def store(
    client: CdpClient, table: str, columns: Mapping[str, str], items: Sequence[Mapping[str, Any]]
) -> None:
    """
    Stores the items that are not stored yet.

    :param columns: names and dlt's data types, ``_dlt_id`` among them
    :param items: each with its ``_dlt_id``
    """
    if any(not item.get(KEY) for item in items):
        raise ValueError(f"an item has no {KEY}: skip_dlt_columns_and_tables must be False")
    _ensure_table(client, table, columns)
    client.insert(table, items, on_conflict=KEY, resolution="ignore")


def _ensure_table(client: CdpClient, table: str, columns: Mapping[str, str]) -> None:
    """Creates the table or its missing columns. Other loads may do the same at once."""
    wanted: List[Dict[str, Any]] = [
        {"name": name, "type": TYPES.get(kind, "TEXT"), "unique": name == KEY}
        for name, kind in columns.items()
    ]
    try:
        there = {column["name"] for column in client.describe(table)["columns"]}
    except NotFoundError:
        try:
            client.create_table(table, wanted)
            return
        except ConflictError:
            there = {column["name"] for column in client.describe(table)["columns"]}
    for column in wanted:
        if column["name"] not in there:
            try:
                client.add_column(table, **column)
            except ConflictError as error:
                if error.code != "column_exists":
                    raise


def cdp_destination() -> Any:
    """The destination. Reads CDP_URL and CDP_TOKEN, whose scopes are schema:* and data:write."""
    import dlt

    client = CdpClient()

    @dlt.destination(
        name="cdp",
        batch_size=250,
        loader_file_format="typed-jsonl",
        naming_convention="direct",
        skip_dlt_columns_and_tables=False,
    )
    def cdp(items: Any, table: Any) -> None:
        columns = {name: column["data_type"] for name, column in table["columns"].items()}
        store(client, table["name"], columns, items)

    return cdp
