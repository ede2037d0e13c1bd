"""Images of real life: sizes, channels, float bounds, several cameras."""

import jax
import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from dreamerv3.encoder import Encoder
from dreamerv3.images import group_images, nearest_size, unit_range
from dreamerv3.report import open_loop_video
from embodied.core.config import Config, ConfigError
from embodied.core.space import Space
from embodied.envs.errors import EnvError
from embodied.jax import nj

FLAGS = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
ACT = {"action": Space(np.int32, (), 0, 4)}
ROWS, LENGTH = 3, 5


def build(images, **options):
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug"))
    config = config.update({f"agent.{k.replace('__', '.')}": v for k, v in options.items()})
    obs_space = {**images, "reward": Space(np.float32), **FLAGS}
    return Dreamer(obs_space, ACT, Config({**config.agent, "replay_context": 1}))


def trace(model):
    """Shapes of the parameters and of what training and reports log, without computing them."""
    spaces = {**model.obs_space, **model.act_space, **model.ext_space}
    data = {k: np.zeros((ROWS, LENGTH, *s.shape), s.dtype) for k, s in spaces.items()}

    def init():
        return nj.init(lambda: model.train(model.init_train(ROWS), data))({}, seed=0)

    params = jax.eval_shape(init)

    def run(method, params):
        return nj.pure(method)(params, model.init_train(ROWS), data, seed=0, modify=True)

    _, (_, _, trained) = jax.eval_shape(lambda x: run(model.train, x), params)
    _, (_, reported) = jax.eval_shape(lambda x: run(model.report, x), params)
    return params, trained, reported


def openloop_shape(height, width, channels):
    # Half of 4 steps is imagined, and as many black frames follow; rows are side by side. Gray
    # images have three channels here, which the border needs.
    channels = 3 if channels == 1 else channels
    return (2 * (LENGTH - 1), 3 * height + 4, ROWS * (width + 4), channels)


FITTING = {
    "tall gray": Space(np.uint8, (96, 64, 1)),
    "signed float": Space(np.float32, (64, 48, 2), -1, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FITTING)
def test_images_train_and_give_a_video_of_their_shape(kind):
    space = FITTING[kind]
    _, trained, reported = trace(build({"camera": space}))
    assert trained["loss/camera"].shape == ()
    video = reported["openloop/camera"]
    assert video.shape == openloop_shape(*space.shape)
    assert video.dtype == np.uint8


@pytest.mark.parametrize("channels", [1, 3])
def test_border_of_videos_is_green_while_observed_then_red(channels):
    images = np.full((1, 4, 8, 8, channels), 0.5, np.float32)
    video = np.asarray(open_loop_video(images, images, observed=2))
    assert video.shape == (8, 28, 12, 3)
    assert (video[:2, 0, 0] == [0, 255, 0]).all() and (video[2:4, 0, 0] == [255, 0, 0]).all()
    assert (video[:4, 4, 4] == 128).all()


@pytest.mark.slow
def test_cameras_of_different_sizes_have_networks_of_their_own():
    images = {
        "wrist": Space(np.uint8, (64, 96, 1)),
        "front": Space(np.uint8, (64, 64, 3)),
        "side": Space(np.uint8, (64, 64, 1)),
    }
    params, trained, reported = trace(build(images))
    for key, space in images.items():
        assert f"loss/{key}" in trained
        assert reported[f"openloop/{key}"].shape == openloop_shape(*space.shape)
    # Those of one size share one, under the names that a single size has.
    assert params["enc/cnn0/kernel"].shape[2] == 4
    assert params["dec/imgout/kernel"].shape[-1] == 4
    assert params["enc/images1_cnn0/kernel"].shape[2] == 1
    assert params["dec/images1_imgout/kernel"].shape[-1] == 1


@pytest.mark.parametrize(
    ("shape", "nearest"),
    [
        ((100, 100, 3), "96x96"),
        ((84, 84, 4), "80x80"),
        ((5, 5, 6), "48x48"),
        ((210, 160, 3), "208x160"),
        ((1080, 1920, 3), "256x256"),
        ((64, 100, 3), "64x96"),
    ],
)
def test_other_sizes_are_refused_with_the_nearest(shape, nearest):
    good = {"fine": Space(np.uint8, (64, 64, 3))}
    with pytest.raises(EnvError, match=f"'camera' of size {shape[0]}x{shape[1]}.*is {nearest}"):
        build({**good, "camera": Space(np.uint8, shape)})
    height, width = map(int, nearest.split("x"))
    build({**good, "camera": Space(np.uint8, (height, width, shape[2]))})


def test_nearest_size_is_one_that_works_and_none_is_closer():
    allowed = [16 * cells for cells in range(3, 17)]
    for length in range(1, 400):
        found = nearest_size(length, 4)
        assert found in allowed
        assert abs(found - length) == min(abs(x - length) for x in allowed)


def test_small_floats_and_floats_without_bounds_are_refused():
    with pytest.raises(EnvError, match=r"32x32.*nearest size that works is 48x48"):
        build({"camera": Space(np.float32, (32, 32, 3), 0, 1)})
    with pytest.raises(EnvError, match="float image 'camera' without finite bounds"):
        build({"camera": Space(np.float32, (48, 48, 3))})
    with pytest.raises(EnvError, match="at most three dimensions"):
        build({"volume": Space(np.uint8, (48, 48, 48, 3))})
    # Fewer stages make smaller images possible, as the message says.
    two = {"enc__simple__mults": (2, 4), "dec__simple__mults": (2, 4)}
    build({"camera": Space(np.float32, (32, 32, 3), 0, 1)}, **two)
    with pytest.raises(ConfigError, match=r"Got 4 channels.*multiple of bspace, 8"):
        build(
            {"camera": Space(np.uint8, (32, 32, 3))},
            enc__simple__mults=(2,),
            dec__simple__mults=(2,),
        )


def test_images_are_scaled_by_their_bounds():
    half = Space(np.float32, (1, 1, 2), [[[-1, 0]]], [[[1, 4]]])
    np.testing.assert_allclose(unit_range(half, np.float32([[[0, 1]]])), [[[0.5, 0.25]]])
    bytes_ = Space(np.uint8, (1, 1, 1))
    np.testing.assert_allclose(unit_range(bytes_, np.uint8([[[51]]])), [[[0.2]]], rtol=1e-6)
    model = build({"camera": Space(np.float32, (48, 48, 1), -1, 1)})
    target = model.target("camera", np.full((1, 48, 48, 1), -1, np.float32))
    assert float(target.min()) == float(target.max()) == 0


def test_channels_in_front_are_named():
    with pytest.raises(EnvError, match=r"'camera' of shape \(3, 84, 84\).*channels come first"):
        group_images({"camera": Space(np.uint8, (3, 84, 84))}, 4)


def test_an_environment_without_observations_is_refused():
    with pytest.raises(EnvError, match="without observations, expected at least one key"):
        Encoder({}, name="enc")
