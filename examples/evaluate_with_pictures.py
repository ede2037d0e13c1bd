"""Evaluate a run, and film what its agent does beside what its world model imagines.

python examples/evaluate_with_pictures.py ~/logdir/demo
"""

import pathlib
import sys

import numpy as np

import dreamerv3
from embodied.core.writers.pictures import write_video

SEEN = 5  # Frames that the world model sees before it imagines the rest from the actions alone.


def play(policy, env):
    """Run an episode; return the observations and the actions, each with a batch of one."""
    seen, actions, carry = [], [], policy.initial(1)
    nothing = {key: np.zeros(space.shape, space.dtype) for key, space in policy.act_space.items()}
    obs = env.step({**nothing, "reset": True})
    while True:
        seen.append({key: np.asarray(value)[None] for key, value in obs.items()})
        carry, action = policy(carry, seen[-1])
        if obs["is_last"]:
            return seen, actions
        actions.append(action)
        obs = env.step({**{key: value[0] for key, value in action.items()}, "reset": False})


def imagine(policy, seen, actions):
    """Show the first observations of an episode again, then imagine what its actions lead to."""
    carry = policy.initial(1)
    for obs in seen[:SEEN]:  # A deterministic policy answers as before.
        carry, _ = policy(carry, obs)
    rest = {key: np.stack([a[key] for a in actions[SEEN - 1 :]], 1) for key in actions[0]}
    return policy.imagine(carry, rest)


def film(folder, out, key="image", pixels=16):
    """Write `agent` and `imagination`, where the right half is imagined after the first frames."""
    policy = dreamerv3.load_policy(folder, mode="deterministic")
    env = policy.make_env()
    seen, actions = play(policy, env)
    env.close()
    real = np.concatenate([obs[key] for obs in seen])
    dream = np.concatenate([real[:SEEN], imagine(policy, seen, actions)[key][0]])
    both = np.concatenate([real, np.full_like(real[:, :, :1], 255), dream], 2)
    large = {"agent": real, "imagination": both}
    large = {name: x.repeat(pixels, 1).repeat(pixels, 2) for name, x in large.items()}
    return [write_video(pathlib.Path(out) / name, x, fps=8) for name, x in large.items()]


if __name__ == "__main__":
    scores = dreamerv3.evaluate(sys.argv[1], episodes=10)
    print(f"Scores: {scores.mean():.1f} on average, from {scores.min():.1f} to {scores.max():.1f}")
    print("Videos:", *film(sys.argv[1], sys.argv[1]))
