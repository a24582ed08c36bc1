"""A TCP relay before the broker: its links can go half-open (nothing passes, nobody is told) or slow."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field

from tests.integration.broker import free_port

CHUNK_BYTES = 4096


@dataclass(eq=False)
class _Link:
    """Two sockets and the gate between them."""

    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        """Ends both with a reset."""
        for writer in self.writers:
            writer.transport.abort()
        self.is_open.set()


class Proxy:
    """Relays 127.0.0.1:port to the broker from a thread of its own; the methods are for any other thread."""

    def __init__(self, broker_port: int) -> None:
        self.port = free_port()
        self.n_links = 0
        self._broker_port = broker_port
        self._bytes_per_s: float | None = None
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        served = asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=CHUNK_BYTES)
        self._server = asyncio.run_coroutine_threadsafe(served, self._loop).result(10)

    def freeze(self) -> None:
        """Nothing passes the present links any more, and nobody is told; new links work."""
        self._loop.call_soon_threadsafe(lambda: [link.is_open.clear() for link in self._links])

    def thaw(self) -> None:
        """What waited in frozen links goes on."""
        self._loop.call_soon_threadsafe(lambda: [link.is_open.set() for link in self._links])

    def drop(self) -> None:
        """Frozen links end with a reset, and what waited in them is lost."""
        self._loop.call_soon_threadsafe(self._drop)

    def slow(self, bytes_per_s: float | None) -> None:
        """So many bytes a second pass each link in each direction; None: as many as come."""
        self._bytes_per_s = bytes_per_s

    def close(self) -> None:
        """Ends all links and the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for link in self._links:
            link.abort()
        while self._links:
            await asyncio.sleep(0.01)

    def _drop(self) -> None:
        for link in self._links:
            if not link.is_open.is_set():
                link.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link([writer])
        link.is_open.set()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._broker_port, limit=CHUNK_BYTES)
        except OSError:
            writer.transport.abort()
            return
        link.writers.append(far_writer)
        self._links.add(link)
        self.n_links += 1
        await asyncio.gather(self._pump(link, reader, far_writer), self._pump(link, far_reader, writer))
        self._links.discard(link)

    async def _pump(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = await reader.read(CHUNK_BYTES)
                await link.is_open.wait()
                if not data:
                    break
                if self._bytes_per_s is not None:
                    await asyncio.sleep(len(data) / self._bytes_per_s)
                writer.write(data)
                await writer.drain()
        for each in link.writers:
            each.close()
