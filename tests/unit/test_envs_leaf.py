"""Translation of single arrays."""

import numpy as np
import pytest

from embodied.core.space import Space
from embodied.envs.errors import UnsupportedSpace
from embodied.envs.leaf import action_leaf, observation_leaf


def test_float64_is_observed_as_float32():
    leaf = observation_leaf(np.float64, (2,), -1.0, 1.0)
    assert leaf.space == Space(np.float32, (2,), -1, 1)
    value = leaf.encode(np.array([0.1, 1.0]))
    assert value in leaf.space
    assert value.tolist() == np.float32([0.1, 1.0]).tolist()


def test_scalars_become_arrays_without_dimensions():
    leaf = observation_leaf(float, ())
    value = leaf.encode(1.5)
    assert value in leaf.space
    assert value.shape == ()


def test_images_stay_bytes():
    leaf = observation_leaf(np.uint8, (4, 5, 3), 0, 255)
    assert leaf.space == Space(np.uint8, (4, 5, 3))
    picture = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    assert leaf.encode(picture) in leaf.space
    assert (leaf.encode(picture) == picture).all()


def test_integers_with_few_values_are_classes_from_zero():
    leaf = observation_leaf(np.int64, (2,), np.array([-3, 5]), np.array([3, 6]))
    assert leaf.space == Space(np.int32, (2,), 0, np.array([7, 2]))
    assert leaf.encode(np.array([-3, 6])).tolist() == [0, 1]
    assert leaf.encode(np.array([3, 5])) in leaf.space


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_with_many_values_are_numbers(dtype):
    info = np.iinfo(dtype)
    for low, high in ((0, 10_000), (info.min, info.max), (None, None), (0, info.max)):
        leaf = observation_leaf(dtype, (3,), low, high)
        assert leaf.space.dtype == np.float32
        assert leaf.encode(np.array([1, 5000, 0], dtype)) in leaf.space


def test_booleans_are_observed_as_they_are():
    assert observation_leaf(bool, (3,)).encode([True, False, True]).dtype == bool


def test_bounds_of_which_some_are_infinite():
    low, high = np.array([-np.inf, 0.0]), np.array([1.0, np.inf])
    leaf = observation_leaf(np.float32, (2,), low, high)
    assert np.float32([-1e6, 1e6]) in leaf.space
    assert np.float32([2, 0]) not in leaf.space
    assert np.float32([0, -1]) not in leaf.space


def test_huge_bounds_mean_none():
    for high in (1e10, np.finfo(np.float32).max, np.inf):
        assert observation_leaf(np.float32, (2,), -high, high).space == Space(np.float32, (2,))
        assert action_leaf(np.float64, (2,), -high, high).space == Space(np.float32, (2,))


def test_float_actions_reach_the_own_type_and_never_leave_the_bounds():
    low, high = np.array([-0.1, -2.0]), np.array([0.1, 0.7])
    leaf = action_leaf(np.float64, (2,), low, high)
    assert leaf.space.dtype == np.float32
    value = leaf.decode(leaf.space.high)
    assert value.dtype == np.float64
    assert (value <= high).all()
    assert (leaf.decode(leaf.space.low) >= low).all()
    assert np.allclose(leaf.decode(np.float32([0.05, -1])), [0.05, -1])


def test_integer_actions_are_shifted_to_the_own_range():
    leaf = action_leaf(np.int64, (), 3, 6)
    assert leaf.space == Space(np.int32, (), 0, 4)
    assert [int(leaf.decode(np.int32(x))) for x in range(4)] == [3, 4, 5, 6]
    assert leaf.decode(np.int32(0)).dtype == np.int64


def test_vectors_of_choices_with_unequal_sizes():
    leaf = action_leaf(np.int64, (3,), np.zeros(3, int), np.array([1, 2, 3]))
    assert leaf.space.classes.tolist() == [2, 3, 4]
    assert leaf.decode(np.int32([1, 2, 3])).tolist() == [1, 2, 3]


def test_binary_actions_are_two_choices():
    leaf = action_leaf(bool, (2,))
    assert leaf.space == Space(np.int32, (2,), 0, 2)
    assert leaf.decode(np.int32([0, 1])).tolist() == [False, True]


def test_refusals():
    with pytest.raises(UnsupportedSpace, match="integers or floats"):
        observation_leaf(np.dtype("U5"), ())
    with pytest.raises(UnsupportedSpace, match="integers or floats"):
        observation_leaf(object, (2,))
    with pytest.raises(UnsupportedSpace, match="bounds"):
        action_leaf(np.int64, (2,))
