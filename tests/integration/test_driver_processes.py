import functools
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import psutil
import pytest
from process_env import ProcessEnv

from embodied.core.driver import Driver
from embodied.core.random_agent import RandomAgent
from embodied.core.stepping.checked_env import WorkerError

ROOT = pathlib.Path(__file__).parents[2]


def makers(number, **kwargs):
    return [functools.partial(ProcessEnv, worker, **kwargs) for worker in range(number)]


def one_failing(number, worker, step, how):
    result = makers(number)
    result[worker] = functools.partial(ProcessEnv, worker, step=step, how=how)
    return result


def run(driver, steps):
    transitions = []
    driver.on_step(lambda transition, worker: transitions.append((worker, transition)))
    agent = RandomAgent(driver.obs_space, driver.act_space)
    driver.reset(agent.init_policy)
    driver(agent.policy, steps=steps)
    return transitions


def children():
    return psutil.Process().children(recursive=True)


def open_files():
    return set(os.listdir("/proc/self/fd"))


def wait_until_gone(pids, seconds=10):
    """Wait for the end of processes that are not children of this one."""
    processes = []
    for pid in pids:
        try:
            processes.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    # A zombie has ended; it only waits for its foster parent to look at it.
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    files = open_files()
    yield
    assert children() == []
    assert open_files() == files


# The second image is larger than a pipe.
@pytest.mark.parametrize("image", [8, 200])
def test_processes_give_the_same_as_serial(image):
    with Driver(makers(3, image=image), parallel=True) as driver:
        parallel = run(driver, 3 * 25)
    with Driver(makers(3, image=image), parallel=False) as driver:
        serial = run(driver, 3 * 25)
    assert len(parallel) == 75
    assert sum("log/sometimes" in transition for _, transition in serial) == 24
    for (worker1, transition1), (worker2, transition2) in zip(parallel, serial, strict=True):
        assert worker1 == worker2
        assert set(transition1) == set(transition2)
        # Whether JAX is imported is a property of the process.
        for key in set(transition1) - {"jax"}:
            value = transition1[key]
            np.testing.assert_array_equal(value, transition2[key])
            assert value.dtype == transition2[key].dtype


def test_there_is_one_process_per_environment():
    with Driver(makers(3)):
        assert len(children()) == 3


@pytest.mark.parametrize(
    ("how", "reasons"),
    [
        ("raise", ["OSError: connection", 'raise OSError("connection to the simulator lost")']),
        ("kill", ["signal 9", "SIGKILL", "memory"]),
        ("segfault", ["signal 11", "SIGSEGV"]),
        ("exit", ["exit code 7"]),
        ("interrupt", ["KeyboardInterrupt: of its own", "Original traceback"]),
        ("generator", ["GeneratorExit", "Original traceback"]),
        ("inf", ["Invalid observation: key 'vector'", "got inf"]),
        ("sleep", ["did not answer within 1 seconds"]),
        pytest.param("spin", ["did not answer within 1 seconds"], marks=pytest.mark.slow),
    ],
)
def test_a_failing_step_ends_everything_with_a_full_message(how, reasons):
    driver = Driver(one_failing(4, 3, 50, how), timeout=1 if how in ("sleep", "spin") else 0)
    with pytest.raises(WorkerError) as info:
        run(driver, 4 * 100)
    message = str(info.value)
    assert "Env worker 3 failed at step 50" in message
    for reason in reasons:
        assert reason in message
    assert (info.value.worker, info.value.step) == (3, 50)
    assert children() == []
    with pytest.raises(RuntimeError, match="after closing"):
        run(driver, 4)


def test_a_failure_is_noticed_while_another_worker_takes_long():
    envs = one_failing(3, 2, 5, "raise")
    envs[0] = functools.partial(ProcessEnv, 0, step=5, how="sleep")
    driver = Driver(envs)
    with pytest.raises(WorkerError, match="Env worker 2 failed at step 5: OSError"):
        run(driver, 100)


def test_a_worker_killed_between_steps_is_noticed():
    driver = Driver(makers(2))
    run(driver, 4)
    children()[1].kill()
    with pytest.raises(WorkerError, match="signal 9"):
        run(driver, 4)


@pytest.mark.parametrize("how", ["raise", "kill", "exit", "interrupt"])
def test_a_failing_constructor_ends_everything(how):
    with pytest.raises(WorkerError, match="Env worker 1 failed during construction"):
        Driver(one_failing(3, 1, 0, how))


def test_a_constructor_that_cannot_be_sent_is_explained():
    lock = threading.Lock()
    with pytest.raises(WorkerError, match="cannot be sent to a process"):
        Driver([functools.partial(ProcessEnv, 0), lambda: ProcessEnv(lock)])


@pytest.mark.slow
def test_close_ends_hanging_environments_and_what_they_started(tmp_path):
    report = tmp_path / "pids"
    driver = Driver(makers(2, report=str(report), slow_close=True))
    run(driver, 4)
    pids = [int(word) for word in report.read_text().split()]
    assert len(pids) == 6
    driver.close()
    driver.close()
    assert wait_until_gone(pids) == []


def test_workers_leave_signals_to_the_driver():
    with Driver(makers(2)) as driver:
        run(driver, 4)
        for process in children():
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        assert len(run(driver, 40)) == 40


@pytest.mark.slow
def test_an_interrupted_step_is_not_continued():
    driver = Driver(one_failing(2, 1, 5, "sleep"))
    # A shell that starts the tests in the background lets them ignore it.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(driver, 100)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, previous)
    with pytest.raises(RuntimeError, match="interrupted step"):
        run(driver, 100)
    driver.close()


def test_environments_can_fork_processes_that_exit():
    envs = [functools.partial(ProcessEnv, worker, forks=True) for worker in range(2)]
    with Driver(envs) as driver:
        assert len(run(driver, 20)) == 20


def test_workers_run_with_jax_blocked(tmp_path, monkeypatch):
    (tmp_path / "jax.py").write_text("raise ImportError('JAX is blocked here')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Driver(makers(2)) as driver:
        transitions = run(driver, 10)
    assert len(transitions) == 10
    assert not any(transition["jax"] for _, transition in transitions)


SCRIPT = """
import functools, sys, threading, time
from embodied.core.driver import Driver
from process_env import ProcessEnv

# Without a guard for the main module, and with a constructor defined in it.
def make(worker, how):
    return ProcessEnv(worker, step=3, how=how, report=sys.argv[1])

hows = ['none', 'sleep', 'spin']
driver = Driver([functools.partial(make, worker, how) for worker, how in enumerate(hows)])
import numpy as np
policy = lambda carry, obs: (carry, {'move': np.zeros((3, 3)), 'button': np.zeros(3, int)}, {})
driver(policy, steps=6)
print('ready', flush=True)
driver(policy, steps=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_the_driver(tmp_path, number):
    report = tmp_path / "pids"
    path = os.pathsep.join([str(ROOT), str(pathlib.Path(__file__).parent)])
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(report)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pids = [int(word) for word in report.read_text().split()]
        assert len(pids) == 9
        assert all(psutil.pid_exists(pid) for pid in pids)
        process.send_signal(number)
        process.wait(10)
    assert wait_until_gone(pids) == []


def test_dropping_the_driver_ends_the_processes():
    driver = Driver(makers(2))
    run(driver, 4)
    assert len(children()) == 2
    del driver
    deadline = time.monotonic() + 10
    while children() and time.monotonic() < deadline:
        psutil.wait_procs(children(), timeout=1)
    assert children() == []
