"""The exceptions of a call: the service's response, or why there was none."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Type

ErrorDetail = Mapping[str, Any]


class CdpError(Exception):
    """Base of all errors of a call. Decide by class or ``code``; the message is for people."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        errors: Sequence[ErrorDetail] = (),
        error_count: Optional[int] = None,
        hint: Optional[str] = None,
        rows: Optional[int] = None,
        ids: Sequence[str] = (),
        values: Sequence[Mapping[str, Any]] = (),
        postgres: Optional[Mapping[str, Any]] = None,
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        #: One of docs/errors.md, or network_error, unexpected_answer, caller_error.
        self.code = code
        self.message = message
        #: The HTTP status; 0 if there was no response, or no request was sent.
        self.status = status
        #: What is wrong and where, at most 50. In an insert, ``record`` counts in the whole input.
        self.errors = list(errors)
        self.error_count = len(self.errors) if error_count is None else error_count
        self.hint = hint
        #: How many rows have values that cannot be converted, if ``alter_column`` failed for that.
        self.rows = rows
        #: The first ids of these rows, in order; none if the table has no column ``id``.
        self.ids = list(ids)
        #: Values that cannot be converted, if ``alter_column`` was called with ``return_values``.
        self.values = list(values)
        #: What Postgres said: sqlstate, position, table, column, constraint, detail.
        self.postgres = postgres
        #: Identifies the request in the service's log.
        self.request_id = request_id
        #: Seconds to wait before a retry, from the header Retry-After.
        self.retry_after = retry_after
        #: Rows of an insert that the service had acknowledged before the failure.
        self.inserted = 0

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class BadRequestError(CdpError):
    """400, 405, 413, 415, 422: the request is wrong, and would be again. Nothing was changed."""


class AuthenticationError(CdpError):
    """401: the token is wrong or has expired."""


class PermissionDeniedError(CdpError):
    """403: a scope is missing, the project is inactive or over its quota."""


class NotFoundError(CdpError):
    """404: no such table, column, index, project or path."""


class ConflictError(CdpError):
    """409: it exists already, something depends on it, or its key is in use."""


class CursorExpiredError(CdpError):
    """410: the changes after the cursor are no longer kept; ``hint`` says how to go on."""


class UnavailableError(CdpError):
    """408, 429, 503: nothing was done, and the retries are used up. ``retry_after`` says when."""


class OutcomeUnknownError(CdpError):
    """503 ``outcome_unknown``: fully done, or not at all."""


class QueryTimeoutError(CdpError):
    """504: the statement ran longer than its ``timeout_ms`` and was canceled."""


class InternalError(CdpError):
    """500: a bug in the service; report it with ``request_id``."""


class NetworkError(CdpError):
    """No response in time, or one that broke off. The request may have been carried out."""


class UnexpectedAnswerError(CdpError):
    """A response that is not from the service, such as a proxy's HTML page."""


class CallerError(CdpError):
    """The caller's source of records or callback raised; ``__cause__`` is what it raised."""


_BY_STATUS: Mapping[int, Type[CdpError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    429: UnavailableError,
    500: InternalError,
    503: UnavailableError,
    504: QueryTimeoutError,
}

_BY_CODE: Mapping[str, Type[CdpError]] = {
    "cursor_expired": CursorExpiredError,
    "outcome_unknown": OutcomeUnknownError,
    "network_error": NetworkError,
    "unexpected_answer": UnexpectedAnswerError,
}


def error_from(body: Any, retry_after: Optional[float] = None) -> Optional[CdpError]:
    """The error of a response; None if the body is not one of the service."""
    if not isinstance(body, dict) or body.get("success") is not False:
        return None
    code, status = body.get("error"), body.get("status")
    if not isinstance(code, str) or not isinstance(status, int):
        return None
    kind = _BY_CODE.get(code, _BY_STATUS.get(status, BadRequestError))
    error = kind(
        code,
        str(body.get("message")),
        status=status,
        errors=body.get("errors") or (),
        error_count=body.get("error_count"),
        hint=body.get("hint"),
        rows=body.get("rows"),
        ids=body.get("ids") or (),
        values=body.get("values") or (),
        postgres=body.get("postgres"),
        request_id=body.get("request_id"),
        retry_after=retry_after,
    )
    # Of a stream.
    error.inserted = body.get("stored_rows") or 0
    return error


def network_error(what: str, cause: Optional[BaseException] = None) -> NetworkError:
    """``raise network_error(...) from cause``"""
    return NetworkError("network_error", what if cause is None else f"{what}: {reason_of(cause)}")


def reason_of(cause: BaseException) -> str:
    # OpenSSL's own message is a line of letters and file names.
    if getattr(cause, "reason", None) == "WRONG_VERSION_NUMBER":
        return "the server does not use TLS; should the URL start with http://?"
    return str(cause) or type(cause).__name__
