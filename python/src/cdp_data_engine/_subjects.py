"""
People in a project: where they are, finding them, handing over, and erasing them. Bodies and
responses are those of the API (docs/subjects.md).
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional

from ._json import to_json
from ._operations import Operation, Response, query_text, true_or_none
from ._transport import Request
from .errors import CdpError

_PATH = "/api/cdp/subjects"
_MANIFEST = b'{"manifest":'


def subjects() -> Operation[Response]:
    """Where people are declared to be, and what is not covered."""
    return _json(Request("GET", _PATH, idempotent=True))


def declare_subjects(declaration: Mapping[str, Any]) -> Operation[Response]:
    """Declares which columns identify people, and what erasing them means."""
    body = to_json({"subjects": dict(declaration)})
    return _json(Request("PUT", _PATH, idempotent=True, body=body))


def propose_subjects() -> Operation[Response]:
    """Proposes a declaration."""
    return _json(Request("GET", f"{_PATH}/proposal", idempotent=True))


def find_subject(who: Mapping[str, Any], *, search: bool = False) -> Operation[Response]:
    """
    Everything about somebody.

    :param who: ``{"person": {"email": "ada@example.com"}}``
    :param search: also look through every text and JSONB column for the values; slow
    """
    query = query_text({"search": "value" if search else None})
    return _json(
        Request("POST", f"{_PATH}/find{query}", idempotent=True, body=to_json(dict(who)))
    )


def erase_subject(
    who: Mapping[str, Any], *, deep: bool = False, dry_run: bool = False
) -> Operation[Response]:
    """
    Erases everything about somebody. Keep the ``nonce``: it alone links the receipt to the person.

    :param deep: also rewrite tables and statistics, so that no bytes remain
    """
    query = query_text({"deep": true_or_none(deep), "dry_run": true_or_none(dry_run)})
    # Erasing twice erases nothing more, but only the first response has the nonce of its receipt.
    return _json(
        Request("POST", f"{_PATH}/erase{query}", idempotent=dry_run, body=to_json(dict(who)))
    )


def erasure(id: str) -> Operation[Response]:
    """How far an erasure is."""
    response: Response = yield Request("GET", f"{_PATH}/erasures/{id}", idempotent=True)
    result: Dict[str, Any] = response["erasure"]
    return result


def export_request(who: Mapping[str, Any]) -> Request:
    return Request("POST", f"{_PATH}/export", idempotent=True, body=to_json(dict(who)))


class Lines:
    """Splits an export into lines, and checks that its last one is the manifest."""

    def __init__(self) -> None:
        self._rest = b""
        self._last: Optional[bytes] = None

    def take(self, chunk: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._last = line
            yield line

    def end(self) -> None:
        """:raises CdpError: if the export is not complete"""
        if self._last is None or not self._last.startswith(_MANIFEST):
            raise CdpError("network_error", "The export ended without its manifest")


def _json(request: Request) -> Operation[Response]:
    response: Response = yield request
    return response
