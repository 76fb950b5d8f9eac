"""Values as JSON, none of them changed."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from typing import Any, Mapping, Optional

#: Levels of nesting that the service reads.
MAX_DEPTH = 100


class NotJsonError(TypeError):
    """A value that cannot be sent."""

    def __init__(self, reason: str, member: Optional[str] = None) -> None:
        super().__init__(reason if member is None else f"{json.dumps(member)}: {reason}")
        self.reason = reason
        self.member = member


def to_json(value: Any, member: Optional[str] = None) -> bytes:
    """
    int and Decimal keep their digits; NaN and the infinities become the strings that FLOAT takes, a
    datetime its ISO text, a UUID and a timedelta text, bytes the text of bytea.

    A mapping has strings as keys.

    :raises NotJsonError: naming the column (the outermost key), or ``member``
    """
    try:
        if _has_other_keys(value):
            # json.dumps would turn 1 and None into "1" and "null".
            raise TypeError
        return json.dumps(
            value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError, RecursionError):
        # json.dumps cannot write a Decimal or NaN; or the value is wrong, and the rest finds where.
        pass
    if member is not None or not isinstance(value, Mapping):
        return _named(value, member).encode()
    members = (f"{_key(key)}:{_named(item, str(key))}" for key, item in value.items())
    return f"{{{','.join(members)}}}".encode()


def _has_other_keys(value: Any) -> bool:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return True
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return any(_has_other_keys(item) for item in value if isinstance(item, (dict, list, tuple)))


def _named(value: Any, member: Optional[str]) -> str:
    try:
        text = _exact(value, 1)
        text.encode()
        return text
    except NotJsonError as error:
        raise NotJsonError(error.reason, member) from None
    except UnicodeEncodeError:
        raise NotJsonError("half of a surrogate pair is not text", member) from None


def _exact(value: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise NotJsonError(f"a value is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            return '"NaN"'
        return str(value) if value.is_finite() else _exact(float(value), depth)
    if value is None or isinstance(value, (str, bool, int, float)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)}:{_exact(item, depth + 1)}" for key, item in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_exact(item, depth + 1) for item in value)}]"
    return _exact(_plain(value), depth + 1)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NotJsonError(f"the key {key!r} is not a string")
    return json.dumps(key, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """What json.dumps calls for a type that it does not know. :raises NotJsonError:"""
    if isinstance(value, datetime.datetime):
        # pandas' NaT is a datetime that does not equal itself.
        return value.isoformat() if value == value else None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return f"{value.days} days {value.seconds}.{value.microseconds:06d} seconds"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    if type(value).__module__ == "numpy":
        plain = value.tolist()
        # Python's own types end at microseconds: numpy makes a number of nanoseconds.
        if type(value).__name__ == "datetime64" and isinstance(plain, int):
            return str(value)
        if type(value).__name__ == "timedelta64" and isinstance(plain, int):
            raise NotJsonError("JSON has no timedelta64 of this unit; 'us' is the finest")
        return plain
    raise NotJsonError(f"JSON has no {type(value).__name__}; None stands for no value")
