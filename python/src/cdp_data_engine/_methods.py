"""
Makes methods of operations, for the sync and for the async client: each call is written once.
``help()`` shows the operation's parameters and text.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Coroutine

from ._operations import Operation, T

if TYPE_CHECKING:
    # Python 3.9 does not have them.
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def sync(operation: Callable[P, Operation[T]]) -> Callable[Concatenate[Any, P], T]:
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._run(operation(*args, **kwargs))
        return result

    _describe(method, operation)
    return method


def asynchronous(
    operation: Callable[P, Operation[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._run(operation(*args, **kwargs))
        return result

    _describe(method, operation)
    return method


def _describe(method: Any, operation: Callable[..., Any]) -> None:
    functools.update_wrapper(method, operation)
    signature = inspect.signature(operation)
    method.__signature__ = signature.replace(
        parameters=[_SELF, *signature.parameters.values()],
        return_annotation=signature.return_annotation[len("Operation[") : -1],
    )
