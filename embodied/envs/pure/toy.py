"""Tiny environments as pure functions, whose best and random returns are known."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask
from embodied.envs.toy import CUES, HIDDEN, JAX_TASKS, QUESTION, Toy
from embodied.jax.pure_env import Arrays, PureEnv, State

LENGTH, DELAY = Toy.LENGTH, Toy.DELAY


def make(task: str = "cue") -> PureEnv:
    """Make a toy environment: those of `embodied.envs.toy`, and `grid`.

    Raises:
      UnknownTask: There is none of that name.
    """
    if task not in JAX_TASKS:
        raise UnknownTask(
            f"Unknown toy task {task!r}, expected one of {', '.join(JAX_TASKS)}."
            f"{hint(task, JAX_TASKS)}"
        )
    return Grid() if task == "grid" else Cue(task)


class Cue(PureEnv):
    """One of four actions pays; see `embodied.envs.toy.Toy` for the tasks.

    Attributes:
      optimum: Expected return of the best policy.
      random_return: Expected return of uniformly random actions.
      length: Steps per episode after the reset.
    """

    def __init__(self, task: str) -> None:
        """Choose the task."""
        self._memory, self._shuffled = task == "memory", task == "cue_shuffled"
        self.length = DELAY + 1 if self._memory else LENGTH
        paid_steps = 1 if self._memory else LENGTH
        self.random_return = paid_steps / CUES
        self.optimum = self.random_return if self._shuffled else float(paid_steps)

    @property
    def obs_space(self) -> dict[str, Space]:
        """The action that pays, or `HIDDEN`, or `QUESTION`."""
        return {"cue": Space(np.int32, (), 0, CUES + 2)}

    @property
    def act_space(self) -> dict[str, Space]:
        """One of four actions."""
        return {"action": Space(np.int32, (), 0, CUES)}

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Show the first cue."""
        cue = jax.random.randint(key, (), 0, CUES)
        return (jnp.int32(0), cue), {"cue": cue}

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Pay for the action, then show the next cue."""
        count, cue = state
        drawn, luck = jax.random.randint(key, (2,), 0, CUES)
        paid = (luck == 0) if self._shuffled else action["action"] == cue
        if self._memory:
            paid &= count == DELAY
        count = count + 1
        last = count >= self.length
        if self._memory:
            question = jnp.where(count == DELAY, QUESTION, HIDDEN)
            shown = jnp.where(last, cue, question)
        else:
            cue = shown = drawn
        flags = {"reward": paid.astype(jnp.float32), "is_last": last, "is_terminal": last}
        return (count, cue), {"cue": shown, **flags}


class Grid(PureEnv):
    """A room of 5 by 5 cells with a goal in the far corner, which pays 1 and is terminal.

    The agent turns and goes forward. An episode ends after 50 steps, which is not terminal.

    Attributes:
      size: Cells per side.
      limit: Steps until the time limit.
    """

    size, limit = 5, 50

    @property
    def obs_space(self) -> dict[str, Space]:
        """Row, column and direction of the agent; whether the goal was reached, to be logged."""
        position = Space(np.int32, (2,), 0, self.size)
        heading, success = Space(np.int32, (), 0, 4), Space(np.float32)
        return {"position": position, "heading": heading, "log/success": success}

    @property
    def act_space(self) -> dict[str, Space]:
        """Turn left, turn right, go forward."""
        return {"action": Space(np.int32, (), 0, 3)}

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Put the agent anywhere but at the goal."""
        cell_key, heading_key = jax.random.split(key)
        cell = jax.random.randint(cell_key, (), 0, self.size**2 - 1)
        position = jnp.stack([cell // self.size, cell % self.size])
        state = {
            "position": position,
            "heading": jax.random.randint(heading_key, (), 0, 4),
            "count": jnp.int32(0),
        }
        return state, self._show(state)

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Turn or go."""
        turn = jnp.array([-1, 1, 0])[action["action"]]
        heading = (state["heading"] + turn) % 4
        ahead = jnp.array([[-1, 0], [0, 1], [1, 0], [0, -1]])[heading]
        moved = jnp.clip(state["position"] + ahead, 0, self.size - 1)
        position = jnp.where(action["action"] == 2, moved, state["position"])
        state = {"position": position, "heading": heading, "count": state["count"] + 1}
        goal = (position == self.size - 1).all()
        reward = goal.astype(jnp.float32)
        flags = {"is_last": goal | (state["count"] >= self.limit), "is_terminal": goal}
        return state, {**self._show(state), "reward": reward, "log/success": reward, **flags}

    def _show(self, state: Any) -> Arrays:
        return {"position": state["position"], "heading": state["heading"]}
