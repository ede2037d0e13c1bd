"""Decisions that depend on the time, made once for all processes that train together."""

import contextlib
from collections.abc import Callable

from embodied.run.options import RunOptions
from embodied.run.parallel.messages import Connection, Server, connect

Decide = Callable[[], bool]


class Replicas:
    """Lets processes that train together log, report, save and stop at the same update.

    Devices of several processes compute together, so that all of them have to make the same calls
    in the same order. Process 0 decides what depends on its clock and sends that to the others,
    who follow: the n-th answer to a question is the same everywhere.
    """

    def __init__(
        self, replica: int = 0, replicas: int = 1, address: str = "", ipv6: bool = False
    ) -> None:
        """Connect the processes; process 0 waits until all others are there.

        Args:
          replica: Number of this process.
          replicas: Number of processes; with one of them nothing is sent.
          address: Where process 0 listens, as `host:port`.
          ipv6: Whether to use IPv6.
        """
        self._leader = replica == 0
        self._followers: list[Connection] = []
        self._answers: dict[tuple[str, int], bool] = {}
        self._asked: dict[str, int] = {}
        self._replicas = replicas
        self._server: Server | None = None
        self._connection: Connection | None = None
        if replicas > 1 and self._leader:
            self._server = Server(address, ipv6)
        elif replicas > 1:
            self._connection = connect(address, ipv6)
        self._meetings = 0
        self.meet()

    @property
    def several(self) -> bool:
        """Whether there is more than one process."""
        return self._replicas > 1

    def meet(self) -> None:
        """Wait until all processes are here, which may take them very different times.

        Raises:
          ConnectionError: If one of them is lost.
        """
        number, self._meetings = self._meetings, self._meetings + 1
        if self._server is not None:
            self._gather(self._server)
        elif self._connection is not None:
            self._connection.send(number)
        self._answer("", number, True)

    def shared(self, name: str, decide: Decide) -> Decide:
        """Share a decision.

        Args:
          name: Name of the question, the same in all processes.
          decide: Answers it in process 0; not called in the others.

        Returns:
          A function that has the same sequence of results in all processes.
        """
        if not self.several:
            return decide
        if name in self._asked:
            raise ValueError(f"Got the question '{name}' twice, expected different names.")
        self._asked[name] = 0
        return lambda: self._ask(name, decide)

    def close(self) -> None:
        """Close the connections."""
        for part in (self._server, self._connection):
            if part is not None:
                part.close()

    def _ask(self, name: str, decide: Decide) -> bool:
        number = self._asked[name]
        self._asked[name] += 1
        return self._answer(name, number, self._leader and bool(decide()))

    def _answer(self, name: str, number: int, answer: bool) -> bool:
        """Send an answer to the others, or wait for it."""
        if self._leader:
            for follower in self._followers:
                follower.send([name, number, answer])
            return answer
        assert self._connection is not None, "followers are connected"
        while (name, number) not in self._answers:
            key, index, answer = self._connection.receive()
            self._answers[key, index] = answer
        return self._answers.pop((name, number))

    def _gather(self, server: Server) -> None:
        """Wait for a message of each of the others; they send the next one after the answer."""
        missing = self._replicas - 1
        while missing:
            if not server.clients.issuperset(self._followers):
                raise ConnectionError("Lost a process that trains together with this one.")
            with contextlib.suppress(TimeoutError):
                follower, number = server.receive()
                missing -= 1
                if number == 0:
                    self._followers.append(follower)


def join(options: RunOptions) -> Replicas:
    """Connect the processes that the options of a run name."""
    if options.replicas <= 1:
        return Replicas()
    host, _, port = options.coordinator_address.rpartition(":")
    host, port = options.clock_addr or host, options.clock_port or str(int(port) + 1)
    if options.replica == 0 and host not in ("localhost", "127.0.0.1", "::1"):
        host = "::" if options.ipv6 else "0.0.0.0"
    return Replicas(options.replica, options.replicas, f"{host}:{port}", options.ipv6)
