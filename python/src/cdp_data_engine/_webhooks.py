"""
Webhooks: endpoints that get the changes of a project. Bodies and responses are those of the API
(docs/webhooks.md).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import quote

from ._json import to_json
from ._operations import Operation, Response
from ._transport import Request

Webhook = Dict[str, Any]


def webhooks() -> Operation[List[Webhook]]:
    """The oldest first."""
    response: Response = yield Request("GET", _path(), idempotent=True)
    found: List[Webhook] = response["webhooks"]
    return found


def webhook(id: str) -> Operation[Webhook]:
    """One of them, and how far it is."""
    return _one(Request("GET", _path(id), idempotent=True))


def create_webhook(webhook: Mapping[str, Any]) -> Operation[Response]:
    """
    Sends changes to an endpoint, from now on or after the cursor ``from``.

    :param webhook: ``{"url": "https://…", "tables": ["customers"]}``
    :returns: ``webhook``, and its ``secret``, which is not shown again
    """
    return _with_secret(Request("POST", _path(), idempotent=False, body=to_json(dict(webhook))))


def change_webhook(id: str, change: Mapping[str, Any]) -> Operation[Webhook]:
    """Changes it, pauses it (``{"active": False}``) or resumes it."""
    return _one(Request("PUT", _path(id), idempotent=True, body=to_json(dict(change))))


def rotate_webhook_secret(
    id: str, *, previous_hours: Optional[int] = None
) -> Operation[Response]:
    """
    Gives it a new secret; the previous one also signs for ``previous_hours``, by default 24.

    :returns: ``webhook`` and ``secret``
    """
    body = {} if previous_hours is None else {"previous_hours": previous_hours}
    return _with_secret(
        Request("POST", _path(id, "secret"), idempotent=False, body=to_json(body))
    )


def delete_webhook(id: str) -> Operation[None]:
    """Sends it nothing more."""
    yield Request("DELETE", _path(id), idempotent=False)


def test_webhook(id: str) -> Operation[Dict[str, Any]]:
    """Sends a message without changes, and waits for the answer of the endpoint."""
    response: Response = yield Request("POST", _path(id, "test"), idempotent=False)
    result: Dict[str, Any] = response["test"]
    return result


def webhook_deliveries(id: str) -> Operation[List[Dict[str, Any]]]:
    """The last attempts, the newest first."""
    response: Response = yield Request("GET", _path(id, "deliveries"), idempotent=True)
    found: List[Dict[str, Any]] = response["deliveries"]
    return found


def replay_webhook(id: str, after: str) -> Operation[Webhook]:
    """Sends the changes after a cursor again; also resumes it."""
    body = to_json({"from": after})
    return _one(Request("POST", _path(id, "replay"), idempotent=False, body=body))


def _path(*parts: str) -> str:
    return "/".join(["/api/cdp/webhooks", *(quote(part, safe="") for part in parts)])


def _one(request: Request) -> Operation[Webhook]:
    response: Response = yield request
    found: Webhook = response["webhook"]
    return found


def _with_secret(request: Request) -> Operation[Response]:
    response: Response = yield request
    return {"webhook": response["webhook"], "secret": response["secret"]}
