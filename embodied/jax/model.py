"""What a model has to offer for `JaxAgent` to act and learn with it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import jax

from embodied.core.space import Space
from embodied.jax.sharding import DEFAULT_RULES, Rule

Arrays = dict[str, jax.Array]
Carry = Any


class Model(ABC):
    """How an agent acts, learns and reports, as functions of arrays that use modules.

    `JaxAgent` makes a model by ``Model(obs_space, act_space, config, dtype)``:

    - ``obs_space``: Space of each observation key, `reward`, `is_first`, `is_last` and
      `is_terminal` among them, without `log/` keys.
    - ``act_space``: Space of each action key, without `reset`.
    - ``config``: The options of the agent, with ``seed``, ``batch_size``, ``batch_length``,
      ``report_length`` and ``replay_context``.
    - ``dtype``: What to compute in, such as ``float32`` or ``bfloat16``.

    The constructor makes the modules, see `embodied.jax.nj`; their parameters are created when
    `train` uses them for the first time. The functions are traced and compiled: they work on JAX
    arrays, have no other state than their modules, draw random numbers with `nj.seed`, and return
    the same structure, shapes and dtypes of the carry as they get. Carries are trees of arrays
    whose first dimension is the batch; a call consumes the one that it is given. The optimizer
    should be called `opt`: its state is left out where the model only acts.

    Shapes: N environments, B rows, T steps: `replay_context` stored ones, then `batch_length` to
    learn from, or `report_length` in reports.

    Attributes:
      policy_keys: Pattern of the paths of the parameters that `policy` reads, which are copied
        to other devices that act; by default all, the optimizer's state included.
      partition_rules: How parameters are spread over several devices, see `embodied.jax.sharding`.
    """

    policy_keys: str = ""
    partition_rules: Sequence[Rule] = DEFAULT_RULES

    @property
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what is stored with each step besides observations and actions.

        Whatever `policy` returns as outputs has to be among them. `consec`, the number of a batch
        among those cut from one sequence (int32), and `stepid`, by which `train` can change what is
        stored (uint8 [20]), come from the replay if they are asked for. By default nothing.
        """
        return {}

    @abstractmethod
    def init_policy(self, batch_size: int) -> Carry:
        """Return the carry of `policy` before the first step of N environments."""

    @abstractmethod
    def init_train(self, batch_size: int) -> Carry:
        """Return the carry of `train` before the first batch of B rows."""

    def init_report(self, batch_size: int) -> Carry:
        """Return the carry of `report`; by default that of `train`."""
        return self.init_train(batch_size)

    @abstractmethod
    def policy(
        self, carry: Carry, obs: Arrays, deterministic: bool = False
    ) -> tuple[Carry, Arrays, Arrays]:
        """Act on one observation per environment.

        Args:
          carry: What the call before returned, or `init_policy`.
          obs: Observations [N, ...]; `is_first` tells where an episode starts.
          deterministic: Take the most likely actions instead of samples; a Python bool.

        Returns:
          The next carry, actions [N, ...] for each key of the action space, and outputs
          [N, ...] that are stored with the step.
        """

    @abstractmethod
    def train(self, carry: Carry, data: Arrays) -> tuple[Carry, dict[str, Any], Arrays]:
        """Take one gradient step on a batch.

        Args:
          carry: What the call before returned, or `init_train`.
          data: Observations, actions and `ext_space` of stored steps [B, T, ...]; the action of a
            step is the one that followed its observation.

        Returns:
          The next carry, outputs and metrics. Outputs may have ``replay``, for `Replay.update`:
          `stepid` of the steps that were learned from, and new values of what is stored with them.
          Metrics are scalars; those named ``loss/...``, ``.../loss`` or ``.../grad_norm`` have to
          be finite, see `Guard`.
        """

    def report(self, carry: Carry, data: Arrays) -> tuple[Carry, dict[str, Any]]:
        """Show what the model believes about a batch [B, T, ...], without learning from it.

        Returns:
          The next carry and metrics: scalars, histograms, images and videos; by default none.
        """
        return carry, {}
