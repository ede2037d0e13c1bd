"""The replay of a compiled program against the replay of the host."""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.replay.replay import Replay
from embodied.core.replay.stream import POSITION_BITS, POSITION_MASK
from embodied.core.replay.window import annotate, copy_windows, find_windows
from embodied.core.space import Space
from embodied.jax import ring as rings

SPACES = {
    "obs": Space(np.int32, (2,), 0, 100),
    "is_first": Space(bool),
    "is_last": Space(bool),
    "latent": Space(np.float32, (3,)),
}


def step_of(rng):
    obs = rng.integers(0, 100, 2).astype(np.int32)
    first, last = rng.random(2) < 0.2
    latent = rng.standard_normal(3).astype(np.float32)
    return {"obs": obs, "is_first": np.bool_(first), "is_last": np.bool_(last), "latent": latent}


class Both:
    """The same steps in both replays; knows worlds and positions of the host's items."""

    def __init__(self, worlds, window, capacity, budget=10_000, chunksize=1):
        self.shape = rings.Shape.fitting(worlds, window, capacity, budget)
        self.ring = rings.empty(self.shape, SPACES)
        self.host = Replay(window, capacity, chunksize=chunksize, online=True)
        self.rng = np.random.default_rng(0)
        self.n = -1

    def add_row(self):
        """Store a row in the ring; yield after each of its transitions on the host."""
        self.n += 1
        steps = [step_of(self.rng) for _ in range(self.shape.worlds)]
        row = {key: jnp.asarray(np.stack([step[key] for step in steps])) for key in SPACES}
        self.ring = rings.write(self.shape, self.ring, self.n, row)
        for world, step in enumerate(steps):
            self.host.add(step, world)
            yield world

    def items(self):
        """World and first position of the host's items, oldest first."""
        items = self.host._items
        addresses = items.take(np.arange(items.first, items.stop)).tolist()
        return places(self.host, addresses)


def place(replay, address):
    """World and position of a step of the host's replay."""
    stream = replay._streams.by_number[address >> POSITION_BITS]
    return stream.worker, address & POSITION_MASK


def places(replay, addresses):
    return [place(replay, address) for address in addresses]


@pytest.mark.parametrize("worlds", [1, 2, 5])
@pytest.mark.parametrize(("window", "capacity"), [(2, 7), (3, 10), (5, 30)])
def test_items_and_fresh_windows_are_those_of_the_host_at_every_transition(
    worlds, window, capacity
):
    both = Both(worlds, window, capacity)
    taken, queued = [], 0
    for _ in range(4 * window + capacity // worlds):
        for w in both.add_row():
            expected = both.items()
            count = int(rings.items(both.shape, both.n, w))
            ages = np.arange(count)[::-1]
            env, start = rings.locate(both.shape, ages, both.n, w)
            found = list(zip(np.asarray(env).tolist(), np.asarray(start).tolist(), strict=True))
            assert found == expected
            # Taken at once, so that none is overwritten.
            fresh = places(both.host, both.host._online.pop(100))
            pushed = int(rings.pushed(both.shape, both.n, w))
            taken = [(p % worlds, 1 + p // worlds * window) for p in range(queued, pushed)]
            assert taken == fresh
            queued = pushed
    assert queued >= 2 * worlds


def test_positions_of_fresh_windows_are_those_of_the_recording():
    path = pathlib.Path(__file__).parents[1] / "oracle" / "online_queue.json"
    recording = json.loads(path.read_text())
    shape = rings.Shape.fitting(1, recording["length"], 10_000, 10_000)
    starts = []
    for n in range(400):
        for number in range(len(starts), int(rings.pushed(shape, n, 0))):
            starts.append([n, 1 + number * recording["length"]])
    pushes = recording["pushes_[step_n, window_start]"]
    assert [start for _, start in starts] == [1, 66, 131, 196, 261, 326]
    assert starts == pushes[: len(starts)]


def test_example_of_the_documents():
    shape = rings.Shape.fitting(2, 3, 10, 1000)
    assert shape.rows == 8
    assert int(rings.items(shape, 11, 0)) == 10
    env, start = rings.locate(shape, np.arange(10), 11, 0)
    assert np.asarray(env).tolist() == [0, 1] * 5
    assert np.asarray(start).tolist() == [9, 8, 8, 7, 7, 6, 6, 5, 5, 4]
    slots = (np.asarray(start)[[0, 1, 2, 3, 9], None] + np.arange(3)) % shape.rows
    assert slots.tolist() == [[1, 2, 3], [0, 1, 2], [0, 1, 2], [7, 0, 1], [4, 5, 6]]
    assert int(rings.pushed(shape, 11, 0)) == 6
    env, start, popped = rings.draw(shape, jax.random.PRNGKey(0), 11, 0, 0, 8)
    # The first two are overwritten.
    assert np.asarray(env)[:4].tolist() == [0, 1, 0, 1]
    assert np.asarray(start)[:4].tolist() == [4, 4, 7, 7]
    assert int(popped) == 6
    assert (np.asarray(start)[4:] >= 4).all() and (np.asarray(start)[4:] <= 9).all()


def test_draws_are_uniform_over_the_items_and_reach_the_oldest_and_the_newest():
    shape = rings.Shape.fitting(2, 3, 10, 1000, online=False)
    env, start, popped = rings.draw(shape, jax.random.PRNGKey(0), 11, 0, 0, 5000)
    counts = np.zeros((2, 12))
    np.add.at(counts, (np.asarray(env), np.asarray(start)), 1)
    assert (counts > 0).sum() == 10
    assert abs(counts[counts > 0] - 500).max() < 120
    assert int(popped) == 0


def test_windows_and_overlapping_write_backs_are_those_of_the_host():
    worlds, window = 3, 4
    both = Both(worlds, window, capacity=20)
    read = jax.jit(functools.partial(rings.window, both.shape, spaces=SPACES))
    overwrite = jax.jit(functools.partial(rings.write_back, both.shape))
    rng = np.random.default_rng(1)
    for _ in range(40):
        w = list(both.add_row())[-1]
        count = int(rings.items(both.shape, both.n, w))
        if not count:
            continue
        ages = rng.integers(0, count, 8)
        env, start = rings.locate(both.shape, jnp.asarray(ages), both.n, w)
        streams = both.host._streams
        addresses = [
            streams.writers[e].base + s
            for e, s in zip(np.asarray(env).tolist(), np.asarray(start).tolist(), strict=True)
        ]
        segments = find_windows(streams, enumerate(addresses), window)
        expected = annotate(copy_windows(segments, 8, window))
        found = read(ring=both.ring, env=env, start=start)
        for key in SPACES:
            assert found[key].dtype == SPACES[key].dtype
            np.testing.assert_array_equal(found[key], expected[key], key)
        latent = rng.standard_normal((8, window - 1, 3)).astype(np.float32)
        both.host.update({"stepid": expected["stepid"][:, 1:], "latent": latent})
        both.ring = overwrite(both.ring, found["stepid"][:, 1:], {"latent": latent})


def test_bytes_are_kept_as_bytes():
    assert rings.stored_dtype(Space(np.int32, (), 0, 256)) == np.uint8
    assert rings.stored_dtype(Space(np.int32, (), 0, 257)) == np.int32
    assert rings.stored_dtype(Space(np.int32, (), -1, 3)) == np.int32
    assert rings.stored_dtype(Space(bool)) == np.bool_
    assert rings.step_bytes(SPACES) == 2 + 1 + 1 + 12


def test_a_ring_is_no_larger_than_the_budget_fills():
    assert rings.Shape.fitting(16, 33, 500_000, 100_000).rows == 6283


def test_counts_do_not_overflow_in_long_runs():
    shape = rings.Shape.fitting(16, 65, 5_000_000, 1e10)
    assert int(rings.items(shape, jnp.int32(2**29), 3)) == 5_000_000


def test_rows_that_are_kept_come_back_in_a_ring_of_another_size():
    small, large = rings.Shape.fitting(2, 3, 10, 1000), rings.Shape.fitting(2, 3, 16, 1000)
    space = {"x": Space(np.float32)}
    ring = rings.empty(small, space)
    for n in range(12):
        ring = rings.write(small, ring, n, {"x": jnp.full(2, n, jnp.float32)})
    rows = rings.present(small, ring, 12)
    assert rows["x"][0].tolist() == list(range(4, 12))
    back = rings.restored(large, space, rows, 12)
    assert [back["x"][0, p % large.rows] for p in range(4, 12)] == list(range(4, 12))
    np.testing.assert_array_equal(rings.restored(small, space, rows, 12)["x"], ring["x"])
