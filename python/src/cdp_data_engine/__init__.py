"""
Client of the CDP Data Engine: records and SQL over HTTP. Standard library only.

``CdpClient`` and ``AsyncCdpClient`` have the same methods; ``cdp_data_engine.dbapi`` is DB-API 2.0.
"""

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
    "AuthenticationError",
    "BadRequestError",
    "CallerError",
    "CdpClient",
    "CdpError",
    "ConflictError",
    "InsertResult",
    "InternalError",
    "NetworkError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "QueryResult",
    "QueryTimeoutError",
    "RefusedRecord",
    "UnavailableError",
    "UnexpectedAnswerError",
]
