"""The page about training on the device: its example works, and its table of memory is right."""

import pathlib
import re

import jax
import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli import factories
from dreamerv3.cli.presets import Presets
from embodied.core.space import Space
from embodied.jax import ring
from embodied.jax.ondevice.loop import ADDRESSES
from embodied.jax.pure_env import SIGNALS, advance, initial

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "device.md").read_text()

SMALL = {r"agent.dyn.rssm.deter": 200, "agent.dyn.rssm.stoch": 8, "agent.dyn.rssm.classes": 8}
WALKER = {"orientations": Space(np.float32, 14), "height": Space(np.float32)}
WALKER["velocity"] = Space(np.float32, 9)
ROWS = {
    "75 symbols": (
        {"vector": Space(np.int32, 75, 0, 16)},
        Space(np.int32, (), 0, 7),
        SMALL,
    ),
    "walker": (WALKER, Space(np.float32, 6, -1, 1), "size12m"),
    "64 x 64": ({"image": Space(np.uint8, (64, 64, 3))}, Space(np.int32, (), 0, 7), "size200m"),
}


@pytest.mark.parametrize("name", ROWS)
def test_steps_that_fit_are_what_the_code_computes(name):
    obs, action, change = ROWS[name]
    presets = Presets.load()
    changes = presets.changes(change) if isinstance(change, str) else change
    options = factories.agent_config(presets.defaults.update(changes))
    spaces = {**obs, **SIGNALS}, {"action": action}
    model = Dreamer(*spaces, options, "bfloat16")
    ext = {key: x for key, x in model.ext_space.items() if key not in ADDRESSES}
    size = ring.step_bytes({**spaces[0], **spaces[1], **ext})
    fits = [f"{gigabytes * 10**9 // size:,}" for gigabytes in (1, 8, 80)]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {name}"))
    assert [cell.strip() for cell in row.split("|")[2:-1]] == [f"{size:,}", *fits]


def test_the_example_is_an_environment():
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)
    names = {}
    exec(code, names)
    env, key = names["Walk"](), np.zeros(2, np.uint32)
    step = jax.jit(lambda *args: advance(env, *args))
    state, reset = initial(env, 2, key), np.ones(2, bool)
    action = {"action": np.ones(2, np.int32)}
    rewards = []
    for n in range(12):
        state, obs = step(state, action, reset, key, n)
        reset = np.asarray(obs["is_last"])
        rewards.append(np.asarray(obs["reward"]))
    assert np.sum(rewards, 0).tolist() == [1, 1]
