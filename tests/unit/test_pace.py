"""How long the next chunk of a compiled loop is."""

import numpy as np

from embodied.run.pace import TRIAL, Pace

NONE = np.zeros(100, int)
SOME = np.tile([0, 0, 0, 2], 25)


def test_until_something_is_known_chunks_are_short_and_end_with_the_first_updates():
    pace = Pace(2.0)
    assert pace.choose(NONE) == TRIAL
    assert pace.choose(SOME) == 4
    pace.measure(16, 0, 1.6)
    assert pace.choose(NONE) == 20
    assert pace.choose(SOME) == 4


def test_chunks_take_the_time_that_is_asked_for():
    pace = Pace(2.0)
    pace.measure(10, 0, 0.1)
    pace.measure(4, 2, 0.44)
    # Each 4 iterations take 0.04 s and their updates 0.4 s.
    assert pace.choose(SOME) == 19
    assert pace.choose(NONE) == 100
    pace.measure(1, 2, 10.0)
    assert pace.choose(SOME) == 3
    assert pace.choose(SOME[3:]) == 1


def test_a_run_that_is_continued_while_it_learns_measures_updates_first():
    pace = Pace(2.0)
    every = np.ones(50, int)
    assert pace.choose(every) == 1
    pace.measure(1, 1, 0.1)
    assert pace.choose(every) == 20
