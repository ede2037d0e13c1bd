"""The recurrent state-space model: sequence model, posterior, prior and their losses.

State: deterministic part ``deter`` [B, D] and categorical part ``stoch`` [B, S, C], one-hot.
The recurrence follows Algorithms A, B and C of the spec. Kernels of layers that read a
concatenation are cut along their inputs, so that what does not depend on the recurrence (encoder
tokens, recorded actions) is computed for all time steps at once, and so that the embedding that
all blocks of the GRU share is one dense product instead of one copy per block.
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


class CoreWeights(NamedTuple):
    """The first block layer of the recurrence, cut along its inputs, in the compute dtype.

    Attributes:
      block: Kernel from each block of `deter` to the same block, [blocks, D/blocks, U/blocks].
      shared: Kernel from the embeddings of `deter` and `stoch` to all blocks, [2 * hidden, U].
      action: Kernel from the embedding of the action to all blocks, [hidden, U].
      bias: Bias, [U].
    """

    block: jax.Array
    shared: jax.Array
    action: jax.Array
    bias: jax.Array

    def contribution(self, embed: jax.Array) -> jax.Array:
        """What embedded actions [..., hidden] add to the output, bias included, [..., U]."""
        return embed @ self.action + self.bias


class RSSM(nj.Module):
    """World model core over features of an encoder (spec rows 2.1 to 2.8 and 2.14).

    Hyper-parameters: `deter` D, `stoch` S, `classes` C; `hidden` width of the layers around the
    recurrence; `blocks` of the block-diagonal GRU; numbers of hidden layers of the prior
    (`imglayers`), the posterior (`obslayers`) and the recurrence (`dynlayers`); `absolute` hides
    the deterministic state from the posterior; `unimix` share of the uniform distribution;
    `free_nats` below which the KL terms are not reduced; `dtype` of the computation;
    `stats` dtype of the norm statistics, see `nn.Norm`.
    """

    deter: int = 4096
    hidden: int = 2048
    stoch: int = 32
    classes: int = 32
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

    def __init__(self, act_space: Mapping[str, Space], draw: Draw) -> None:
        """Declare the actions and how states are drawn from their distributions.

        Args:
          act_space: Spaces of the actions that drive the model.
          draw: Takes a distribution and returns a value of it: a sample, or its mode.

        Raises:
          ValueError: `deter` cannot be divided into `blocks`.
        """
        if self.deter % self.blocks:
            raise ValueError(
                f"Got rssm.deter={self.deter} and rssm.blocks={self.blocks}; the deterministic "
                f"state must be divisible into the blocks."
            )
        self.act_space = dict(act_space)
        self.draw = draw

    @property
    def entry_space(self) -> dict[str, Space]:
        """Spaces of the state as it is stored in the replay: `stoch` as class indices [S]."""
        index = np.uint8 if self.classes <= 256 else np.uint16
        return {
            "deter": Space(jnp.dtype(self.dtype), self.deter),
            "stoch": Space(index, self.stoch, 0, self.classes),
        }

    def initial(self, batch_size: int) -> Carry:
        """Return the all-zero state before an episode (row 2.2)."""
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
        self, carry: Carry, tokens: jax.Array, action: Carry, reset: jax.Array
    ) -> tuple[Carry, Carry]:
        """Filter a sequence of observations (Algorithm B in a scan over time).

        Args:
          carry: State before the sequence, [B, ...].
          tokens: Encoded observations, [B, T, E].
          action: Previous actions by key, [B, T, ...].
          reset: Whether a step starts an episode, bool [B, T].

        Returns:
          The state after the sequence and the features: ``deter`` [B, T, D], ``stoch``
          [B, T, S, C] and posterior logits ``logit`` [B, T, S, C].
        """
        step, inputs = self._prepare_observe(tokens, action, reset)
        return nj.scan(step, carry, inputs, axis=1)

    def observe_step(
        self, carry: Carry, tokens: jax.Array, action: Carry, reset: jax.Array
    ) -> tuple[Carry, Carry]:
        """Filter one observation: as `observe`, without the time axis.

        Kernels are used as they are, since cutting them takes longer than the step.
        """
        embed = self._embed_action(nn.mask(self._action_vector(action), ~reset))
        return self._observe(carry, (embed, reset, tokens), None)

    def imagine(
        self, carry: Carry, policy: Callable[[Carry], tuple[Carry, Any]], length: int
    ) -> tuple[Carry, Carry, Any]:
        """Predict ahead with actions from a policy (Algorithm C).

        Args:
          carry: States to start from, [N, ...].
          policy: Maps a state to actions by key, [N, ...], and to what is kept of the state.
          length: Number of steps H.

        Returns:
          The last state, and for the states before it the actions taken in them [H, N, ...] and
          what was kept of them [H, N, ...].
        """
        weights = self._core_weights()

        def step(carry: Carry, _: None) -> tuple[Carry, tuple[Carry, Any]]:
            action, kept = policy(carry)
            embed = weights.contribution(self._embed_action(self._action_vector(action)))
            return self._imagine(carry, embed, weights)[0], (action, kept)

        carry, (action, kept) = nj.scan(step, carry, None, length=length)
        return carry, action, kept

    def imagine_actions(self, carry: Carry, action: Carry) -> tuple[Carry, Carry]:
        """Predict ahead with given actions [B, T, ...]; return the last state and features."""
        weights = self._core_weights()
        embed = weights.contribution(self._embed_action(self._action_vector(action)))
        return nj.scan(lambda carry, x: self._imagine(carry, x, weights), carry, embed, axis=1)

    def loss(self, feat: Carry) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """KL losses between posterior and prior with free bits (row 2.14).

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
        """Logits [..., S, C] of the dynamics predictor given the deterministic state (row 2.5)."""
        x = deter
        for index in range(self.imglayers):
            x = self._hidden(f"prior{index}", self._linear(f"prior{index}", self.hidden)(x))
        return self._logit("priorlogit", x)

    def dist(self, logits: jax.Array) -> Distribution:
        """Distribution of the categorical state, independent over its S variables."""
        return Independent(OneHot(logits, self.unimix), 1, jnp.sum)

    def _prepare_observe(
        self, tokens: jax.Array, action: Carry, reset: jax.Array
    ) -> tuple[Callable[[Carry, Any], tuple[Carry, Carry]], Any]:
        """Compute what does not depend on the recurrence; return the step and its inputs."""
        weights = self._core_weights()
        embed = self._embed_action(nn.mask(self._action_vector(action), ~reset))
        inputs = (weights.contribution(embed), reset)
        if not self.obslayers or self.absolute:
            return lambda c, x: self._observe(c, x, weights), (*inputs, tokens)
        layer = self._linear("obs0", self.hidden)
        kernel, bias = layer.params(self.deter + tokens.shape[-1], tokens.dtype)
        tokens = tokens @ kernel[self.deter :] + bias
        recurrent = kernel[: self.deter]
        return lambda c, x: self._observe(c, x, weights, recurrent), (*inputs, tokens)

    def _observe(
        self,
        carry: Carry,
        inputs: tuple[jax.Array, jax.Array, jax.Array],
        weights: CoreWeights | None,
        recurrent: jax.Array | None = None,
    ) -> tuple[Carry, Carry]:
        """One step of `observe` on action, reset and tokens; for the action see `_core`.

        The tokens are the encoder's, or with `recurrent`, the part of the first posterior layer
        that reads `deter`, what the tokens contribute to that layer.
        """
        action, reset, tokens = inputs
        carry = nn.mask(carry, ~reset)
        deter = self._core(carry["deter"], carry["stoch"], action, weights)
        x, first = tokens, 0
        if recurrent is not None:
            x, first = self._hidden("obs0", x + deter @ recurrent), 1
        elif not self.absolute:
            x = jnp.concatenate([deter, x], -1)
        for index in range(first, self.obslayers):
            x = self._hidden(f"obs{index}", self._linear(f"obs{index}", self.hidden)(x))
        logit = self._logit("obslogit", x)
        carry = {"deter": deter, "stoch": self._draw_stoch(logit)}
        return carry, {**carry, "logit": logit}

    def _imagine(
        self, carry: Carry, action: jax.Array, weights: CoreWeights
    ) -> tuple[Carry, Carry]:
        """One step of `imagine`; for the action see `_core`."""
        deter = self._core(carry["deter"], carry["stoch"], action, weights)
        logit = self.prior(deter)
        carry = {"deter": deter, "stoch": self._draw_stoch(logit)}
        return carry, {**carry, "logit": logit}

    def _core(
        self, deter: jax.Array, stoch: jax.Array, action: jax.Array, weights: CoreWeights | None
    ) -> jax.Array:
        """The sequence model, a GRU with block-diagonal weights (Algorithm A).

        Args:
          deter: Previous deterministic state, [B, D].
          stoch: Previous categorical state, [B, S, C].
          action: What the action contributes to the first block layer, [B, U], or without
            `weights` the embedding of the action, [B, hidden].
          weights: The first block layer cut in parts, which pays where it is used repeatedly.
        """
        stoch = stoch.reshape((*stoch.shape[:-2], self.stoch * self.classes))
        embed0 = self._hidden("dynin0", self._linear("dynin0", self.hidden)(deter))
        embed1 = self._hidden("dynin1", self._linear("dynin1", self.hidden)(stoch))
        blocks = nn.to_block_major(deter, self.blocks)
        if weights is None:
            shared = jnp.concatenate([embed0, embed1, action], -1)
            shared = jnp.broadcast_to(shared, (self.blocks, *shared.shape))
            x = self._core_layer.block_major(jnp.concatenate([blocks, shared], -1))
        else:
            shared = jnp.concatenate([embed0, embed1], -1) @ weights.shared + action
            x = nn.block_matmul(blocks, weights.block) + nn.to_block_major(shared, self.blocks)
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

    @property
    def _core_layer(self) -> nn.BlockLinear:
        """The first block layer of the recurrence."""
        name, units = ("dynhid0", self.deter) if self.dynlayers else ("dyngru", 3 * self.deter)
        return self._block_linear(name, units)

    def _core_weights(self) -> CoreWeights:
        layer, width, hidden = self._core_layer, self.deter // self.blocks, self.hidden
        inputs = self.deter + 3 * hidden * self.blocks
        kernel, bias = layer.params(inputs, self.dtype)
        shared = jnp.moveaxis(kernel[:, width:], 0, 1).reshape((3 * hidden, layer.units))
        return CoreWeights(kernel[:, :width], shared[: 2 * hidden], shared[2 * hidden :], bias)

    def _action_vector(self, action: Carry) -> jax.Array:
        return nn.DictConcat(self.act_space, 1, dtype=self.dtype)(action)

    def _embed_action(self, action: jax.Array) -> jax.Array:
        """Embed action vectors [..., A] as the recurrence reads them, [..., hidden] (row 2.3)."""
        action = action / sg(jnp.maximum(1, jnp.abs(action)))
        return self._hidden("dynin2", self._linear("dynin2", self.hidden)(action))

    def _draw_stoch(self, logit: jax.Array) -> jax.Array:
        return self.draw(self.dist(logit)).astype(self.dtype)

    def _logit(self, name: str, x: jax.Array) -> jax.Array:
        shape = (self.stoch, self.classes)
        return self._linear(name, shape, outscale=self.outscale)(x)

    def _linear(self, name: str, units: int | tuple[int, ...], **kwargs: Any) -> nn.Linear:
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
