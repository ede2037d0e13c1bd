"""Messages and calls between processes."""

import threading
import time

import ml_dtypes
import numpy as np
import pytest

from embodied.run.parallel.rpc import RemoteError, RpcClient, RpcServer
from embodied.run.parallel.transport import Listener, connect, resolve
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


@pytest.fixture
def address():
    return resolve("localhost:{auto}")


def test_values_come_back_as_they_were_sent(address):
    listener = Listener(address, False, lambda sender, value: sender.send(value))
    connection = connect(address)
    for value in (VALUE, VALUE["large"], None, [VALUE, VALUE]):
        connection.send(value)
        answer = connection.receive()
        if isinstance(value, list):
            value, answer = value[1], answer[1]
        assert_same(value, answer)
    answer["small"][0, 0] = 7  # Nothing else has a hold on it.
    connection.close()
    listener.close()


def test_strangers_and_lost_connections(address):
    with pytest.raises(ConnectionError, match="Nobody answers at"):
        connect(address, timeout=0)
    listener = Listener(address, False, lambda sender, value: None)
    connection = connect(address)
    listener.close()
    with pytest.raises(ConnectionError):
        connection.receive()
    connection.close()
    for wrong in ("localhost", "localhost:x", ":5"):
        with pytest.raises(ValueError, match="expected 'host:port'"):
            resolve(wrong)
    assert resolve("somewhere:5001") == "somewhere:5001"


def test_calls(address):
    order = []
    functions = {
        "double": (lambda x: 2 * x, 1),
        "note": (lambda x: (time.sleep(0.01 * (3 - x)), order.append(x)), 1),
        "wait": (lambda: time.sleep(0.2), 1),
        "fail": (lambda: 1 / 0, 1),
    }
    server = RpcServer(address, False, functions)
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
    with pytest.raises(ZeroDivisionError):
        server.serve()
    client.close()
    with pytest.raises(ConnectionError, match="Lost the connection"):
        client("double", 1)


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
