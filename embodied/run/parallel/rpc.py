"""Remote calls: a server that offers functions, and a client that calls them."""

import concurrent.futures
import itertools
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from embodied.run.parallel.transport import Connection, Listener, connect

Offers = Mapping[str, tuple[Callable[..., Any], int]]


class RemoteError(RuntimeError):
    """A remote call failed; the message has the traceback of the server."""


class RpcServer:
    """Offers functions to clients. What a function raises also ends the server."""

    def __init__(self, address: str, ipv6: bool, functions: Offers) -> None:
        """Begin to listen.

        Args:
          address: `host:port`.
          ipv6: Whether to use IPv6.
          functions: Functions by name, each with how many calls of it may run at once; those of a
            function with one are made in the order in which they were asked for.
        """
        self._functions = {
            name: (function, concurrent.futures.ThreadPoolExecutor(workers))
            for name, (function, workers) in functions.items()
        }
        self._failed = threading.Event()
        self._error: BaseException | None = None
        self._listener = Listener(address, ipv6, self._on_message)

    def serve(self) -> None:
        """Answer calls until a function fails.

        Raises:
          Exception: What the function has raised.
        """
        self._failed.wait()
        assert self._error is not None, "only errors end the server"
        raise self._error

    def _on_message(self, sender: Connection, message: Any) -> None:
        number, name, args = message
        function, pool = self._functions[name]
        pool.submit(self._run, sender, number, function, args)

    def _run(
        self, sender: Connection, number: int, function: Callable[..., Any], args: list[Any]
    ) -> None:
        try:
            sender.send([number, True, function(*args)])
        except ConnectionError:
            return  # Nobody is left to tell.
        except Exception as error:
            try:
                sender.send([number, False, traceback.format_exc()])
            finally:
                self._error = error
                self._failed.set()


class RpcClient:
    """Calls functions of a server; may be used by several threads."""

    def __init__(self, address: str, ipv6: bool = False) -> None:
        """Connect, waiting for the server to come up.

        Args:
          address: `host:port`.
          ipv6: Whether to use IPv6.
        """
        self._address = address
        self._connection = connect(address, ipv6)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._lost: ConnectionError | None = None
        self._futures: dict[int, concurrent.futures.Future[Any]] = {}
        self._reader = threading.Thread(target=self._read, name="rpc", daemon=True)
        self._reader.start()

    def start(self, name: str, *args: Any) -> Callable[[], Any]:
        """Begin a call; the function that is returned waits for its result.

        Raises:
          ConnectionError: If the connection is lost.
          RemoteError: If the function failed.
        """
        with self._lock:
            if self._lost is not None:
                raise self._lost
            number = next(self._numbers)
            future = self._futures[number] = concurrent.futures.Future()
        self._connection.send([number, name, list(args)])
        return future.result

    def __call__(self, name: str, *args: Any) -> Any:
        """Call a function and wait for its result; errors are those of `start`."""
        return self.start(name, *args)()

    def close(self) -> None:
        """Close the connection; calls that wait for results fail."""
        self._connection.close()
        self._reader.join()

    def _read(self) -> None:
        try:
            while True:
                number, success, value = self._connection.receive()
                with self._lock:
                    future = self._futures.pop(number)
                if success:
                    future.set_result(value)
                else:
                    text = f"The server at {self._address} failed:\n{value}"
                    future.set_exception(RemoteError(text))
        except ConnectionError as error:
            with self._lock:
                self._lost = ConnectionError(f"Lost the connection to {self._address}: {error}")
                waiting, self._futures = self._futures, {}
            for future in waiting.values():
                future.set_exception(self._lost)
