"""Random operations on a replay against a model that is too simple to be wrong."""

import shutil
import tempfile
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from embodied.core.replay import Fifo, Mixture, Prioritized, Recency, Replay, Uniform

WORKERS = 3


@dataclass
class Track:
    """One stream: counters of its steps, how many starts were evicted, how many are items."""

    counts: list = field(default_factory=list)
    retired: int = 0
    items: int = 0
    writer: int | None = None


@dataclass
class Model:
    """Lists and dicts of everything; steps are never changed in place but replaced."""

    length: int
    capacity: int
    chunksize: int
    steps: dict = field(default_factory=dict)  # count -> step
    places: dict = field(default_factory=dict)  # count -> (track, position)
    tracks: list = field(default_factory=list)
    items: list = field(default_factory=list)  # (track, start)
    queue: list = field(default_factory=list)

    def copy(self):
        tracks = [replace(track, counts=list(track.counts)) for track in self.tracks]
        other = replace(self, tracks=tracks, items=list(self.items), queue=list(self.queue))
        return replace(other, steps=dict(self.steps), places=dict(self.places))

    def add(self, step, worker):
        index = next((i for i, t in enumerate(self.tracks) if t.writer == worker), None)
        if index is None:
            index = len(self.tracks)
            self.tracks.append(Track(writer=worker))
        track, count = self.tracks[index], step["count"].item()
        self.steps[count] = step
        self.places[count] = (index, len(track.counts))
        track.counts.append(count)
        start = len(track.counts) - self.length
        if start >= 0:
            self.items.append((index, start))
            track.items += 1
            if (len(track.counts) - 1) % self.length == 0:
                self.queue.append((index, start))
        if len(self.items) > self.capacity:
            index, start = self.items.pop(0)
            self.tracks[index].retired = start + 1
            self.tracks[index].items -= 1

    def alive(self, index, start):
        track = self.tracks[index]
        if track.writer is None and not track.items:
            return False
        return (start // self.chunksize + 1) * self.chunksize > track.retired

    def stored(self, count):
        return count in self.places and self.alive(*self.places[count])

    def pop_online(self, amount):
        popped = []
        while self.queue and len(popped) < amount:
            entry = self.queue.pop(0)
            if self.alive(*entry):
                popped.append(entry)
        return popped

    def stop_writing(self):
        for track in self.tracks:
            track.writer = None
        self.queue = [entry for entry in self.queue if self.alive(*entry)]


class ReplayMachine(RuleBasedStateMachine):
    operations = 0

    @initialize(
        length=st.integers(1, 6),
        capacity=st.integers(1, 40),
        chunksize=st.integers(1, 9),
        selector=st.sampled_from(["uniform", "fifo", "recency", "priority", "mixture"]),
        continued=st.booleans(),
    )
    def start(self, length, capacity, chunksize, selector, continued):
        self.model = Model(length, capacity, chunksize)
        self.directory = tempfile.mkdtemp()
        self.kind, self.continued = selector, continued
        self.replay = self.make()
        self.count = 0
        self.saved = None
        self.stepids = {}
        self.last = None

    def make(self):
        uniform, prioritized = Uniform(1), Prioritized(seed=2)
        selector = {
            "uniform": uniform,
            "fifo": Fifo(),
            "recency": Recency(),
            "priority": prioritized,
            "mixture": Mixture(
                {"a": uniform, "b": prioritized, "c": Recency()}, {"a": 0.4, "b": 0.3, "c": 0.3}
            ),
        }[self.kind]
        model = self.model
        return Replay(
            model.length,
            model.capacity,
            self.directory,
            model.chunksize,
            online=True,
            selector=selector,
            continue_streams=self.continued,
        )

    def teardown(self):
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    @rule(
        worker=st.integers(0, WORKERS - 1),
        flags=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12),
    )
    def add(self, worker, flags):
        for first, last in flags:
            step = {
                "count": np.int64(self.count),
                "worker": np.uint8(worker),
                "is_first": np.bool_(first),
                "is_last": np.bool_(last),
                "latent": np.full(3, -self.count, np.float32),
                "big": np.full(90, self.count, np.float32),
                "log/x": np.float32(0),
            }
            self.replay.add(step, worker)
            self.model.add(dict(step), worker)
            self.count += 1
            type(self).operations += 1

    @rule(worker=st.integers(0, WORKERS - 1), key=st.sampled_from(["latent", "big"]))
    def add_nan(self, worker, key):
        step = {
            "count": np.int64(0),
            "worker": np.uint8(0),
            "is_first": np.bool_(0),
            "is_last": np.bool_(0),
            "latent": np.zeros(3, np.float32),
            "big": np.zeros(90, np.float32),
        }
        step[key][1] = np.nan
        with pytest.raises(ValueError, match=f"NaN in key '{key}' of worker {worker}"):
            self.replay.add(step, worker)

    @precondition(lambda self: self.model.items)
    @rule(batch=st.integers(1, 5), train=st.booleans())
    def sample(self, batch, train):
        model = self.model
        online = model.pop_online(batch) if train else []
        data = self.replay.sample(batch, "train" if train else "report")
        assert set(data) == {
            "count", "worker", "is_first", "is_last", "latent", "big", "stepid"
        }  # fmt: skip
        for row in range(batch):
            counts = data["count"][row].tolist()
            index, start = model.places[counts[0]]
            assert counts == model.tracks[index].counts[start : start + model.length]
            if row < len(online):
                assert (index, start) == online[row]
            else:
                assert (index, start) in model.items
            steps = [model.steps[count] for count in counts]
            for key in ("worker", "latent", "big"):
                np.testing.assert_array_equal(data[key][row], [step[key] for step in steps])
            first = [bool(step["is_first"]) for step in steps]
            last = [bool(step["is_last"]) for step in steps]
            after = [*first[1:], False]
            assert data["is_last"][row].tolist() == [
                a or b for a, b in zip(last, after, strict=True)
            ]
            assert data["is_first"][row].tolist() == [True, *first[1:]]
            for count, stepid in zip(counts, data["stepid"][row], strict=True):
                assert self.stepids.setdefault(count, stepid.tobytes()) == stepid.tobytes()
        self.last = {key: value.copy() for key, value in data.items()}
        for value in data.values():  # Whoever scribbles on a batch must not reach the storage.
            value[...] = 0
        type(self).operations += batch

    @precondition(lambda self: self.last is not None)
    @rule(value=st.integers(0, 1000), skip=st.integers(0, 1), priority=st.booleans())
    def update(self, value, skip, priority):
        """Write back the latents of the last batch, of which some rows may be gone by now."""
        last, model = self.last, self.model
        skip = min(skip, model.length - 1)
        stepid = last["stepid"][:, skip:]
        counts = last["count"][:, skip:]
        latent = (np.arange(stepid.shape[0] * stepid.shape[1]) + value).astype(np.float32)
        latent = np.repeat(latent.reshape(*stepid.shape[:2], 1), 3, -1)
        data = {"stepid": stepid, "latent": latent}
        if priority:
            data["priority"] = (latent[..., 0] % 7).astype(np.float32)
        self.replay.update(data)
        for row in range(len(counts)):
            if model.stored(int(counts[row, 0])):
                for time, count in enumerate(counts[row].tolist()):
                    if count in model.steps:
                        step = {**model.steps[count], "latent": latent[row, time]}
                        model.steps[count] = step
        type(self).operations += len(counts)

    @rule()
    def save(self):
        self.saved = (self.replay.save(), self.model.copy())
        type(self).operations += 1

    @precondition(lambda self: self.saved is not None)
    @rule(fresh=st.booleans(), with_state=st.booleans())
    def load(self, fresh, with_state):
        state, model = self.saved
        self.model = model.copy()
        if fresh:
            self.replay = self.make()
        self.replay.load(state if with_state else None)
        # A trimmed and continued stream gives old step ids to new steps.
        self.last = None
        if not with_state:
            self.model.queue = []
        if not (with_state and self.continued):
            self.model.stop_writing()
        type(self).operations += 1

    @invariant()
    def bounded(self):
        if not hasattr(self, "model"):
            return
        model = self.model
        assert len(self.replay) == len(model.items) <= model.capacity
        stats = self.replay.stats()
        per_stream = 2 + -(-model.length // model.chunksize)
        limit = model.capacity // model.chunksize + per_stream * stats["streams"]
        assert stats["chunks"] <= limit
        open_streams = {index for index, t in enumerate(model.tracks) if t.writer is not None}
        with_items = {index for index, _ in model.items}
        if model.length > 1:  # Else nothing of a stream without items is left to go on with.
            assert stats["streams"] == len(open_streams | with_items)


TestReplay = ReplayMachine.TestCase
TestReplay.settings = settings(
    max_examples=15,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class LongMachine(ReplayMachine):
    pass


@pytest.mark.slow
class TestReplayLong(LongMachine.TestCase):
    settings = settings(
        max_examples=25,
        stateful_step_count=80,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
