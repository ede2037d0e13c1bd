"""The recurrent state-space model: sequence model, posterior, prior and their losses.

State: deterministic part ``deter`` [B, D] and categorical part ``stoch`` [B, S, C], one-hot.

    h = f(h, z, a)    `_sequence_model`    paper Eq. 1
    z ~ q(h, x)       `_posterior`
    z ~ p(h)          `prior`

Methods that draw latents take `draw`, a function from a distribution to a value of it: `sample` or
`mode`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.distributions import Distribution, Independent, OneHot

sg = jax.lax.stop_gradient
Carry = dict[str, jax.Array]
Draw = Callable[[Distribution], jax.Array]


def sample(dist: Distribution) -> jax.Array:
    """Draw from a distribution."""
    return dist.sample(nj.seed())


def mode(dist: Distribution) -> jax.Array:
    """Take the most likely value of a distribution."""
    return dist.pred()


class Joint(NamedTuple):
    """A linear layer that reads a concatenation, of which one part does not depend on the state.

    That part, such as the actions of a recorded sequence, is read for all time steps at once, if
    the kernel is cut along its inputs. A single step is faster with the kernel as it is stored.

    Attributes:
      ahead: Does what can be done for that part ahead of the recurrence.
      join: Takes the rest of the inputs and what `ahead` has returned to the output of the layer.
    """

    ahead: Callable[[jax.Array], jax.Array]
    join: Callable[..., jax.Array]


class RSSM(nj.Module):
    """World model core over tokens of an encoder (paper, section on world model learning).

    Hyper-parameters: `deter` D, `stoch` S, `classes` C; `hidden` width of the layers around the
    recurrence; `blocks` of the block-diagonal GRU; numbers of hidden layers of the prior
    (`imglayers`), the posterior (`obslayers`) and the recurrence (`dynlayers`); `absolute` hides
    the deterministic state from the posterior; `unimix` share of the uniform distribution;
    `free_nats` below which the KL terms are not reduced; `dtype` of the computation;
    `stats` dtype of the norm statistics, see `nn.Norm`.
    """

    deter: int = 8192
    hidden: int = 1024
    stoch: int = 32
    classes: int = 64
    norm: str = "rms"
    act: str = "silu"
    unimix: float = 0.01
    outscale: float = 1.0
    winit: str = "trunc_normal_in"
    imglayers: int = 2
    obslayers: int = 1
    dynlayers: int = 1
    absolute: bool = False
    blocks: int = 8
    free_nats: float = 1.0
    dtype: str = "float32"
    stats: str = "float32"

    def __init__(self, act_space: Mapping[str, Space]) -> None:
        """Declare the actions that drive the model.

        Raises:
          ValueError: `deter` cannot be divided into `blocks`.
        """
        if self.deter % self.blocks:
            raise ValueError(
                f"Got rssm.deter={self.deter} and rssm.blocks={self.blocks}; the deterministic "
                f"state must be divisible into the blocks."
            )
        self.act_space = dict(act_space)

    @property
    def entry_space(self) -> dict[str, Space]:
        """Spaces of the state as it is stored in the replay: `stoch` as class indices [S]."""
        index = np.uint8 if self.classes <= 256 else np.uint16
        return {
            "deter": Space(jnp.dtype(self.dtype), self.deter),
            "stoch": Space(index, self.stoch, 0, self.classes),
        }

    def initial(self, batch_size: int) -> Carry:
        """Return the all-zero state before an episode."""
        return {
            "deter": jnp.zeros((batch_size, self.deter), self.dtype),
            "stoch": jnp.zeros((batch_size, self.stoch, self.classes), self.dtype),
        }

    def to_entry(self, state: Carry) -> Carry:
        """Compress states [..., D] and [..., S, C] to what the replay stores."""
        index = jnp.argmax(state["stoch"], -1).astype(self.entry_space["stoch"].dtype)
        return {"deter": state["deter"], "stoch": index}

    def from_entry(self, entry: Carry) -> Carry:
        """Expand stored states; one-hot vectors, as the public code stores them, pass through."""
        stoch = entry["stoch"]
        if jnp.issubdtype(stoch.dtype, jnp.integer):
            stoch = jax.nn.one_hot(stoch, self.classes)
        return {"deter": entry["deter"].astype(self.dtype), "stoch": stoch.astype(self.dtype)}

    def observe(
        self, carry: Carry, tokens: jax.Array, action: Carry, reset: jax.Array, draw: Draw
    ) -> tuple[Carry, Carry]:
        """Filter a sequence of observations.

        Args:
          carry: State before the sequence, [B, ...].
          tokens: Encoded observations, [B, T, E].
          action: Previous actions by key, [B, T, ...].
          reset: Whether a step starts an episode, bool [B, T].
          draw: How latents are drawn from the posterior.

        Returns:
          The state after the sequence and the features: ``deter`` [B, T, D], ``stoch``
          [B, T, S, C] and posterior logits ``logit`` [B, T, S, C].
        """
        step, inputs = self._observe(tokens, action, reset, draw, cut=True)
        return nj.scan(step, carry, inputs, axis=1)

    def observe_step(
        self, carry: Carry, tokens: jax.Array, action: Carry, reset: jax.Array, draw: Draw
    ) -> tuple[Carry, Carry]:
        """Filter one observation: as `observe`, without the time axis."""
        step, inputs = self._observe(tokens, action, reset, draw, cut=False)
        return step(carry, inputs)

    def imagine(
        self,
        carry: Carry,
        policy: Callable[[Carry], tuple[Carry, Any]],
        length: int,
        draw: Draw,
    ) -> tuple[Carry, Carry, Any]:
        """Predict ahead with actions from a policy.

        Args:
          carry: States to start from, [N, ...].
          policy: Maps a state to actions by key, [N, ...], and to what is kept of the state.
          length: Number of steps H.
          draw: How latents are drawn from the prior.

        Returns:
          The last state, and for the states before it the actions taken in them [H, N, ...] and
          what was kept of them [H, N, ...].
        """
        layer = self._recurrence_layer(cut=True)

        def step(carry: Carry, _: None) -> tuple[Carry, tuple[Carry, Any]]:
            action, kept = policy(carry)
            known = layer.ahead(self._embed_action(action))
            return self._imagine(carry, known, layer, draw)[0], (action, kept)

        carry, (action, kept) = nj.scan(step, carry, None, length=length)
        return carry, action, kept

    def imagine_actions(self, carry: Carry, action: Carry, draw: Draw) -> tuple[Carry, Carry]:
        """Predict ahead with given actions [B, T, ...]; return the last state and features."""
        layer = self._recurrence_layer(cut=True)
        known = layer.ahead(self._embed_action(action))
        return nj.scan(lambda c, x: self._imagine(c, x, layer, draw), carry, known, axis=1)

    def loss(self, feat: Carry) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """KL losses between posterior and prior with free bits (paper Eq. 3).

        Args:
          feat: Posterior features, [B, T, ...].

        Returns:
          The losses ``dyn`` and ``rep``, float32 [B, T], and the mean entropies as metrics.
        """
        prior, post = self.prior(feat["deter"]), feat["logit"]
        dyn = self.dist(sg(post)).kl(self.dist(prior))
        rep = self.dist(post).kl(self.dist(sg(prior)))
        if self.free_nats:
            dyn = jnp.maximum(dyn, self.free_nats)
            rep = jnp.maximum(rep, self.free_nats)
        metrics = {
            "dyn_ent": sg(self.dist(prior).entropy().mean()),
            "rep_ent": sg(self.dist(post).entropy().mean()),
        }
        return {"dyn": dyn, "rep": rep}, metrics

    def prior(self, deter: jax.Array) -> jax.Array:
        """Logits [..., S, C] of the dynamics predictor given the deterministic state (Eq. 1)."""
        x = deter
        for index in range(self.imglayers):
            x = self._hidden(f"prior{index}", self._linear(f"prior{index}", self.hidden)(x))
        return self._by_latent(self._logit("priorlogit")(x))

    def dist(self, logits: jax.Array) -> Distribution:
        """Distribution of the categorical state, independent over its S variables."""
        return Independent(OneHot(logits, self.unimix), 1)

    def _observe(
        self, tokens: jax.Array, action: Carry, reset: jax.Array, draw: Draw, cut: bool
    ) -> tuple[Callable[[Carry, Any], tuple[Carry, Carry]], Any]:
        """Do what does not depend on the state; return one step of `observe` and its inputs."""
        recurrence = self._recurrence_layer(cut)
        known = recurrence.ahead(self._embed_action(action, ~reset))
        posterior = self._posterior_layer(tokens.shape[-1], cut)
        inputs = known, posterior.ahead(tokens), reset

        def step(carry: Carry, inputs: Any) -> tuple[Carry, Carry]:
            action, tokens, reset = inputs
            deter = self._sequence_model(nn.mask(carry, ~reset), action, recurrence)
            logit = self._posterior(deter, tokens, posterior)
            return self._drawn(deter, logit, draw)

        return step, inputs

    def _imagine(
        self, carry: Carry, action: jax.Array, recurrence: Joint, draw: Draw
    ) -> tuple[Carry, Carry]:
        """One step of `imagine`, on an action that `recurrence` has read ahead."""
        deter = self._sequence_model(carry, action, recurrence)
        return self._drawn(deter, self.prior(deter), draw)

    def _drawn(self, deter: jax.Array, logit: jax.Array, draw: Draw) -> tuple[Carry, Carry]:
        """Complete the state by a latent; return it and the features."""
        carry = {"deter": deter, "stoch": draw(self.dist(logit)).astype(self.dtype)}
        return carry, {**carry, "logit": logit}

    def _sequence_model(self, carry: Carry, action: jax.Array, recurrence: Joint) -> jax.Array:
        """The next deterministic state [B, D], by a GRU with block-diagonal weights (Eq. 1).

        Args:
          carry: Previous state.
          action: Embedded action, as `recurrence` has read it ahead.
          recurrence: See `_recurrence_layer`.
        """
        deter = carry["deter"]
        stoch = carry["stoch"].reshape((*carry["stoch"].shape[:-2], self.stoch * self.classes))
        embed0 = self._hidden("dynin0", self._linear("dynin0", self.hidden)(deter))
        embed1 = self._hidden("dynin1", self._linear("dynin1", self.hidden)(stoch))
        blocks = nn.to_block_major(deter, self.blocks)
        x = recurrence.join(blocks, jnp.concatenate([embed0, embed1], -1), action)
        for index in range(self.dynlayers):
            name = f"dynhid{index}"
            x = self._block_linear(name, self.deter).block_major(x) if index else x
            x = nn.act(self.act)(self._norm(name).block_major(x))
        if self.dynlayers:
            x = self._block_linear("dyngru", 3 * self.deter).block_major(x)
        reset, cand, update = jnp.split(x, 3, -1)
        cand = jnp.tanh(jax.nn.sigmoid(reset) * cand)
        # The offset makes the cell keep most of its state at first.
        update = jax.nn.sigmoid(update - 1)
        return nn.from_block_major(update * cand + (1 - update) * blocks)

    def _recurrence_layer(self, cut: bool) -> Joint:
        """First block layer of the sequence model; the embedded action is read ahead.

        All blocks read the same embeddings, of state and action, which with the kernel cut is one
        dense product instead of a copy per block.
        """
        name, units = ("dynhid0", self.deter) if self.dynlayers else ("dyngru", 3 * self.deter)
        layer = self._block_linear(name, units)

        def whole(blocks: jax.Array, embed: jax.Array, action: jax.Array) -> jax.Array:
            shared = jnp.concatenate([embed, action], -1)
            shared = jnp.broadcast_to(shared, (self.blocks, *shared.shape))
            return layer.block_major(jnp.concatenate([blocks, shared], -1))

        if not cut:
            return Joint(lambda action: action, whole)
        width = self.deter // self.blocks
        inputs = self.deter + 3 * self.hidden * self.blocks
        kernel, bias = layer.params(inputs, self.dtype)
        own = kernel[:, :width]
        shared = jnp.moveaxis(kernel[:, width:], 0, 1).reshape((3 * self.hidden, units))
        of_state, of_action = shared[: 2 * self.hidden], shared[2 * self.hidden :]

        def parts(blocks: jax.Array, embed: jax.Array, action: jax.Array) -> jax.Array:
            common = nn.to_block_major(embed @ of_state + action, self.blocks)
            return nn.block_matmul(blocks, own) + common

        return Joint(lambda action: action @ of_action + bias, parts)

    def _posterior(self, deter: jax.Array, tokens: jax.Array, first: Joint) -> jax.Array:
        """Logits [..., S, C] of the encoder's latent given state and observation (Eq. 1).

        Args:
          deter: Deterministic state, [..., D].
          tokens: Encoded observation, as `first` has read it ahead.
          first: See `_posterior_layer`.
        """
        x = first.join(deter, tokens)
        for index in range(self.obslayers):
            x = self._hidden(f"obs{index}", x)
            x = self._posterior_linear(index + 1)(x)
        return self._by_latent(x)

    def _posterior_layer(self, size: int, cut: bool) -> Joint:
        """First layer of the posterior; tokens of this size are read ahead."""
        layer = self._posterior_linear(0)
        if self.absolute:
            return Joint(layer, lambda deter, tokens: tokens)
        if not cut:
            return Joint(
                lambda tokens: tokens,
                lambda deter, tokens: layer(jnp.concatenate([deter, tokens], -1)),
            )
        kernel, bias = layer.params(self.deter + size, self.dtype)
        of_state, of_tokens = kernel[: self.deter], kernel[self.deter :]
        return Joint(
            lambda tokens: tokens @ of_tokens + bias,
            lambda deter, tokens: tokens + deter @ of_state,
        )

    def _posterior_linear(self, index: int) -> nn.Linear:
        last = index == self.obslayers
        return self._logit("obslogit") if last else self._linear(f"obs{index}", self.hidden)

    def _embed_action(self, action: Carry, keep: jax.Array | None = None) -> jax.Array:
        """Embed actions [..., A] as the sequence model reads them, [..., hidden].

        Args:
          action: Actions by key.
          keep: Where there is an action, bool [...]; elsewhere it is all zeros.
        """
        x = nn.DictConcat(self.act_space, 1, dtype=self.dtype)(action)
        x = x if keep is None else nn.mask(x, keep)
        x = x / sg(jnp.maximum(1, jnp.abs(x)))
        return self._hidden("dynin2", self._linear("dynin2", self.hidden)(x))

    def _by_latent(self, x: jax.Array) -> jax.Array:
        """Lay out logits by variable and class, [..., S, C]."""
        return x.reshape((*x.shape[:-1], self.stoch, self.classes))

    def _logit(self, name: str) -> nn.Linear:
        return self._linear(name, self.stoch * self.classes, outscale=self.outscale)

    def _linear(self, name: str, units: int, **kwargs: Any) -> nn.Linear:
        return self.sub(name, nn.Linear, units, winit=self.winit, **kwargs)

    def _block_linear(self, name: str, units: int) -> nn.BlockLinear:
        return self.sub(name, nn.BlockLinear, units, self.blocks, winit=self.winit)

    def _hidden(self, name: str, x: jax.Array) -> jax.Array:
        """Norm and activation after the linear layer `name`."""
        return nn.act(self.act)(self._norm(name)(x))

    def _norm(self, name: str) -> nn.Norm:
        return self.sub(f"{name}norm", nn.Norm, self.norm, stats=self.stats)


def features(feat: Carry) -> jax.Array:
    """Concatenate ``deter`` [..., D] and ``stoch`` [..., S, C] to what the heads read [..., F]."""
    stoch = feat["stoch"].reshape((*feat["stoch"].shape[:-2], -1))
    return jnp.concatenate([feat["deter"], stoch], -1)
