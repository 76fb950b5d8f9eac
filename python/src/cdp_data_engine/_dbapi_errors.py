"""The exceptions of DB-API 2.0, and which of them an error of the service becomes."""

from __future__ import annotations

from typing import Mapping, Optional, Type

from .errors import CdpError


class Warning(Exception):
    pass


class Error(Exception):
    """``__cause__`` is the :class:`CdpError`, if there is one."""

    @property
    def sqlstate(self) -> Optional[str]:
        cause = self.__cause__
        postgres = cause.postgres if isinstance(cause, CdpError) else None
        return None if postgres is None else postgres.get("sqlstate")


class InterfaceError(Error):
    pass


class DatabaseError(Error):
    pass


class DataError(DatabaseError):
    pass


class OperationalError(DatabaseError):
    pass


class IntegrityError(DatabaseError):
    pass


class InternalError(DatabaseError):
    pass


class ProgrammingError(DatabaseError):
    pass


class NotSupportedError(DatabaseError):
    pass


#: By the class of the SQLSTATE (Postgres manual, appendix A).
_BY_SQLSTATE: Mapping[str, Type[DatabaseError]] = {
    "0A": NotSupportedError,
    "22": DataError,
    "23": IntegrityError,
    "25": ProgrammingError,
    "26": ProgrammingError,
    "2B": ProgrammingError,
    "3F": ProgrammingError,
    "42": ProgrammingError,
    "XX": InternalError,
}

_BY_CODE: Mapping[str, Type[DatabaseError]] = {
    "constraint_violation": IntegrityError,
    "internal": InternalError,
    "invalid_value": DataError,
    "invalid_request": ProgrammingError,
    "payload_too_large": ProgrammingError,
    "sql_error": ProgrammingError,
    "statement_not_allowed": NotSupportedError,
    "unique_violation": IntegrityError,
}


def from_cdp_error(error: CdpError) -> DatabaseError:
    state = (error.postgres or {}).get("sqlstate", "")[:2]
    kind = _BY_SQLSTATE.get(state) or _BY_CODE.get(error.code) or OperationalError
    return kind(str(error))
