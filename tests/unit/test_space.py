import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embodied.core.space import Space

SPACES = [
    Space(np.uint8, (4, 5, 3)),
    Space(np.float32),
    Space(np.float32, (3,), -1, 1),
    Space(np.float32, (3,), [0, -5, 2], [1, -4, 2]),
    Space(np.float64, (2,), 0.1, None),
    Space(np.float64, (2,), None, 0.3),
    Space(np.float16, (3,), 0, [1, 2, 3]),
    Space(ml_dtypes.bfloat16, (4,), -1, 1),
    Space(np.float32, (2,), np.finfo(np.float32).min, np.finfo(np.float32).max),
    Space(bool),
    Space(np.int32, (), 0, 5),
    Space(np.int32, (2,), [1, -3], [2, 9]),
    Space(np.int64),
    Space(np.uint64, (2,)),
    Space(np.float32, (0,), -1, 1),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_samples_are_in_the_space(space):
    rng = np.random.default_rng(0)
    for _ in range(50):
        value = space.sample(rng)
        assert value.dtype == space.dtype
        assert value.shape == space.shape
        assert space.explain(value) is None


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_pickling_keeps_everything(space):
    other = pickle.loads(pickle.dumps(space))
    assert other == space
    assert repr(other) == repr(space)


def test_samples_cover_the_range():
    rng = np.random.default_rng(0)
    integers = [int(Space(np.int32, (), 2, 5).sample(rng)) for _ in range(100)]
    assert set(integers) == {2, 3, 4}
    floats = np.array([Space(np.float32, (), -2, 4).sample(rng) for _ in range(500)])
    assert floats.min() < -1.5
    assert floats.max() > 3.5
    assert {bool(Space(bool).sample(rng)) for _ in range(50)} == {False, True}


def test_sampling_repeats_with_the_same_generator():
    space = Space(np.float32, (3,), 0, None)
    first = space.sample(np.random.default_rng(7))
    np.testing.assert_array_equal(first, space.sample(np.random.default_rng(7)))


def test_integer_high_is_exclusive():
    space = Space(np.int32, (), 0, 5)
    assert np.int32(4) in space
    assert np.int32(5) not in space
    assert np.int32(-1) not in space
    assert space.classes == 5


def test_classes_count_from_low():
    assert Space(bool).classes == 2
    assert Space(np.int32, (), 3, 5).classes == 2
    np.testing.assert_array_equal(Space(np.int32, (2,), 0, [3, 7]).classes, [3, 7])
    assert Space(np.uint8).classes == 256
    with pytest.raises(ValueError, match="discrete"):
        _ = Space(np.float32).classes
    with pytest.raises(ValueError, match="bounds"):
        _ = Space(np.int64).classes


def test_discrete():
    assert Space(np.int32).discrete
    assert Space(bool).discrete
    assert not Space(np.float32).discrete
    assert not Space(ml_dtypes.bfloat16).discrete


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.zeros(3, np.float64), "dtype float32, got float64"),
        (np.zeros(4, np.float32), r"shape \(3,\), got \(4,\)"),
        (np.array([0, np.nan, 0], np.float32), "NaN at index"),
        (np.array([0, 0, np.inf], np.float32), "got inf at index"),
        (np.array([0, 1.5, 0], np.float32), r"within \[-1, 1\], got 1.5 at index \(1,\)"),
        (np.array([0, -1.001, 0], np.float32), "within"),
        (np.array([None] * 3), "dtype float32, got object"),
        ([0.0, 0.0, 0.0], "dtype float32, got float64"),
        ([[1], [1, 2]], "ragged"),
        (None, "got object"),
    ],
)
def test_explains_what_is_wrong(value, reason):
    space = Space(np.float32, (3,), -1, 1)
    assert value not in space
    with pytest.raises(ValueError, match=reason):
        raise ValueError(space.explain(value))


@given(st.floats(-1e6, 1e6, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-6))
def test_bounds_are_accepted_after_rounding_to_float32(bound):
    for dtype in (np.float32, np.float64):
        space = Space(dtype, (2,), bound, bound)
        rounded = np.full(2, np.float32(bound), dtype)
        assert rounded in space
        assert Space(dtype, (), bound, bound).explain(rounded[0]) is None
        beyond = np.full(2, bound + max(1.0, abs(bound)) * 1e-4, dtype)
        assert beyond not in space


def test_infinities_need_an_explicit_infinite_bound():
    infinite = np.array([np.inf, 0], np.float32)
    assert infinite not in Space(np.float32, (2,))
    assert infinite not in Space(np.float32, (2,), 0, None)
    assert infinite not in Space(np.float32, (2,), -np.inf, 5)
    assert infinite not in Space(np.float32, (2,), None, np.finfo(np.float32).max)
    assert infinite in Space(np.float32, (2,), None, np.inf)
    assert -infinite in Space(np.float32, (2,), -np.inf, 5)
    assert np.float32(np.inf) not in Space(np.float32)
    assert np.float32(-np.inf) in Space(np.float32, (), -np.inf)
    assert infinite in Space(np.float32, (2,), 0, [np.inf, 1])
    assert infinite[::-1] not in Space(np.float32, (2,), 0, [np.inf, 1])


@pytest.mark.parametrize("bounds", [(None, None), (-np.inf, np.inf), (0, 1), (None, 1)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_nan_is_never_accepted(dtype, bounds):
    for shape in ((), (3,)):
        value = np.zeros(shape, dtype)
        assert value in Space(dtype, shape, *bounds)
        value[...] = np.nan
        assert value not in Space(dtype, shape, *bounds)


def test_large_finite_numbers_are_accepted():
    value = np.full(4, 3e38, np.float32)
    assert value in Space(np.float32, (4,))
    assert np.full(4, np.finfo(np.float64).max) in Space(np.float64, (4,), 0)


def test_equality_is_about_content():
    assert Space(np.float32, (2,), 0, 1) == Space("float32", [2], [0, 0], 1)
    assert Space(np.float32, (2,)) != Space(np.float32, (3,))
    assert Space(np.float32, (2,)) != Space(np.float64, (2,))
    assert Space(np.float32, (2,), 0) != Space(np.float32, (2,))
    assert Space(np.float32) != Space(np.float32, (), -np.inf, np.inf)
    assert Space(np.int32, (), 0, 5) != Space(np.int32, (), 0, 6)
    assert Space(np.uint8) == Space(np.uint8, (), 0, 256)
    assert Space(np.float32) != "float32"
    assert hash(Space(np.uint8)) == hash(Space(np.uint8, (), 0, 256))


def test_bounds_are_arrays_of_the_shape_and_detached_from_the_caller():
    low = np.array([0.0, -1.0])
    space = Space(np.float32, (2,), low, 1)
    low[:] = 5
    np.testing.assert_array_equal(space.low, np.array([0, -1], np.float32))
    np.testing.assert_array_equal(space.high, np.array([1, 1], np.float32))
    with pytest.raises(ValueError, match="read-only"):
        space.low[0] = 3
    assert Space(np.uint8, (2,)).high.tolist() == [256, 256]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((np.float32, (2,), 1, 0), "low <= high"),
        ((np.int32, (), 3, 3), "exclusive"),
        ((np.float32, (2,), [0, 0, 0]), "broadcast"),
        ((np.float32, (), np.nan), "NaN"),
        ((np.int32, (), 0, 2.5), "whole numbers"),
        ((np.uint8, (), -1), "whole numbers"),
        ((np.uint8, (), 0, 257), "whole numbers"),
        ((str,), "dtype"),
        ((object,), "dtype"),
    ],
)
def test_nonsense_is_refused(args, reason):
    with pytest.raises(ValueError, match=reason):
        Space(*args)


def test_astype_keeps_bounds_that_were_given():
    assert Space(np.float64, (2,), 0.5).astype(np.float32) == Space(np.float32, (2,), 0.5)
    assert Space(np.int64).astype(np.int32) == Space(np.int32)
    assert Space(np.int64, (), 0, 2**40).astype(np.int32) == Space(np.int32, (), 0)
