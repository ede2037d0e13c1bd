"""The loop between environments and policy."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from embodied.core.interfaces import Batch, Carry, Env, State
from embodied.core.space import Space
from embodied.core.state_tree import same_layout
from embodied.core.stepping.batched import BatchedGroup
from embodied.core.stepping.group import EnvGroup, SerialEnvs
from embodied.core.stepping.processes import ProcessEnvs

Policy = Callable[[Carry, Batch], tuple[Carry, Mapping[str, Any], Mapping[str, Any]]]
Transition = dict[str, Any]
StepCallback = Callable[[Transition, int], None]


class Driver:
    """Steps N environments with a batched policy and hands out every transition.

    The first actions are zeros with `reset`. A transition has the observation, the action chosen
    after it and the outputs of the policy. Actions are zero where `is_last` is set, both as stored
    and as sent, and the next step resets these environments. As a context manager it closes itself.

    Transitions of one worker, each a column; `docs/notation.md` has the whole diagram:

        observation  x[0]         x[t]               x[n]        x[n+1]
        reward       0            r[t] for a[t-1]    r[n]        0
        flags        is_first                        is_last     is_first
        latent       h[0], z[0]   h[t], z[t]         h[n], z[n]  h[n+1], z[n+1]
        action       a[0]         a[t]               0, reset    a[n+1]
    """

    def __init__(
        self,
        make_env_fns: Sequence[Callable[[], Env]] | Callable[[], Env],
        parallel: bool = True,
        timeout: float = 0,
    ) -> None:
        """Construct the environments.

        Args:
            make_env_fns: One constructor per environment, sent to its process with cloudpickle. A
                single callable makes a `BatchedEnv` instead, which is stepped in this process.
            parallel: Whether each environment runs in a process of its own, where there are many.
            timeout: Seconds that a step may take, 0 for any time; only processes are timed.

        Raises:
            WorkerError: If an environment cannot be constructed.
            ValueError: If there are no constructors or the timeout is negative.
        """
        if not make_env_fns:
            raise ValueError("Got no environments, expected at least one constructor.")
        if timeout < 0:
            raise ValueError(f"Got timeout {timeout}, expected seconds, or 0 for no limit.")
        self._envs: EnvGroup
        if callable(make_env_fns):
            self._envs = BatchedGroup(make_env_fns)
        elif parallel:
            self._envs = ProcessEnvs(make_env_fns, timeout)
        else:
            self._envs = SerialEnvs(make_env_fns)
        self._callbacks: list[StepCallback] = []
        # Some are left when a callback raises, for example because the run has to stop.
        self._pending: deque[tuple[Transition, int]] = deque()
        self._waiting: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.reset()

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observations, `log/` keys included."""
        return {**self._envs.obs_space, **self._envs.log_space}

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of the actions, `reset` included."""
        return dict(self._envs.act_space)

    def __len__(self) -> int:
        return len(self._envs)

    def transitions(self, policy: Policy) -> Iterator[tuple[Transition, int]]:
        """Step the environments for ever; yield each transition with the index of its worker.

        They come in the order of the workers. The iterator may be left at any time: a later one
        begins with the transitions of the same step that nobody has seen yet.

        A transition maps keys of observations (also `log/`), actions (not `reset`) and outputs of
        the policy to one step's values, which are never written to again.

        Args:
            policy: Maps carry and observations [N, ...] (without `log/` keys) to carry, actions
                [N, ...] and outputs [N, ...].

        Raises:
            WorkerError: If an environment fails; the driver is closed then.
            ValueError: If the policy's actions do not fit the action space.
        """
        while True:
            if not self._pending:
                self._step(policy)
            while self._pending:
                yield self._pending.popleft()

    @property
    def between_steps(self) -> bool:
        """Whether all transitions of the last step have been handed out."""
        return not self._pending

    def on_step(self, callback: StepCallback) -> None:
        """Register a function that a call of the driver hands each transition and worker to."""
        self._callbacks.append(callback)

    def on_wait(self, waiting: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        """Register a context in which the environments are waited for, which may be left there."""
        self._waiting = waiting

    def reset(self, init_policy: Callable[[int], Carry] | None = None) -> None:
        """Start new episodes in all environments at the next step.

        Args:
            init_policy: Makes the policy's first carry, given N.
        """
        size = len(self._envs)
        spaces = self._envs.act_space
        self._actions = {k: np.zeros((size, *x.shape), x.dtype) for k, x in spaces.items()}
        self._actions["reset"] = np.ones(size, bool)
        self._carry = init_policy(size) if init_policy else None
        self._pending.clear()

    def save(self) -> State:
        """Return the position between two transitions.

        Environments in this process that can be saved (see `Env.save`) are part of it.
        """
        return {
            "envs": self._envs.save(),
            "actions": self._actions,
            "carry": self._carry,
            "pending": list(self._pending),
        }

    def load(self, state: State) -> bool:
        """Continue at a saved position, after `reset`.

        Transitions that the callbacks have not seen yet come first. Where environments were not
        saved, are of another number or the policy has another carry, new episodes follow.

        Returns:
            Whether the episodes go on.
        """
        size = len(self._envs)
        self._pending.extend(part for part in state["pending"] if part[1] < size)
        if (
            state["envs"] is None
            or len(state["envs"]) != size
            or not same_layout(state["carry"], self._carry)
            or not same_layout(state["actions"], self._actions)
            or self._envs.save() is None
        ):
            return False
        self._envs.load(state["envs"])
        self._actions, self._carry = state["actions"], state["carry"]
        return True

    def __call__(self, policy: Policy, steps: int = 0, episodes: int = 0) -> None:
        """Step until at least this many transitions and finished episodes, over all environments.

        Environments step together, so that all transitions of the last step are handed out. Each
        transition goes to the functions that `on_step` has registered; see `transitions` for the
        policy and for errors.

        Args:
            policy: Chooses the actions.
            steps: Number of transitions.
            episodes: Number of episodes that end.
        """
        transitions = self.transitions(policy)
        step, episode = 0, 0
        while step < steps or episode < episodes or (step and self._pending):
            transition, worker = next(transitions)
            step += 1
            episode += bool(transition["is_last"])
            for callback in self._callbacks:
                callback(transition, worker)

    def close(self) -> None:
        """Close all environments and end their processes; may be called twice."""
        self._envs.close()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _step(self, policy: Policy) -> None:
        """Step every environment once; the transitions are pending then."""
        with self._waiting():
            obs, logs = self._envs.step(self._actions)
        is_last = obs["is_last"].copy()
        self._carry, actions, outputs = policy(self._carry, dict(obs))
        masked = mask_actions(actions, self._envs.act_space, is_last)
        self._actions = {**masked, "reset": is_last}
        outputs = {key: np.asarray(value) for key, value in outputs.items()}
        transitions = {**obs, **masked, **outputs}
        for worker in range(len(is_last)):
            transition = {key: values[worker] for key, values in transitions.items()}
            transition.update(logs[worker])
            self._pending.append((transition, worker))


def mask_actions(
    actions: Mapping[str, Any], act_space: Mapping[str, Space], is_last: np.ndarray
) -> dict[str, np.ndarray]:
    """Return fresh arrays of the spaces' dtypes, zero where an episode has ended.

    Args:
        actions: Actions by key, [N, ...].
        act_space: Their spaces; `reset` is left out.
        is_last: Whether the episode of each environment has ended, [N].

    Raises:
        ValueError: If an action is missing or does not fit its space.
    """
    masked = {}
    for key, space in act_space.items():
        if key == "reset":
            continue
        if key not in actions:
            raise ValueError(
                f"Got actions {sorted(actions)} from the policy, expected key {key!r} as well."
            )
        action = np.asarray(actions[key])
        shape = (len(is_last), *space.shape)
        if action.shape != shape or not np.can_cast(action.dtype, space.dtype, "same_kind"):
            raise ValueError(
                f"Got action {key!r} of shape {action.shape} and dtype {action.dtype} from the "
                f"policy, expected {shape} and {space.dtype}."
            )
        action = action.astype(space.dtype)
        action[is_last] = 0
        masked[key] = action
    return masked
