"""
Client of the CDP Data Engine: records and SQL over HTTP. Standard library only.

``CdpClient`` and ``AsyncCdpClient`` have the same methods; ``cdp_data_engine.dbapi`` is DB-API 2.0.
"""

from ._changes import AsyncSnapshot, Snapshot
from ._insert import InsertResult, RefusedRecord
from ._query import QueryResult
from .aio import AsyncCdpClient
from .client import CdpClient
from .errors import (
    AuthenticationError,
    BadRequestError,
    CallerError,
    CdpError,
    ConflictError,
    CursorExpiredError,
    InternalError,
    NetworkError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    QueryTimeoutError,
    UnavailableError,
    UnexpectedAnswerError,
)

__version__ = "0.1.0"

__all__ = [
    "AsyncCdpClient",
    "AsyncSnapshot",
    "AuthenticationError",
    "BadRequestError",
    "CallerError",
    "CdpClient",
    "CdpError",
    "ConflictError",
    "CursorExpiredError",
    "InsertResult",
    "InternalError",
    "NetworkError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "QueryResult",
    "QueryTimeoutError",
    "RefusedRecord",
    "Snapshot",
    "UnavailableError",
    "UnexpectedAnswerError",
]
