"""Messages and calls between processes."""

import contextlib
import socket
import threading
import time

import ml_dtypes
import numpy as np
import psutil
import pytest

from embodied.run.parallel.encoding import pack, unpack
from embodied.run.parallel.messages import HEADER, MARK, MAX_BYTES, Server, connect
from embodied.run.parallel.rpc import RemoteError, RpcClient, serve
from embodied.run.parallel.scripts import resolve
from embodied.run.replicas import Replicas

VALUE = {
    "none": None,
    "texts": ["a", "ü"],
    "tuple": (1, 2.5, float("nan"), True, b"\x00\xff"),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 3), np.int16),
    "small": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "large": np.random.default_rng(0).normal(size=(300, 70)).astype(np.float32),
    "half": np.arange(4).astype(ml_dtypes.bfloat16),
    5: {"flags": np.array([True, False])},
}


def assert_same(first, second):
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    elif isinstance(first, tuple):
        np.testing.assert_equal(first, second)
    else:
        assert first == second


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def address():
    return resolve("localhost:{auto}")


@pytest.fixture
def echo(address):
    server, ended = Server(address), threading.Event()

    def answer():
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                client, value = server.receive()
                client.send(value)

    thread = threading.Thread(target=answer)
    thread.start()
    yield server
    ended.set()
    thread.join()
    server.close()


def test_values_come_back_as_they_were_sent(address, echo):
    connection = connect(address)
    for value in (VALUE, VALUE["large"], None, [VALUE, VALUE]):
        connection.send(value)
        answer = connection.receive()
        if isinstance(value, list):
            value, answer = value[1], answer[1]
        assert_same(value, answer)
    answer["small"][0, 0] = 7  # Nothing else has a hold on it.
    # More than the system takes at once, several on their way, and of many arrays.
    values = [np.full(2**23, index, np.uint8) for index in range(3)]
    values.append([np.full(3, index) for index in range(3000)])
    sender = threading.Thread(target=lambda: [connection.send(value) for value in values])
    sender.start()
    for value in values:
        np.testing.assert_array_equal(connection.receive(), value)
    sender.join(20)
    connection.close()
    for use in (connection.receive, lambda: connection.send(1)):
        with pytest.raises(ConnectionError, match="Lost the connection"):
            use()


def test_only_plain_values_are_sent():
    with pytest.raises(TypeError, match="Got object at"):
        pack({"a": object()})
    with pytest.raises(ValueError, match=r"dtype '\|O8'"):
        unpack(memoryview(b"".join(pack(np.zeros(1, np.int64))).replace(b"<i8", b"|O8")))


def test_strangers_and_lost_connections(address, echo, capsys):
    host, port = address.split(":")
    silent = socket.create_connection((host, int(port)))
    wait_until(lambda: len(echo.clients) == 1)
    text = b"".join(pack(1))
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER.pack(MARK, 0),
        HEADER.pack(MARK, MAX_BYTES + 1),
        HEADER.pack(MARK, len(text)) + text[::-1],
        HEADER.pack(MARK, 3) + b"abc",
    ):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(garbage)
            with contextlib.suppress(ConnectionResetError):
                assert not stranger.recv(1)
        assert "Closed a connection that sent no message" in capsys.readouterr().out
    connection = connect(address)
    connection.send(1)
    assert connection.receive() == 1
    assert len(echo.clients) == 2
    # Nobody takes time while all are silent.
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.2
    silent.close()
    connection.close()
    wait_until(lambda: not echo.clients)


def test_an_answer_to_a_client_that_is_gone_and_the_end_of_a_server(address):
    server = Server(address)
    connection = connect(address)
    connection.send(1)
    client, value = server.receive()
    assert value == 1
    connection.close()
    with pytest.raises(TimeoutError):
        server.receive(0.1)
    with pytest.raises(ConnectionError, match="Lost the connection to 127.0.0.1:"):
        client.send(1)
    # It ends while one thread waits for a client to read, and another one for anything.
    idle, failed = connect(address), []
    idle.send(1)
    client, _ = server.receive()

    def fail(function, *args):
        with pytest.raises(ConnectionError) as info:
            function(*args)
        failed.append(str(info.value))

    threads = [
        threading.Thread(target=fail, args=(client.send, np.zeros(2**26, np.uint8))),
        threading.Thread(target=fail, args=(server.receive, 20)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    server.close()
    for thread in threads:
        thread.join(5)
    assert sorted(text[:20] for text in failed) == ["Lost the connection ", "The server is closed"]
    idle.close()


def test_clients_wait_for_a_server_and_notice_its_end(address, capsys):
    servers = []
    timer = threading.Timer(0.2, lambda: servers.append(Server(address)))
    timer.start()
    connection = connect(address, patience=0.01)
    assert f"Waiting for {address}, where nobody answers: " in capsys.readouterr().out
    timer.join()
    servers[0].close()
    with pytest.raises(ConnectionError, match="Lost the connection"):
        connection.receive()
    connection.close()
    assert not capsys.readouterr().out


def test_addresses(address):
    for wrong in ("localhost", "localhost:x", ":5"):
        with pytest.raises(ValueError, match="expected 'host:port'"):
            resolve(wrong)
    assert resolve("somewhere:5001") == "somewhere:5001"
    assert resolve("somewhere:{auto}").startswith("somewhere:")
    server = Server(address)
    (port,) = [x for x in psutil.Process().net_connections() if x.status == psutil.CONN_LISTEN]
    assert port.laddr.ip == "127.0.0.1"
    server.close()


def test_calls(address):
    order = []
    functions = {
        "double": (lambda x: 2 * x, 1),
        "note": (lambda x: (time.sleep(0.01 * (3 - x)), order.append(x)), 1),
        "wait": (lambda: time.sleep(0.2), 1),
        "fail": (lambda: 1 / 0, 1),
    }
    failed = []

    def run():
        try:
            serve(address, False, functions)
        except ZeroDivisionError as error:
            failed.append(error)

    server = threading.Thread(target=run)
    server.start()
    client = RpcClient(address)
    waiting = client.start("wait")
    assert client("double", 4) == 8  # Does not wait for another function.
    assert client("double", np.arange(3)).tolist() == [0, 2, 4]
    for result in [client.start("note", index) for index in range(3)]:
        result()
    assert order == [0, 1, 2]
    waiting()
    with pytest.raises(RemoteError, match="ZeroDivisionError"):
        client("fail")
    server.join(20)
    assert failed
    client.close()
    with pytest.raises(ConnectionError, match="Lost the connection"):
        client("double", 1)


def test_calls_to_a_server_that_is_lost(address):
    server = Server(address)
    client = RpcClient(address)
    waiting = client.start("anything")
    assert server.receive(20)[1] == [0, "anything", []]
    server.close()
    with pytest.raises(ConnectionError, match="Lost the connection"):
        waiting()
    with pytest.raises(ConnectionError, match="Lost the connection"):
        client("anything")
    client.close()


def test_processes_that_train_together_decide_the_same(address):
    answers, done = {}, threading.Barrier(3)

    def ask(replica):
        part = Replicas(replica, 3, address)
        rng = np.random.default_rng(replica)
        first = part.shared("first", lambda: bool(rng.integers(2)))
        second = part.shared("second", lambda: bool(rng.integers(2)))
        answers[replica] = []
        for _ in range(20):
            time.sleep(0.001 * rng.integers(3))
            answers[replica] += [first(), first(), second()]
        # The first process goes last, as the others may have answers to read.
        done.wait(20)
        part.close()

    threads = [threading.Thread(target=ask, args=(replica,)) for replica in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers[0] == answers[1] == answers[2]
    assert 0 < sum(answers[0]) < 60
    alone = Replicas()
    decide = alone.shared("any", lambda: True)
    assert decide()
    alone.close()
