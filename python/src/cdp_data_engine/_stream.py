"""Rows of a streamed response as they arrive. While the caller works on some, the service waits."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from ._transport import Stream
from ._values import Column, converter, converters, convert_rows
from .errors import NetworkError, error_from, network_error

#: The last line looks like this. A row may too, but only the last line has nothing after it.
_MAYBE_LAST = (b'{"done":', b'{"error":')


class RowStream:
    """
    The rows of NDJSON that begins with its columns, or with another head.

    :param begins: the beginning of the first line
    :ivar head: the first line, known when it has arrived
    :ivar columns: names and types of the head
    """

    def __init__(
        self, stream: Stream, *, as_lists: bool = False, begins: bytes = b'{"columns":'
    ) -> None:
        self.head: Optional[Dict[str, Any]] = None
        self.columns: List[Column] = []
        #: Rows, or rows affected by a statement that returns none; known at the end.
        self.row_count = 0
        self._stream = stream
        self._as_lists = as_lists
        self._begins = begins
        self._convert: Any = None
        self._rest = b""
        self._held: Optional[bytes] = None
        self._count = 0

    def next_rows(self) -> Optional[List[Any]]:
        """
        Rows that have arrived, perhaps none yet; None after the last.

        :raises CdpError: the error that the service wrote into the stream; network_error if the
            stream broke off
        """
        cause: Optional[NetworkError] = None
        try:
            chunk = self._stream.read()
        except NetworkError as error:
            # The service may have written the reason before the connection broke.
            chunk, cause = b"", error
        if chunk == b"":
            self._end(cause)
            return None
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        return self._rows(lines)

    def close(self) -> None:
        """Before the end it cancels the statement."""
        self._stream.close()

    def _rows(self, lines: List[bytes]) -> List[Any]:
        complete: List[bytes] = []
        for line in lines:
            if self.head is None and line.startswith(self._begins):
                self._begin(json.loads(line))
                continue
            if self._held is not None:
                complete.append(self._held)
                self._held = None
            if line.startswith(_MAYBE_LAST):
                self._held = line
            else:
                complete.append(line)
        self._count += len(complete)
        # One call of the parser for all of them.
        rows: List[Any] = json.loads(b"[%b]" % b",".join(complete))
        return convert_rows(rows, self._convert or {})

    def _begin(self, head: Dict[str, Any]) -> None:
        self.head = head
        columns: List[Column] = head.get("columns", [])
        self.columns = columns
        if self._as_lists:
            found = ((i, converter(column["type"])) for i, column in enumerate(columns))
            self._convert = {i: convert for i, convert in found if convert is not None}
        else:
            self._convert = converters(columns)

    def _end(self, cause: Optional[NetworkError]) -> None:
        if self._rest != b"" and cause is None:
            cause = network_error("The last line is incomplete")
        last = json.loads(self._held or b"{}")
        error = error_from(last.get("error"))
        if error is not None:
            raise error
        is_whole = last.get("done") is True and self._count in (0, last.get("row_count"))
        if cause is not None or not is_whole:
            what = f"The stream was interrupted after {self._count} rows"
            raise network_error(what, cause and cause.__cause__) from cause
        self.row_count = last["row_count"]
