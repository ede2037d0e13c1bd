"""Which arrays of foreign environments are pictures, and what is said about the others."""

import numpy as np
import pytest

from embodied.core.space import Space
from embodied.envs.errors import UnsupportedSpace
from embodied.envs.leaf import observation_leaf


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((84, 84, 3, 4), (84, 84, 12)),
        ((4, 84, 84, 3), (84, 84, 12)),
        ((4, 64, 96, 1), (64, 96, 4)),
    ],
)
def test_frames_of_a_stack_become_channels(shape, expected):
    leaf = observation_leaf(np.uint8, shape, 0, 255)
    assert leaf.space == Space(np.uint8, expected)
    assert f"stack of pictures of shape {shape}" in leaf.note
    stack = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    found = leaf.encode(stack)
    first = stack.shape[0] == 4
    for frame in range(stack.shape[0] if first else stack.shape[3]):
        picture = stack[frame] if first else stack[..., frame]
        channels = picture.shape[-1]
        seen = found[:, :, frame * channels :][:, :, :channels] if first else found[:, :, frame::4]
        assert (seen == picture).all()
    batch = np.stack([stack, stack])
    assert (leaf.encode(batch, batch=(2,)) == found).all()


def test_a_stack_of_floats_keeps_its_bounds():
    leaf = observation_leaf(np.float32, (2, 48, 64, 3), np.zeros((2, 48, 64, 3)), 1)
    assert leaf.space == Space(np.float32, (48, 64, 6), 0, 1)
    uneven = np.arange(2 * 48 * 64 * 3).reshape(2, 48, 64, 3)
    leaf = observation_leaf(np.float32, uneven.shape, -1, uneven)
    assert (leaf.encode(uneven.astype(np.float32)) == leaf.space.high).all()


@pytest.mark.parametrize("shape", [(4, 3, 84, 84), (84, 4, 84, 3), (2, 2, 84, 84, 3)])
def test_other_arrays_of_bytes_with_many_dimensions_are_refused(shape):
    with pytest.raises(UnsupportedSpace, match="expected height, width, channels, or a stack"):
        observation_leaf(np.uint8, shape, 0, 255)


@pytest.mark.parametrize("shape", [(64, 64, 1), (64, 64)])
def test_depth_is_a_picture_scaled_by_its_bounds(shape):
    leaf = observation_leaf(np.uint16, shape, 0, 65535)
    assert leaf.space == Space(np.float32, (64, 64, 1), 0, 65535)
    depth = np.full(shape, 65535, np.uint16)
    assert leaf.encode(depth) in leaf.space
    assert not leaf.note


@pytest.mark.parametrize("shape", [(64, 64, 1), (64, 64)])
def test_numbers_without_bounds_in_the_shape_of_a_picture_are_named(shape):
    leaf = observation_leaf(np.float32, shape)
    assert leaf.space.dtype == np.float32 and len(leaf.space.shape) == 2
    assert "vector of 4,096 numbers" in leaf.note and "finite bounds" in leaf.note
    assert not observation_leaf(np.float32, (9, 9, 4)).note
    assert not observation_leaf(np.float32, (500, 3)).note


def test_large_arrays_of_bytes_are_no_classes():
    leaf = observation_leaf(np.uint8, (84, 84, 3), 0, 100)
    assert leaf.space == Space(np.float32, (84 * 84, 3), 0, 100)
    assert "2,137,968 classes in all" in leaf.note
    assert observation_leaf(np.uint8, (64, 64), 0, 10).space == Space(np.int32, (64, 64), 0, 11)


def test_choices_are_classes_up_to_the_limit():
    assert observation_leaf(np.int64, (), 0, 499, choices=4096).space == Space(np.int32, (), 0, 500)
    leaf = observation_leaf(np.int64, (), 0, 499, choices=100)
    assert leaf.space.dtype == np.float32
    assert "500 classes, more than the 100 of the option max_classes" in leaf.note
    # Integers that are not declared as choices stay numbers.
    leaf = observation_leaf(np.int64, (), 0, 499)
    assert leaf.space.dtype == np.float32
    assert not leaf.note
