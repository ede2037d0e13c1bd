"""Lambda returns: recordings and numbers computed by hand."""

import jax
import numpy as np
import pytest
from oracle_helpers import assert_close, children, group, load

from embodied.jax.returns import lambda_return

RECORDED = group(load("actor_critic"), "lambda_return")
REWARD = [[99.0, 1.0, 2.0, 4.0]]
VALUE = [[99.0, 10.0, 20.0, 40.0]]
NO = [[0, 0, 0, 0]]


@pytest.mark.parametrize("case", children(RECORDED))
def test_matches_recording(case):
    rec = group(RECORDED, case)
    args = [rec[key] for key in ("last", "term", "rew", "boot", "disc", "lam")]
    assert_close(lambda_return(*args), rec["ret"])
    assert_close(jax.jit(lambda_return)(*args), rec["ret"])


@pytest.mark.parametrize(
    ("last", "term", "expected"),
    [
        # Ongoing: R2 = 4 + .9 * 40 = 40; R1 = 2 + .9 * (.5 * 20 + .5 * 40) = 29;
        # R0 = 1 + .9 * (.5 * 10 + .5 * 29) = 18.55.
        (NO, NO, [18.55, 29.0, 40.0]),
        # Step 2 ends the world: nothing follows its reward, R1 = 2, R0 = 1 + .9 * (5 + 1) = 6.4.
        ([[0, 0, 1, 0]], [[0, 0, 1, 0]], [6.4, 2.0, 40.0]),
        # Step 2 is cut off by a time limit: its own value stands for the rest,
        # R1 = 2 + .9 * 20 = 20, R0 = 1 + .9 * (5 + 10) = 14.5.
        ([[0, 0, 1, 0]], NO, [14.5, 20.0, 40.0]),
        # A probability of one half that step 2 ends the world halves what follows:
        # R1 = 2 + .45 * 30 = 15.5, R0 = 1 + .9 * (5 + 7.75) = 12.475.
        (NO, [[0, 0, 0.5, 0]], [12.475, 15.5, 40.0]),
        # The first step only bootstraps: its flags do not matter.
        ([[1, 0, 0, 0]], [[1, 0, 0, 0]], [18.55, 29.0, 40.0]),
    ],
    ids=["ongoing", "terminal", "truncated", "soft", "first"],
)
def test_matches_numbers_computed_by_hand(last, term, expected):
    """User report 11a."""
    returns = lambda_return(np.array(last), np.array(term), REWARD, VALUE, 0.9, 0.5)
    np.testing.assert_allclose(returns, [expected], rtol=1e-6)


def test_limits_are_one_step_and_monte_carlo_returns():
    one = lambda_return(NO, NO, REWARD, VALUE, 0.9, 0.0)
    np.testing.assert_allclose(one, [[1 + 9, 2 + 18, 4 + 36]], rtol=1e-6)
    full = lambda_return(NO, NO, REWARD, VALUE, 0.9, 1.0)
    last = 4 + 0.9 * 40
    np.testing.assert_allclose(
        full, [[1 + 0.9 * (2 + 0.9 * last), 2 + 0.9 * last, last]], rtol=1e-6
    )


def test_constant_reward_with_its_own_value_is_a_fixed_point():
    gamma = 0.997
    value = np.full((2, 16), 1 / (1 - gamma), np.float32)
    zeros = np.zeros_like(value)
    returns = lambda_return(zeros, zeros, zeros + 1, value, gamma, 0.95)
    np.testing.assert_allclose(returns, value[:, 1:], rtol=1e-5)


def test_nothing_before_or_across_an_episode_end_matters():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 1, 9)).astype(np.float32)
    last = np.zeros((1, 9))
    last[0, 4] = 1
    before = lambda_return(last, np.zeros((1, 9)), reward, value, 0.9, 0.95)
    reward[:, 5:] += 10
    value[:, 5:] -= 10
    after = lambda_return(last, np.zeros((1, 9)), reward, value, 0.9, 0.95)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert (before[:, 4:] != after[:, 4:]).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="expected one"):
        lambda_return(np.zeros((2, 4)), np.zeros((2, 4)), np.zeros((2, 3)), np.zeros((2, 4)), 1, 1)
    with pytest.raises(ValueError, match="expected one"):
        lambda_return(*[np.zeros((2, 1))] * 4, 1, 1)
