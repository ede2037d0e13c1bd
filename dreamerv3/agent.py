"""The DreamerV3 agent: how it acts, learns and shows what it believes.

`Dreamer` is the model that `embodied.jax.jax_agent.JaxAgent` compiles. The loss is assembled in
`Dreamer.loss` from the world model (`encoder.py`, `rssm.py`, `decoder.py`) and the actor-critic
(`imagination.py`, `losses.py`); the video of the report is drawn in `report.py`.
Shapes: B batch, T trained steps, K imagination starts per row.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dreamerv3.decoder import Decoder
from dreamerv3.encoder import Encoder
from dreamerv3.images import unit_range
from dreamerv3.imagination import imagination_losses
from dreamerv3.losses import replay_loss
from dreamerv3.report import gradient_norms, open_loop
from dreamerv3.rssm import RSSM, features
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.distributions import Distribution
from embodied.jax.heads import MLPHead
from embodied.jax.model import Model
from embodied.jax.normalize import Normalize
from embodied.jax.optimizer import Optimizer
from embodied.jax.platform import default_platform
from embodied.jax.slow_model import SlowModel

sg = jax.lax.stop_gradient
Arrays = dict[str, jax.Array]
NOT_ENCODED = ("is_first", "is_last", "is_terminal", "reward")
REPORT_ROWS = 6


def sample(dist: Distribution) -> jax.Array:
    """Draw from a distribution."""
    return dist.sample(nj.seed())


def mode(dist: Distribution) -> jax.Array:
    """Take the most likely value of a distribution."""
    return dist.pred()


class Dreamer(Model):
    """World model, actor and critic, learned together from replayed sequences.

    The parameter paths are those of the public code: modules ``enc dyn dec rew con pol val
    slowval retnorm valnorm advnorm opt``.
    """

    policy_keys = "^(enc|dyn|dec|pol)/"

    def __init__(
        self,
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        config: Config,
        dtype: str = "float32",
    ) -> None:
        """Build the modules.

        Args:
          obs_space: Spaces of the observations, without ``log/`` keys.
          act_space: Spaces of the actions, without ``reset``.
          config: The ``agent`` block of the configuration, ``replay_context`` and,
            for prioritized replay, ``priosignal``: ``model``.
          dtype: Compute dtype.

        Raises:
          ValueError: An option has a value that does not exist, or an observation cannot be
            encoded.
        """
        self.obs_space, self.act_space = dict(obs_space), dict(act_space)
        self.config, self.dtype = config, dtype
        self.draw = _choose("sampling", config.sampling, {"sample": sample, "mode": mode})
        _choose("dyn.typ", config.dyn.typ, {"rssm": RSSM})
        encoder = _choose("enc.typ", config.enc.typ, {"simple": Encoder})
        decoder = _choose("dec.typ", config.dec.typ, {"simple": Decoder})
        signal = config.get("priosignal", "none")
        self.prioritizes = _choose("priosignal", signal, {"none": False, "model": True})
        _choose("imag_start", config.imag_start, dict.fromkeys(("model", "replay")))
        cpu = default_platform() == "cpu"
        self.stepwise = _choose(
            "imag_parts", config.imag_parts, {"auto": cpu, "steps": True, "whole": False}
        )
        stats = {"stats": config.norm_dtype}
        shared = {"dtype": dtype, **stats}
        encoded = {k: v for k, v in self.obs_space.items() if k not in NOT_ENCODED}
        self.enc = nj.make("enc", encoder, encoded, **config.enc.simple, **shared)
        # The same parameters twice, as modules are told apart by their path: how the agent usually
        # draws its latents, and how it does in deterministic evaluations.
        self.dyn, self.dyn_mode = (
            nj.make("dyn", RSSM, self.act_space, draw, **config.dyn.rssm, **shared)
            for draw in (self.draw, mode)
        )
        self.dec = nj.make("dec", decoder, encoded, **config.dec.simple, **shared)

        scalar, binary = Space(np.float32), Space(bool, (), 0, 2)
        self.rew = nj.make("rew", MLPHead, scalar, **config.rewhead, **stats)
        self.con = nj.make("con", MLPHead, binary, **config.conhead, **stats)
        outputs = {
            k: config.policy_dist_disc if v.discrete else config.policy_dist_cont
            for k, v in self.act_space.items()
        }
        policy = {**config.policy, **stats}
        # HEAD reads the option for one-hot actions only, the paper's recipe for all discrete ones.
        if config.policy_dist_disc != "onehot" and not config.policy_unimix:
            policy["unimix"] = 0.0
        self.pol = nj.make("pol", MLPHead, self.act_space, outputs, **policy)
        self.val = nj.make("val", MLPHead, scalar, **config.value, **stats)
        slow = nj.make("slowval", MLPHead, scalar, **config.value, **stats)
        self.slowval = SlowModel(slow, source=self.val, **config.slowvalue)

        self.retnorm = nj.make("retnorm", Normalize, **config.retnorm)
        self.valnorm = nj.make("valnorm", Normalize, **config.valnorm)
        self.advnorm = nj.make("advnorm", Normalize, **config.advnorm)
        modules = [self.dyn, self.enc, self.dec, self.rew, self.con, self.pol, self.val]
        self.opt = nj.make("opt", Optimizer, modules, **config.opt)
        scales = dict(config.loss_scales)
        rec = scales.pop("rec")
        if not config.repval_loss:
            del scales["repval"]
        self.scales = {**scales, **dict.fromkeys(encoded, rec)}

    @property
    def ext_space(self) -> dict[str, Space]:
        """What has to be stored with every step besides observations and actions."""
        spaces = {"consec": Space(np.int32), "stepid": Space(np.uint8, 20)}
        if self.config.replay_context:
            spaces.update({f"dyn/{k}": v for k, v in self.dyn.entry_space.items()})
        return spaces

    def init_policy(self, batch_size: int) -> tuple[Arrays, Arrays]:
        """Return the carry before acting: latent state and previous action, all zeros."""
        action = {k: jnp.zeros((batch_size, *v.shape), v.dtype) for k, v in self.act_space.items()}
        return self.dyn.initial(batch_size), action

    def init_train(self, batch_size: int) -> tuple[Arrays, Arrays]:
        """Return the carry before training, as that of the policy."""
        return self.init_policy(batch_size)

    def init_report(self, batch_size: int) -> tuple[Arrays, Arrays]:
        """Return the carry before reporting, as that of the policy."""
        return self.init_policy(batch_size)

    def policy(
        self, carry: tuple[Arrays, Arrays], obs: Arrays, deterministic: bool = False
    ) -> tuple[tuple[Arrays, Arrays], Arrays, Arrays]:
        """Act on one observation per environment (row 7.1).

        Args:
          carry: Latent state and previous action.
          obs: Observations, [N, ...].
          deterministic: Take the modes of latents and actions instead of samples.

        Returns:
          The new carry, the actions [N, ...] and what is stored with the step.
        """
        state, previous = carry
        tokens = self.enc(obs, 1)
        dyn = self.dyn_mode if deterministic else self.dyn
        state, feat = dyn.observe_step(state, tokens, previous, obs["is_first"])
        policy = self.pol(features(feat), 1)
        draw = mode if deterministic else self.draw
        action = {key: draw(dist) for key, dist in policy.items()}
        outs = {}
        if self.config.replay_context:
            outs = {f"dyn/{k}": v for k, v in self.dyn.to_entry(state).items()}
        return (state, action), action, outs

    def train(
        self, carry: tuple[Arrays, Arrays], data: Arrays
    ) -> tuple[tuple[Arrays, Arrays], dict[str, Any], Arrays]:
        """Take one gradient step on a batch of replayed sequences (Algorithm J).

        Args:
          carry: Latent state and previous action, used where a sequence continues (row 5.10).
          data: Sequences [B, replay_context + T, ...].

        Returns:
          The carry after the sequences, fresh latents and priorities for the replay as
          ``outs['replay']``, and metrics.
        """
        state, obs, previous = self.split(carry, data)
        metrics, (state, entries, mets) = self.opt(
            self.loss, state, obs, previous, training=True, has_aux=True
        )
        self.slowval.update()
        outs = {"replay": {"stepid": obs["stepid"], **entries}} if entries else {}
        return (state, self._last_action(data)), outs, {**mets, **metrics}

    def report(
        self, carry: tuple[Arrays, Arrays], data: Arrays
    ) -> tuple[tuple[Arrays, Arrays], Arrays]:
        """Show what the model believes about a batch, without learning from it (row 6.4).

        Returns:
          The carry after the sequences; as metrics, the losses, with ``report_gradnorms`` the
          norm of the gradient of each of them, and an open-loop video per image.
        """
        if not self.config.report:
            return carry, {}
        state, obs, previous = self.split(carry, data)
        _, (after, _, metrics) = self.loss(state, obs, previous, training=False)
        if self.config.report_gradnorms:
            metrics.update(gradient_norms(self, state, obs, previous))
        if self.dec.images:
            rows = min(REPORT_ROWS, len(obs["is_first"]))
            first = jax.tree.map(lambda x: x[:rows], (state, obs, previous))
            metrics.update(open_loop(self, *first))
        return (after, self._last_action(data)), metrics

    def loss(
        self, state: Arrays, obs: Arrays, previous: Arrays, training: bool
    ) -> tuple[jax.Array, tuple[Arrays, Arrays, Arrays]]:
        """The scalar that is minimized: scaled means of all losses (rows 4.1 and 3.20).

        Args:
          state: Latent state before the sequences, [B, ...].
          obs: Observations, [B, T, ...].
          previous: Action before each observation, [B, T, ...].
          training: Whether the normalizers see this batch.

        Returns:
          The loss and, as auxiliary output, the latent state after the sequences, what the replay
          should store with each step [B, T, ...], and metrics.
        """
        losses, (state, entries, metrics) = self.losses(state, obs, previous, training)
        metrics.update({f"loss/{key}": value.mean() for key, value in losses.items()})
        return self.total(losses), (state, entries, sg(metrics))

    def losses(
        self, state: Arrays, obs: Arrays, previous: Arrays, training: bool
    ) -> tuple[Arrays, tuple[Arrays, Arrays, Arrays]]:
        """All losses before scaling and averaging; arguments and other outputs as in `loss`."""
        losses, metrics, (state, feat) = self._world_model_loss(state, obs, previous)
        imagined, returns, imagined_metrics = imagination_losses(self, feat, obs, training)
        losses.update(imagined)
        metrics.update(imagined_metrics)
        if self.config.repval_loss:
            losses["repval"] = self._replay_loss(feat, obs, returns, training)
        assert losses.keys() == self.scales.keys(), (sorted(losses), sorted(self.scales))
        return losses, (state, self._entries(feat, losses), metrics)

    def total(self, losses: Arrays) -> jax.Array:
        """Sum of the means of all losses, scaled by ``loss_scales``."""
        return sum((x.mean() * self.scales[k] for k, x in losses.items()), jnp.float32(0))

    def _entries(self, feat: Arrays, losses: Arrays) -> Arrays:
        """Latents and priorities [B, T] for the replay (rows 5.9 and 5.5).

        A step has the priority that the world model still has to learn there: its reconstruction,
        dynamics and representation losses.
        """
        entries = {}
        if self.config.replay_context:
            entries = {f"dyn/{k}": v for k, v in self.dyn.to_entry(feat).items()}
        if self.prioritizes:
            parts = [losses[key] for key in (*self.dec.vectors, *self.dec.images, "dyn", "rep")]
            entries["priority"] = sg(jnp.maximum(sum(parts), 0))
        return entries

    def _world_model_loss(
        self, state: Arrays, obs: Arrays, previous: Arrays
    ) -> tuple[Arrays, Arrays, tuple[Arrays, Arrays]]:
        """World model losses [B, T] (Algorithm E); also metrics, last state and features."""
        config = self.config
        tokens = self.enc(obs)
        state, feat = self.dyn.observe(state, tokens, previous, obs["is_first"])
        losses, metrics = self.dyn.loss(feat)
        for key, recon in self.dec(feat).items():
            losses[key] = recon.loss(self.target(key, obs[key]))
        x = features(feat)
        cont = 1.0 - obs["is_terminal"].astype(jnp.float32)
        if config.contdisc:
            cont *= 1 - 1 / config.horizon
        losses["rew"] = self.rew(x if config.reward_grad else sg(x), 2).loss(obs["reward"])
        losses["con"] = self.con(x, 2).loss(cont)
        shape = obs["is_first"].shape
        assert all(x.shape == shape for x in losses.values()), {
            k: v.shape for k, v in losses.items()
        }
        return losses, metrics, (state, feat)

    def _replay_loss(self, feat: Arrays, obs: Arrays, boot: jax.Array, training: bool) -> jax.Array:
        """Critic loss [B, K-1] on the replayed states, with imagined returns [B, K]."""
        config = self.config
        starts = boot.shape[1]
        x = features({k: x[:, -starts:] for k, x in feat.items()})
        obs = {k: x[:, -starts:] for k, x in obs.items()}
        losses, _ = replay_loss(
            obs["is_last"],
            obs["is_terminal"],
            obs["reward"],
            boot,
            self.val(x if config.repval_grad else sg(x), 2),
            nj.stop_gradient(self.slowval)(sg(x), 2).pred(),
            valnorm=self.valnorm,
            update=training,
            horizon=config.horizon,
            **config.repl_loss,
        )
        return losses["repval"]

    def split(self, carry: tuple[Arrays, Arrays], data: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        """Split a batch into initial state, observations and previous actions (row 5.8).

        With a replay context the state is the stored one where a sequence starts, and that of
        the carry where it continues the one of the batch before (row 5.10).
        """
        state, previous = carry
        context = self.config.replay_context
        obs = {k: data[k][:, context:] for k in (*self.obs_space, "stepid") if k in data}
        if not context:
            previous = {
                k: jnp.concatenate([previous[k][:, None], data[k][:, :-1]], 1)
                for k in self.act_space
            }
            return state, obs, previous
        stored = {k: data[f"dyn/{k}"][:, context - 1] for k in self.dyn.entry_space}
        starts = data["consec"][:, 0] == 0
        state = nn.where(starts, self.dyn.from_entry(stored), state)
        return state, obs, {k: data[k][:, context - 1 : -1] for k in self.act_space}

    def _last_action(self, data: Arrays) -> Arrays:
        return {k: data[k][:, -1] for k in self.act_space}

    def target(self, key: str, value: jax.Array) -> jax.Array:
        """What the decoder should predict: images between 0 and 1, everything else as it is."""
        if key in self.dec.images:
            return unit_range(self.obs_space[key], value)
        return value


def _choose(option: str, name: str, choices: Mapping[str, Any]) -> Any:
    if name not in choices:
        raise ValueError(f"Got agent.{option}={name!r}, expected one of {sorted(choices)}.")
    return choices[name]
