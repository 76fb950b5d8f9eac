"""Sends the batches of an insert, a few at a time: by threads, or by tasks."""

from __future__ import annotations

import asyncio
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Dict, Iterable, Iterator
from typing import List, Optional, Set, Union

from ._batches import Item
from ._connections import Cancel
from ._insert import Insert, check_source
from ._operations import Operation
from ._transport import Request, Transport
from .errors import CdpError

Source = Iterable[Any]
AsyncSource = Union[Iterable[Any], AsyncIterable[Any]]


def check_concurrency(concurrency: int) -> None:
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError("concurrency: a whole number from 1")


def pump(insert: Insert, source: Source, transport: Transport, concurrency: int) -> None:
    """
    The caller's thread reads the source, calls the callbacks and counts; other threads only send.
    After a failure no new batch is started, and those in flight are waited for.

    :raises CdpError: with ``inserted``
    """
    check_source(source)
    check_concurrency(concurrency)
    cancel = Cancel()
    executor = ThreadPoolExecutor(concurrency, thread_name_prefix="cdp-insert")
    try:
        _Threads(executor, transport, cancel).run(insert, _cut(insert, source), concurrency)
    except Exception as error:
        failed = insert.failed(error)
        raise failed from failed.__cause__
    finally:
        # Nothing is in flight, unless a KeyboardInterrupt ends the call.
        cancel.set()
        executor.shutdown(wait=False)


class _Threads:
    def __init__(self, executor: ThreadPoolExecutor, transport: Transport, cancel: Cancel) -> None:
        self._executor = executor
        self._transport = transport
        self._cancel = cancel
        self._running: Dict["Future[Any]", Operation[None]] = {}

    def run(self, insert: Insert, batches: Iterator[List[Item]], concurrency: int) -> None:
        failure: Optional[Exception] = None
        is_at_end = False
        while self._running or not is_at_end:
            try:
                if is_at_end or len(self._running) == concurrency:
                    self._continue()
                    continue
                batch = next(batches, None)
                if batch is None:
                    is_at_end = True
                else:
                    operation = insert.send(batch)
                    self._submit(next(operation), operation)
            except Exception as error:
                failure = failure or error
                is_at_end = True
        if failure is not None:
            raise failure

    def _submit(self, request: Request, operation: Operation[None]) -> None:
        future = self._executor.submit(self._transport.json, request, self._cancel)
        self._running[future] = operation

    def _continue(self) -> None:
        """Waits for a response, and sends what its operation sends next."""
        future = next(iter(wait(self._running, return_when=FIRST_COMPLETED).done))
        operation = self._running.pop(future)
        error = future.exception()
        try:
            if isinstance(error, CdpError):
                request = operation.throw(error)
            else:
                request = operation.send(future.result())
        except StopIteration:
            return
        self._submit(request, operation)


def _cut(insert: Insert, source: Source) -> Iterator[List[Item]]:
    cutter = insert.cutter()
    for index, record in enumerate(source):
        item = insert.item(index, record)
        batch = None if item is None else cutter.add(item)
        if batch is not None:
            yield batch
    rest = cutter.rest()
    if rest:
        yield rest


Drive = Callable[[Operation[None]], Awaitable[None]]


async def pump_async(insert: Insert, source: AsyncSource, drive: Drive, concurrency: int) -> None:
    """
    The same with tasks.

    :raises CdpError: with ``inserted``; asyncio.CancelledError, and then batches in flight may
        or may not be stored
    """
    check_source(source)
    check_concurrency(concurrency)
    batches = _cut_async(insert, source)
    running: Set["asyncio.Future[Any]"] = set()
    try:
        await _run_tasks(insert, batches, drive, concurrency, running)
    except Exception as error:
        await asyncio.gather(*running, return_exceptions=True)
        failed = insert.failed(error)
        raise failed from failed.__cause__
    except BaseException:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise
    finally:
        await batches.aclose()  # type: ignore[attr-defined]


async def _run_tasks(
    insert: Insert,
    batches: AsyncIterator[List[Item]],
    drive: Drive,
    concurrency: int,
    running: Set["asyncio.Future[Any]"],
) -> None:
    next_batch: Optional["asyncio.Future[Any]"] = None
    is_at_end = False
    try:
        while running or not is_at_end:
            if not is_at_end and next_batch is None and len(running) < concurrency:
                next_batch = asyncio.ensure_future(_next(batches))
            waited = running if next_batch is None else running | {next_batch}
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for task in done & running:
                running.discard(task)
                task.result()
            if next_batch is not None and next_batch in done:
                batch = next_batch.result()
                next_batch = None
                if batch is None:
                    is_at_end = True
                else:
                    running.add(asyncio.ensure_future(drive(insert.send(batch))))
    finally:
        if next_batch is not None:
            next_batch.cancel()
            await asyncio.gather(next_batch, return_exceptions=True)


async def _next(batches: AsyncIterator[List[Item]]) -> Optional[List[Item]]:
    try:
        return await batches.__anext__()
    except StopAsyncIteration:
        return None


async def _cut_async(insert: Insert, source: AsyncSource) -> AsyncIterator[List[Item]]:
    cutter = insert.cutter()
    index = 0
    async for record in _as_async(source):
        item = insert.item(index, record)
        index += 1
        batch = None if item is None else cutter.add(item)
        if batch is not None:
            yield batch
    rest = cutter.rest()
    if rest:
        yield rest


async def _as_async(source: AsyncSource) -> AsyncIterator[Any]:
    if isinstance(source, AsyncIterable):
        async for record in source:
            yield record
    else:
        for record in source:
            yield record
