import pytest

from embodied.core.schedule import Counter


def test_counts():
    counter = Counter(3)
    counter.increment()
    counter.increment(10)
    assert int(counter) == 14
    assert float(counter) == 14.0
    assert list(range(20))[counter] == 14


def test_compares_with_numbers_and_counters():
    counter = Counter(5)
    assert counter == 5
    assert counter != 6
    assert counter < 6 <= Counter(6)
    assert counter >= 5.0
    assert counter > Counter(4)
    assert not Counter()
    assert counter


def test_save_and_load():
    counter = Counter(7)
    other = Counter()
    other.load(counter.save())
    other.increment()
    assert (int(counter), int(other)) == (7, 8)


def test_is_mutable_and_therefore_no_key():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())
