"""The DreamerV3 agent: how it acts, learns and shows what it believes.

`Dreamer` is the model that `JaxAgent` compiles. `Dreamer.losses` is the training step of the paper:
the losses of the world model (`encoder.py`, `rssm.py`, `decoder.py`), imagined trajectories
(`imagination.py`), the losses of actor and critic on them (`losses.py`), and that of the critic on
replayed trajectories. Each is an array with a value per state, to weight or mask or add to there.
Shapes: B batch, T trained steps, K imagination starts per row, N = B * K, H horizon.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dreamerv3.decoder import Decoder
from dreamerv3.encoder import Encoder
from dreamerv3.images import unit_range
from dreamerv3.imagination import evaluate, imagine
from dreamerv3.loss_terms import LossTerms, reconstruction_names
from dreamerv3.losses import imagination_targets, policy_loss, replay_loss, value_loss
from dreamerv3.report import gradient_norms, open_loop
from dreamerv3.rssm import RSSM, features, mode, sample
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj
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
          ValueError: An option has a value that does not exist or has no effect, or an
            observation cannot be encoded.
        """
        self.obs_space, self.act_space = dict(obs_space), dict(act_space)
        self.config, self.dtype = config, dtype
        self.draw = _choose("sampling", config.sampling, {"sample": sample, "mode": mode})
        _check(config)
        signal = config.get("priosignal", "none")
        self.prioritizes = _choose("priosignal", signal, {"none": False, "model": True})
        parts = {"auto": default_platform() == "cpu", "steps": True, "whole": False}
        self.by_step = _choose("imag_parts", config.imag_parts, parts)
        stats = {"stats": config.norm_dtype}
        shared = {"dtype": dtype, **stats}
        encoded = {k: v for k, v in self.obs_space.items() if k not in NOT_ENCODED}
        self.enc = nj.make("enc", Encoder, encoded, **config.enc.simple, **shared)
        self.dyn = nj.make("dyn", RSSM, self.act_space, **config.dyn.rssm, **shared)
        self.dec = nj.make("dec", Decoder, encoded, **config.dec.simple, **shared)

        scalar, binary = Space(np.float32), Space(bool, (), 0, 2)
        self.rew = nj.make("rew", MLPHead, scalar, **config.rewhead, **stats)
        self.con = nj.make("con", MLPHead, binary, **config.conhead, **stats)
        kinds = {
            k: config.policy_dist_disc if v.discrete else config.policy_dist_cont
            for k, v in self.act_space.items()
        }
        policy = {**config.policy, **stats}
        # The current public code reads the option for one-hot actions only, the paper's for all.
        if config.policy_dist_disc != "onehot" and not config.policy_unimix:
            policy["unimix"] = 0.0
        self.pol = nj.make("pol", MLPHead, self.act_space, kinds, **policy)
        self.val = nj.make("val", MLPHead, scalar, **config.value, **stats)
        slow = nj.make("slowval", MLPHead, scalar, **config.value, **stats)
        self.slowval = SlowModel(slow, source=self.val, **config.slowvalue)

        self.retnorm, self.valnorm, self.advnorm = (
            nj.make(name, Normalize, **config[name]) for name in ("retnorm", "valnorm", "advnorm")
        )
        modules = [self.dyn, self.enc, self.dec, self.rew, self.con, self.pol, self.val]
        scaling = dtype == "float16"
        self.opt = nj.make("opt", Optimizer, modules, loss_scaling=scaling, **config.opt)
        scales = dict(config.loss_scales)
        rec = scales.pop("rec")
        self.rec_names = reconstruction_names(encoded, scales)
        if not config.repval_loss:
            del scales["repval"]
        self.scales = {**scales, **dict.fromkeys(self.rec_names.values(), rec)}

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
        """Act on one observation per environment.

        Args:
          carry: Latent state and previous action.
          obs: Observations, [N, ...].
          deterministic: Take the modes of latents and actions instead of samples.

        Returns:
          The new carry, the actions [N, ...] and what is stored with the step.
        """
        state, previous = carry
        tokens = self.enc(obs, 1)
        draw = mode if deterministic else self.draw
        state, feat = self.dyn.observe_step(state, tokens, previous, obs["is_first"], draw)
        policy = self.pol(features(feat), 1)
        action = {key: draw(dist) for key, dist in policy.items()}
        outs = {}
        if self.config.replay_context:
            outs = {f"dyn/{k}": v for k, v in self.dyn.to_entry(state).items()}
        return (state, action), action, outs

    def train(
        self, carry: tuple[Arrays, Arrays], data: Arrays
    ) -> tuple[tuple[Arrays, Arrays], dict[str, Any], Arrays]:
        """Take one gradient step on a batch of replayed sequences.

        Args:
          carry: Latent state and previous action, used where a sequence continues that
            of the batch before.
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
        """Show what the model believes about a batch, without learning from it.

        Returns:
          The carry after the sequences; as metrics, the losses, with ``report_gradnorms`` the
          norm of the gradient of each of them, and an open-loop video per image.
        """
        if not self.config.report:
            return carry, {}
        state, obs, previous = self.split(carry, data)
        _, (after, _, metrics) = self.loss(state, obs, previous, training=False)
        if self.config.report_gradnorms:
            losses = lambda: self.losses(state, obs, previous, training=False)[0]  # noqa: E731
            metrics.update(gradient_norms(losses, self.scales, self.opt.modules))
        if self.dec.images:
            shown = jax.tree.map(lambda x: x[:REPORT_ROWS], (state, obs, previous))
            modules = self.enc, self.dyn, self.dec
            metrics.update(open_loop(*modules, self.draw, self.target, *shown))
        return (after, self._last_action(data)), metrics

    def imagine_actions(self, carry: tuple[Arrays, Arrays], actions: Arrays) -> Arrays:
        """Predict what given actions [N, H, ...] lead to; see `dreamerv3.policy.Policy.imagine`."""
        state, _ = carry
        _, feat = self.dyn.imagine_actions(state, actions, self.draw)
        x = features(feat)
        predicted = {key: dist.pred() for key, dist in self.dec(feat).items()}
        for key in self.dec.images:
            if self.obs_space[key].discrete:
                predicted[key] = jnp.round(255 * predicted[key]).astype(jnp.uint8)
        return {**predicted, "reward": self.rew(x, 2).pred(), "continue": self.con(x, 2).prob(1)}

    def loss(
        self, state: Arrays, obs: Arrays, previous: Arrays, training: bool
    ) -> tuple[jax.Array, tuple[Arrays, Arrays, Arrays]]:
        """The scalar that is minimized, see `total`.

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
        """All losses per state, before scaling and averaging; the rest is as in `loss`."""
        tokens = self.enc(obs)
        state, feat = self.dyn.observe(state, tokens, previous, obs["is_first"], self.draw)
        losses, metrics = self.world_model_losses(feat, obs)
        imagined_losses, returns, imagined_metrics = self.actor_critic_losses(feat, obs, training)
        losses.update(imagined_losses)
        metrics.update(imagined_metrics)
        if self.config.repval_loss:
            losses["repval"] = self._replay_loss(feat, obs, returns, training)
        assert losses.keys() == self.scales.keys(), (sorted(losses), sorted(self.scales))
        return dict(losses), (state, self._entries(feat, dict(losses)), metrics)

    def total(self, losses: Arrays) -> jax.Array:
        """Sum of the means of all losses, scaled by ``loss_scales`` (paper Eq. 2)."""
        parts = (x.mean() * self.scales[key] for key, x in losses.items())
        total: jax.Array = sum(parts, jnp.float32(0))
        return total

    def world_model_losses(self, feat: Arrays, obs: Arrays) -> tuple[LossTerms, Arrays]:
        """World model losses [B, T] (paper Eq. 3), and metrics."""
        config = self.config
        kl_losses, metrics = self.dyn.loss(feat)
        losses = LossTerms(kl_losses)
        for key, recon in self.dec(feat).items():
            losses[self.rec_names[key]] = recon.loss(self.target(key, obs[key]))
        x = features(feat)
        cont = 1.0 - obs["is_terminal"].astype(jnp.float32)
        if config.contdisc:
            cont *= 1 - 1 / config.horizon
        losses["rew"] = self.rew(x if config.reward_grad else sg(x), 2).loss(obs["reward"])
        losses["con"] = self.con(x, 2).loss(cont)
        shapes = {key: x.shape for key, x in losses.items()}
        assert set(shapes.values()) == {obs["is_first"].shape}, shapes
        return losses, metrics

    def actor_critic_losses(
        self, feat: Arrays, obs: Arrays, training: bool
    ) -> tuple[Arrays, jax.Array, Arrays]:
        """Actor and critic losses on trajectories imagined from replayed states (paper Eq. 4 to 7).

        Args:
          feat: Features of the replayed states, [B, T, ...].
          obs: Observations, [B, T, ...].
          training: Whether the normalizers see this batch.

        Returns:
          The losses ``policy`` and ``value``, averaged over imagined steps [B, K], the lambda
          returns of the replayed states [B, K], and metrics.
        """
        config, options = self.config, self.config.imag_loss
        start = {k: x.reshape((-1, *x.shape[2:])) for k, x in self._starts(feat).items()}
        length, rows = config.imag_length, len(obs["is_first"])
        imagined = nj.stop_gradient(imagine)(self.dyn, self.pol, sg(start), length, self.draw)
        heads = self.rew, self.con, self.val, self.slowval
        predicted = nj.stop_gradient(evaluate)(imagined, *heads, steps=self.by_step)
        cont = predicted.cont
        if config.imag_start == "replay":
            cont = cont.at[:, 0].set(1.0 - self._starts(obs)["is_terminal"].reshape(-1))
        targets = imagination_targets(
            predicted.reward,
            cont,
            predicted.value,
            predicted.slow_value,
            retnorm=self.retnorm,
            valnorm=self.valnorm,
            advnorm=self.advnorm,
            update=training,
            contdisc=config.contdisc,
            horizon=config.horizon,
            slowtar=options.slowtar,
            lam=options.lam,
        )
        x = imagined.x
        if config.ac_grads:
            x = x.at[0].set(features(start))
        # What the heads give [H, N], with gradients; the values were computed while imagining.
        actor = self.pol.recall(x, imagined.actor, steps=self.by_step)
        critic = self.val.recall(x, predicted.critic, steps=self.by_step)
        weight, advantage, target = targets.weight.T, targets.advantage.T, targets.value.T
        slow = predicted.slow_value.T[:-1]
        policy, metrics = policy_loss(actor, imagined.action, advantage, weight, options.actent)
        value = value_loss(critic, target, slow, weight, options.slowreg)
        losses = {"policy": policy, "value": value}
        losses = {key: loss.mean(0).reshape((rows, -1)) for key, loss in losses.items()}
        metrics = {key: value.mean() for key, value in metrics.items()}
        return losses, targets.returns[:, 0].reshape((rows, -1)), targets.metrics | metrics

    def _replay_loss(self, feat: Arrays, obs: Arrays, boot: jax.Array, training: bool) -> jax.Array:
        """Critic loss [B, K-1] on the replayed states, with imagined returns [B, K]."""
        config, options = self.config, self.config.repl_loss
        x, obs = features(self._starts(feat)), self._starts(obs)
        loss, _ = replay_loss(
            obs["is_last"],
            obs["is_terminal"],
            obs["reward"],
            boot,
            self.val(x if config.repval_grad else sg(x), 2),
            nj.stop_gradient(self.slowval)(sg(x), 2).pred(),
            valnorm=self.valnorm,
            update=training,
            horizon=config.horizon,
            lam=options.lam,
            slowreg=options.slowreg,
        )
        return loss

    def _starts(self, arrays: Arrays) -> Arrays:
        """Cut arrays [B, T, ...] to the steps [B, K, ...] that imagination starts from."""
        return {key: x[:, -self.config.imag_last :] for key, x in arrays.items()}

    def _entries(self, feat: Arrays, losses: Arrays) -> Arrays:
        """Latents and priorities [B, T] for the replay.

        A step has the priority that the world model still has to learn there: its reconstruction,
        dynamics and representation losses.
        """
        entries = {}
        if self.config.replay_context:
            entries = {f"dyn/{k}": v for k, v in self.dyn.to_entry(feat).items()}
        if self.prioritizes:
            keys = *self.dec.vectors, *self.dec.images
            names = *(self.rec_names[key] for key in keys), "dyn", "rep"
            parts = [losses[name] for name in names]
            entries["priority"] = sg(jnp.maximum(sum(parts), 0))
        return entries

    def split(self, carry: tuple[Arrays, Arrays], data: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        """Split a batch into initial state, observations and previous actions.

        With a replay context the state is the stored one where a sequence starts, and that of
        the carry where it continues the one of the batch before.
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
        return unit_range(self.obs_space[key], value) if key in self.dec.images else value


def _check(config: Config) -> None:
    """Refuse values that do not exist, or have no effect, with a ValueError."""
    for module, kind in (("dyn", "rssm"), ("enc", "simple"), ("dec", "simple")):
        _choose(f"{module}.typ", config[module].typ, {kind: None})
    _choose("imag_start", config.imag_start, {"model": None, "replay": None})
    if config.repl_loss.slowtar:
        raise ValueError(
            "Got agent.repl_loss.slowtar=True, expected False: targets on replayed steps bootstrap "
            "from imagined returns, for which agent.imag_loss.slowtar chooses the slow critic."
        )


def _choose(option: str, name: str, choices: Mapping[str, Any]) -> Any:
    if name not in choices:
        raise ValueError(f"Got agent.{option}={name!r}, expected one of {sorted(choices)}.")
    return choices[name]
