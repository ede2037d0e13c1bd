"""Every selector draws from the distribution that it promises, with eviction running."""

import numpy as np
import pytest

from embodied.core.replay import Fifo, Mixture, Prioritized, Recency, Replay, Uniform
from embodied.core.replay.prioritized import SumTree
from embodied.core.replay.selectors import FifoArray

LENGTH = 3
CAPACITY = 40


def add(replay, count, worker=0):
    replay.add({"count": np.int64(count), "is_first": np.bool_(False)}, worker)


def full_replay(selector, **kwargs):
    replay = Replay(LENGTH, CAPACITY, chunksize=4, selector=selector, **kwargs)
    for count in range(100):
        add(replay, count)
    return replay


def drawn_ages(replay, rounds=400, batch=50):
    """Ages of drawn items, the newest being 0, while old ones go and new ones come."""
    ages = []
    for round_ in range(rounds):
        add(replay, 100 + round_)
        starts = replay.sample(batch)["count"][:, 0]
        ages.append(100 + round_ - LENGTH + 1 - starts)
    return np.concatenate(ages)


def assert_distributed(values, probs):
    """Every frequency lies within five standard deviations of what is expected."""
    probs = np.asarray(probs) / np.sum(probs)
    assert values.min() >= 0 and values.max() < len(probs)
    counts = np.bincount(values, minlength=len(probs))
    expected = probs * len(values)
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - probs)) + 1e-9).all()


def test_uniform_with_eviction():
    assert_distributed(drawn_ages(full_replay(Uniform(seed=3))), np.ones(CAPACITY))


def test_default_selector_is_uniform_and_seeded():
    one, two, other = full_replay(None, seed=1), full_replay(None, seed=1), full_replay(None)
    draws = [replay.sample(200)["count"] for replay in (one, two, other)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_recency_with_eviction(exponent):
    ages = drawn_ages(full_replay(Recency(exponent, seed=3)))
    assert_distributed(ages, (np.arange(CAPACITY) + 1.0) ** -exponent)


def test_fifo_takes_turns_from_the_oldest():
    replay = full_replay(Fifo())
    starts = [replay.sample(1)["count"][0, 0].item() for _ in range(3)]
    assert starts == [58, 59, 60]
    for count in range(100, 110):
        add(replay, count)
    assert replay.sample(1)["count"][0, 0] == 68, "evicted items are passed over"
    assert replay.sample(50)["count"][:, 0].tolist() == [*range(69, 108), *range(68, 79)]


def test_mixture_with_eviction():
    selector = Mixture(
        {"uniform": Uniform(1), "recency": Recency(1.0, 2), "unused": Fifo()},
        {"uniform": 0.3, "recency": 0.7, "unused": 0.0},
        seed=3,
    )
    recent = 1 / (np.arange(CAPACITY) + 1)
    probs = 0.3 / CAPACITY + 0.7 * recent / recent.sum()
    assert_distributed(drawn_ages(full_replay(selector)), probs)


@pytest.mark.parametrize(
    "fractions", [{"a": 0.5}, {"a": 0.5, "b": 0.4}, {"a": 1.5, "b": -0.5}, {"a": 0.5, "c": 0.5}]
)
def test_mixture_refuses_bad_fractions(fractions):
    with pytest.raises(ValueError, match="Got fractions"):
        Mixture({"a": Uniform(), "b": Uniform()}, fractions)


def priority_of(count):
    return (1.0 + count % 5) * (count % 7 > 0)


def weight_of(start, exponent, maxfrac):
    powers = np.array([priority_of(start + i) ** exponent for i in range(LENGTH)])
    return maxfrac * powers.max() + (1 - maxfrac) * powers.mean()


@pytest.mark.parametrize(
    "exponent, maxfrac",
    [
        pytest.param(1.0, 0.0, marks=pytest.mark.slow),
        (0.8, 0.5),
        pytest.param(2.0, 1.0, marks=pytest.mark.slow),
    ],
)
def test_prioritized_with_eviction(exponent, maxfrac):
    """Draws follow the weights of whatever items there are at the time."""
    selector = Prioritized(exponent, zero_on_sample=False, maxfrac=maxfrac, seed=4)
    replay = Replay(LENGTH, CAPACITY, chunksize=4, selector=selector)
    workers, observed, expected = 2, np.zeros(35), np.zeros(35)
    for count in range(700):
        for worker in range(workers):
            add(replay, count, worker)
        if count + 1 < LENGTH:
            continue
        # New items come first; their priorities are written back like the learner does.
        for _ in range(workers):
            data = replay.sample(1)
            assert data["count"][0, -1] == count
            data["priority"] = priority_of(data.pop("count"))
            replay.update({key: data[key] for key in ("stepid", "priority")})
        oldest = max(0, count + 1 - CAPACITY // workers - LENGTH + 1)
        starts = np.arange(oldest, count - LENGTH + 2)
        weights = np.array([weight_of(start, exponent, maxfrac) for start in starts])
        np.add.at(expected, starts % 35, 40 * weights / weights.sum())
        np.add.at(observed, replay.sample(40)["count"][:, 0] % 35, 1)
    assert (np.abs(observed - expected) <= 5 * np.sqrt(expected + 1)).all()
    assert np.abs(observed - observed.mean()).max() > 5 * np.sqrt(observed.mean())


def test_prioritized_draws_every_item_once_before_any_again():
    replay = full_replay(Prioritized(seed=1))
    starts = []
    while len(starts) < CAPACITY:
        data = replay.sample(1)
        starts.append(data["count"][0, 0])
        # What was drawn has priority 0 now, and so have its neighbours in part.
        if len(starts) * LENGTH > CAPACITY + LENGTH:
            break
    assert len(set(starts)) == len(starts)
    assert min(np.diff(sorted(starts))) >= 1


def test_prioritized_zeroes_steps_of_drawn_items():
    selector = Prioritized(1.0, initial=np.inf, zero_on_sample=True, maxfrac=0.5, seed=1)
    selector.extend(np.arange(10), LENGTH)
    number = int(selector.sample(1)[0])
    priorities = selector.step_priorities(0, 12)
    assert (priorities[number : number + LENGTH] == 0).all()
    assert np.isinf(np.delete(priorities, range(number, number + LENGTH))).all()


def test_prioritized_is_uniform_when_all_are_zero():
    selector = Prioritized(initial=0.0, seed=1)
    selector.extend(np.arange(20), LENGTH)
    assert_distributed(selector.sample(4000), np.ones(20))


def test_prioritized_refuses_what_is_no_priority():
    selector = Prioritized()
    selector.extend(np.arange(10), LENGTH)
    for bad in (np.nan, -1.0):
        with pytest.raises(ValueError, match="Got priorities"):
            selector.prioritize(0, np.array([1.0, bad]))
    with pytest.raises(ValueError, match="maxfrac"):
        Prioritized(maxfrac=2.0)


def test_priorities_reach_the_selector_in_a_mixture_only_if_it_takes_them():
    parts = {"uniform": Uniform(), "priority": Prioritized(zero_on_sample=False)}
    mixture = Mixture(parts, {"uniform": 0.5, "priority": 0.5})
    assert mixture.takes_priorities
    mixture.extend(np.arange(5), LENGTH)
    mixture.prioritize(1, np.array([2.0, 3.0]))
    assert mixture.step_priorities(0, 4).tolist() == [np.inf, 2.0, 3.0, np.inf]
    assert not Mixture(parts, {"uniform": 1.0, "priority": 0.0}).takes_priorities


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(5),
        lambda: Fifo(),
        lambda: Recency(1.0, 5),
        lambda: Prioritized(0.8, zero_on_sample=True, seed=5),
        lambda: Mixture({"a": Uniform(1), "b": Prioritized(seed=3)}, {"a": 0.5, "b": 0.5}, seed=5),
    ],
)
def test_selectors_go_on_as_before_after_loading(make, tmp_path):
    replay = full_replay(make(), directory=tmp_path)
    rng = np.random.default_rng(0)
    for _ in range(10):
        data = replay.sample(4)
        priority = rng.random(data["count"].shape).astype(np.float32)
        replay.update({"stepid": data["stepid"], "priority": priority})
    state = replay.save()
    expected = [replay.sample(7)["count"] for _ in range(20)]
    other = Replay(LENGTH, CAPACITY, tmp_path, chunksize=4, selector=make())
    other.load(state)
    for counts in expected:
        np.testing.assert_array_equal(other.sample(7)["count"], counts)


def test_sum_tree_against_plain_sums():
    rng = np.random.default_rng(0)
    for branching, size in [(2, 5), (16, 300), (3, 1), (16, 17)]:
        tree, weights = SumTree(size, branching), np.zeros(size)
        for _ in range(30):
            indices = rng.choice(size, rng.integers(1, size + 1), replace=False)
            weights[indices] = rng.random(len(indices)) * (rng.random(len(indices)) > 0.3)
            tree.set(indices, weights[indices])
            assert tree.total == pytest.approx(weights.sum(), abs=1e-12)
            if weights.sum() == 0:
                continue
            uniforms = np.append(rng.random(50), [0.0, np.nextafter(1.0, 0.0)])
            expected = np.searchsorted(np.cumsum(weights), uniforms * weights.sum(), "right")
            drawn = tree.sample(uniforms)
            assert (weights[drawn] > 0).all()
            assert (drawn[:50] == expected[:50]).all()


def test_sum_tree_errors():
    with pytest.raises(ValueError, match="all 0"):
        SumTree(4).sample(np.array([0.5]))
    with pytest.raises(ValueError, match="branching"):
        SumTree(4, branching=1)


def test_fifo_array_against_a_list():
    rng = np.random.default_rng(0)
    array, values, removed = FifoArray(np.int64), [*range(250)], 0
    array.extend(np.arange(250))  # Nearly full, so that it grows.
    for _ in range(2000):
        action = rng.integers(4)
        if action == 0 and values:
            assert array.popleft() == values.pop(0)
            removed += 1
        elif action == 1:
            new = rng.integers(0, 99, rng.integers(0, 4))
            array.extend(new)
            values += new.tolist()
        elif action == 2 and len(values) > 5:
            array.drop_before(array.first + 2)
            values, removed = values[2:], removed + 2
        else:
            array.append(7)
            values.append(7)
        assert (array.first, len(array)) == (removed, len(values))
        assert array.slice(array.first, array.stop).tolist() == values
    with pytest.raises(IndexError):
        FifoArray(np.int64).popleft()


def test_fifo_array_keeps_its_memory():
    array = FifoArray(np.int64)
    before = len(array._data)
    for value in range(1000):
        array.append(value)
        if len(array) > 10:
            array.popleft()
    assert len(array._data) == before
