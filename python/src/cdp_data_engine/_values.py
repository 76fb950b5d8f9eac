"""Values of a result as Python's own types, by the type of their column."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

Column = Mapping[str, Any]
Row = Dict[str, Any]
Convert = Callable[[Any], Any]

_MODIFIER = re.compile(r"\([\d,-]+\)")


def converter(column_type: Optional[str]) -> Optional[Convert]:
    """
    None for a type whose values stay as in the JSON. Requests have ``numbers: "string"``, so bigint
    and numeric come as strings.
    """
    if column_type is None:
        return None
    name = _MODIFIER.sub("", column_type)
    if name.endswith("[]"):
        element = _CONVERTERS.get(name[:-2])
        return None if element is None else _array(element)
    return _CONVERTERS.get(name)


def converters(columns: Sequence[Column]) -> Dict[Any, Convert]:
    """By the name of the column."""
    found = ((column["name"], converter(column["type"])) for column in columns)
    return {name: convert for name, convert in found if convert is not None}


def convert_rows(rows: List[Any], by_key: Mapping[Any, Convert]) -> List[Any]:
    """In place. :param by_key: by name for rows that are dicts, by position for lists"""
    for key, convert in by_key.items():
        for row in rows:
            if row[key] is not None:
                row[key] = convert(row[key])
    return rows


def _array(element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return [convert(item) for item in value]
        return None if value is None else element(value)

    return convert


def _or_text(parse: Convert) -> Convert:
    """What Python's type cannot hold (infinity, a year after 9999, before Christ) stays text."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            return text

    return convert


def _six_digits(text: str) -> str:
    """Python 3.9 reads three or six digits of a second only."""
    head, point, fraction = text.partition(".")
    return f"{head}.{fraction:0<6}" if point else head


def _timestamptz(text: str) -> datetime.datetime:
    if not text.endswith("Z"):
        raise ValueError(text)
    moment = datetime.datetime.fromisoformat(_six_digits(text[:-1]))
    return moment.replace(tzinfo=datetime.timezone.utc)


def _timestamp(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(_six_digits(text))


def _time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(_six_digits(text))


def _bytea(text: str) -> bytes:
    return bytes.fromhex(text[2:])


_CONVERTERS: Mapping[str, Convert] = {
    "INTEGER": int,
    "bigint": int,
    "numeric": decimal.Decimal,
    "FLOAT": float,
    "double precision": float,
    "real": float,
    "TIMESTAMP": _or_text(_timestamptz),
    "timestamp with time zone": _or_text(_timestamptz),
    "timestamp without time zone": _or_text(_timestamp),
    "timestamp": _or_text(_timestamp),
    "date": _or_text(datetime.date.fromisoformat),
    "time without time zone": _or_text(_time),
    "bytea": _bytea,
    "uuid": uuid.UUID,
}
