"""Training and evaluation from Python, with an agent that acts at random and compiles nothing."""

import json
import os
import signal
import threading

import numpy as np
import pytest

import dreamerv3
from embodied.core.checkpoint import Checkpoint
from embodied.envs.toy import Toy
from scores.curves.notes import Notes
from scores.curves.run_folders import identify

LOCK = threading.Lock()  # Which cannot be pickled.
OPTIONS = {
    "random_agent": True,
    "run": {"envs": 2, "train_ratio": 4.0, "parallel": "False", "log_every": -1, "report_every": 0},
    "batch_size": 2,
    "batch_length": 4,
    "report_length": 4,
    "replay.size": 1000,
    "logger.outputs": ["jsonl"],
    "jax.platform": "cpu",
}


def train(env, logdir, steps=120, options=None, **kwargs):
    options = {**OPTIONS, **(options or {})}
    return dreamerv3.train(env, steps=steps, logdir=logdir, options=options, **kwargs)


class Recorder:
    """Notes every event, and may do something at one."""

    def __init__(self, event="", action=None, at=1):
        self.events = []
        self._event, self._action, self._at = event, action, at

    def _note(self, event, args):
        self.events.append((event, *args))
        count = sum(name == event for name, *_ in self.events)
        return self._action() if event == self._event and count == self._at else None

    def on_transition(self, *args):
        return self._note("transition", args)

    def on_update(self, *args):
        return self._note("update", args)

    def on_log(self, *args):
        return self._note("log", args)

    def on_save(self, *args):
        return self._note("save", args)

    def of(self, event):
        return [args for name, *args in self.events if name == event]


def saved_step(logdir):
    return Checkpoint(logdir / "ckpt").peek().step


@pytest.fixture(autouse=True)
def no_handlers_stay():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before
    assert not [t for t in threading.enumerate() if t.name in ("learner", "stop-signals")]


def test_run_is_told_of_resumed_and_evaluated(tmp_path):
    told = Recorder()
    run = train("toy_cue", tmp_path, callbacks=[told])
    assert run.logdir == str(tmp_path)
    transitions, updates = told.of("transition"), told.of("update")
    assert [step for step, *_ in transitions] == [*range(1, 121)]
    assert {worker for _, _, worker in transitions} == {0, 1}
    assert {"cue", "action", "reward"} <= transitions[0][1].keys()
    assert [number for _, number in updates] == [*range(1, len(updates) + 1)]
    assert 40 < len(updates) <= 60
    assert told.of("log")[-1][1]["replay/items"] == run.metrics["replay/items"].value[-1]
    assert told.of("save")[-1][0] == 120
    assert os.path.isfile(os.path.join(told.of("save")[-1][1], "manifest.json"))
    assert run.scores.step.max() <= 120
    assert len(run.scores.value) == 10
    assert 0 <= run.scores.value.mean() <= 10
    again = train("toy_cue", tmp_path, steps=160)
    assert len(again.scores.value) == 14
    scores = dreamerv3.evaluate(tmp_path, episodes=3)
    assert scores.shape == (3,)
    (folder,) = (tmp_path / "eval").iterdir()
    assert json.loads((folder / "summary.json").read_text())["step"] == 160


def test_a_class_without_import_path_is_stored_and_moves_with_the_folder(tmp_path):
    class Local(Toy):
        def __init__(self, seed=0):
            super().__init__("memory", seed)

    assert len(train(Local, tmp_path / "run", steps=40).scores.value) >= 4
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    assert dreamerv3.evaluate(moved, episodes=2).shape == (2,)
    assert len(train(Local, moved, steps=60).scores.value) > 5
    assert identify(moved, Notes()).task == "Local"
    train(Toy, tmp_path / "importable", steps=40)
    assert not list((tmp_path / "importable").glob("*.pkl"))


@pytest.mark.slow
def test_a_function_reaches_other_processes(tmp_path):
    options = {"run": {**OPTIONS["run"], "parallel": "True", "envs": 1, "eval_envs": 1}}
    run = train(lambda seed: Toy("memory", seed), tmp_path, steps=40, options=options)
    assert len(run.scores.value) >= 4
    assert len(dreamerv3.evaluate(run.logdir, episodes=2)) == 2


def test_gymnasium_constructor(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    run = train(lambda: gymnasium.make("CartPole-v1"), tmp_path)
    assert (run.scores.value > 5).all()


@pytest.mark.parametrize("event", ["transition", "update", "log", "save"])
def test_every_event_can_stop_the_run(tmp_path, event):
    told = Recorder(event, lambda: True, at=2)
    options = {"run": {**OPTIONS["run"], "save_every": -1.0}}
    train("toy_cue", tmp_path, steps=10**6, callbacks=[told], options=options)
    assert 0 < saved_step(tmp_path) < 1000


def test_function_and_exception_stop_the_run(tmp_path):
    def on_metrics(step, metrics):
        if step >= 20:
            raise dreamerv3.StopRun

    run = train("toy_cue", tmp_path, steps=10**6, callbacks=on_metrics)
    assert 20 <= saved_step(tmp_path) <= 40
    assert run.metrics["fps/policy"].step[-1] == saved_step(tmp_path)


def test_a_callback_that_raises_leaves_a_saved_run(tmp_path):
    def fail():
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        train("toy_cue", tmp_path, callbacks=[Recorder("transition", fail, at=30)])
    assert 30 <= saved_step(tmp_path) <= 31
    assert len(train("toy_cue", tmp_path).scores.value) >= 9


def test_interrupted_and_run_again(tmp_path):
    press = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        train("toy_cue", tmp_path, callbacks=[Recorder("transition", press, at=30)])
    assert 30 <= saved_step(tmp_path) <= 32
    run = train("toy_cue", tmp_path)
    assert saved_step(tmp_path) == 120
    assert len(run.scores.value) >= 9


def test_a_second_interrupt_does_not_end_the_process(tmp_path):
    press = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    told = Recorder("transition", lambda: (press(), press()), at=30)
    with pytest.raises(KeyboardInterrupt):
        train("toy_cue", tmp_path, callbacks=[told])
    assert train("toy_cue", tmp_path, steps=40).logdir == str(tmp_path)


def test_interrupted_during_set_up(tmp_path):
    def make():
        os.kill(os.getpid(), signal.SIGINT)
        return Toy()

    with pytest.raises(KeyboardInterrupt):
        train(make, tmp_path)
    assert not (tmp_path / "ckpt").exists()
    assert len(train("toy_cue", tmp_path / "next").scores.value) == 10


def test_a_handler_of_the_program_gets_its_signal_when_the_run_is_saved(tmp_path):
    got = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(saved_step(tmp_path)))
    try:
        end = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
        with pytest.raises(RuntimeError, match="exit code 143"):
            train("toy_cue", tmp_path, callbacks=[Recorder("transition", end, at=30)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert got == [saved_step(tmp_path)]
    assert 30 <= got[0] <= 32


def test_in_a_thread(tmp_path):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(train("toy_cue", tmp_path)))
    thread.start()
    thread.join()
    assert len(runs[0].scores.value) == 10


def test_an_environment_that_fails_is_an_exception(tmp_path):
    class Broken(Toy):
        def step(self, action):
            raise ZeroDivisionError("in the environment")

    with pytest.raises(Exception, match="in the environment"):
        train(Broken, tmp_path)
    assert (tmp_path / "error.txt").exists()


class Unlike:
    def on_step(self):
        pass


@pytest.mark.parametrize(
    ("env", "kwargs", "words"),
    [
        (Toy(), {}, "Got an environment, a Toy, expected what makes one"),
        (3, {}, "Got 3 as the environment"),
        (lambda lock=LOCK: Toy(), {}, "cannot be sent to other processes"),
        ("toy_cue", {"preset": "debug"}, "no argument 'preset'.*Did you mean 'presets'"),
        ("toy_cue", {"lr": 1e-3}, "no argument 'lr'.*'agent.opt.lr'"),
        ("toy_cue", {"presets": ["size2m"]}, "Unknown preset 'size2m'"),
        ("toy_cue", {"options": {"agent.opt.lrr": 1}}, "Unknown option 'agent.opt.lrr'"),
        ("toy_cue", {"options": {"run": {"envs": "many"}}}, "Option 'run.envs' takes an int"),
        ("toy_cue", {"options": {"run.envs": None}}, "Option 'run.envs' is None"),
        ("toy_cue", {"options": {"script": "parallel"}}, "starts processes of its own"),
        (
            "jaxtoy_cue",
            {"options": {"script": "ondevice"}, "callbacks": print},
            "nothing to tell callbacks",
        ),
        ("toy_cue", {"callbacks": [3]}, "Got 3 as a callback"),
        ("toy_cue", {"callbacks": [Recorder]}, "Got .*Recorder.* as a callback"),
        ("toy_cue", {"callbacks": [Unlike()]}, "which has on_step"),
        (lambda: Toy(), {"presets": "size2m"}, "Unknown preset 'size2m'"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path, env, kwargs, words):
    folder = tmp_path / "runs" / "mine"
    with pytest.raises(dreamerv3.ConfigError, match=words) as error:
        dreamerv3.train(env, logdir=folder, **kwargs)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_evaluation_of_what_is_not_there(tmp_path):
    with pytest.raises(dreamerv3.ConfigError, match="has no checkpoint"):
        dreamerv3.evaluate(tmp_path)


def test_curves_have_numbers_only(tmp_path):
    from dreamerv3.training import read_curves

    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 2.5, "b": null, "text": "x"}\n{"step": 2, "a": 3}\n{"st')
    curves = read_curves(path)
    assert curves.keys() == {"a", "b"}
    np.testing.assert_array_equal(curves["a"].step, [1, 2])
    np.testing.assert_array_equal(curves["a"].value, [2.5, 3])
    assert np.isnan(curves["b"].value).all()
