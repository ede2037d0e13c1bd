"""Lambda returns, shared by imagined and replayed trajectories."""

import jax.numpy as jnp
from jax import Array, lax


def lambda_return(
    last: Array, term: Array, reward: Array, boot: Array, disc: float | Array, lam: float | Array
) -> Array:
    """Mix bootstrapped n-step returns by exponential weights (paper Eq. 5).

    Rewards, continuation and values of the *next* step enter the return of a step: the reward
    belongs to the state that it arrives with.

        step            0          1          2     ...    L-1
        boot                   V(s_1)     V(s_2)         V(s_L-1)
        reward                  r_1        r_2            r_L-1
        1 - term                c_1        c_2            c_L-1
        result         R_0 <----- R_1 <----- R_2 <- ...  R_L-1 = V(s_L-1), not returned

        R_t = r_t+1 + disc c_t+1 ((1 - k_t+1) V(s_t+1) + k_t+1 R_t+1)   with k = lam (1 - last)

    A terminal step (``term``) cuts off everything that follows it. A step that is the last of an
    episode without being terminal (``last`` only, a time limit) is replaced by its own value.
    Nothing flows back from the step after it, which belongs to another episode.

    Args:
      last: Whether the step is the last one of an episode, [N, L], in imagination all zeros.
      term: Whether the step ends the world, [N, L]; may be a probability.
      reward: Reward received on entering the step, [N, L].
      boot: Value estimate of the step, [N, L].
      disc: Discount factor per step; 1 where `term` already includes it.
      lam: Mixing factor, 0 for one-step returns and 1 for Monte-Carlo returns.

    Returns:
      Returns of the steps 0 to L - 2, float32 [N, L - 1].

    Raises:
      ValueError: The shapes differ or the trajectories have fewer than two steps.
    """
    last, term, reward, boot = (
        jnp.asarray(x).astype(jnp.float32) for x in (last, term, reward, boot)
    )
    shapes = [x.shape for x in (last, term, reward, boot)]
    if len(set(shapes)) > 1 or boot.ndim != 2 or boot.shape[1] < 2:
        raise ValueError(f"Got last, term, reward, boot of shapes {shapes}; expected one [N, L].")
    live = disc * (1 - term[:, 1:])
    cont = lam * (1 - last[:, 1:])
    weight = live * cont
    onestep = reward[:, 1:] + (live - weight) * boot[:, 1:]

    def step(future: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        onestep, weight = inputs
        current = onestep + weight * future
        return current, current

    _, returns = lax.scan(step, boot[:, -1], (onestep.T, weight.T), reverse=True)
    return returns.T
