"""Names of the Atari games that come with ale-py, as data, so that a task is checked without it.

A test compares the table with `ale_py.roms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_BENCHMARK = """
alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling
boxing breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro
fishing_derby freeway frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull
kung_fu_master montezuma_revenge ms_pacman name_this_game phoenix pitfall pong private_eye qbert
riverraid road_runner robotank seaquest skiing solaris space_invaders star_gunner surround tennis
time_pilot tutankham up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon
"""

_OTHERS = """
adventure air_raid atlantis2 backgammon basic_math blackjack carnival casino combat crossbow
darkchambers donkey_kong earthworld elevator_action entombed et flag_capture frogger galaxian
hangman haunted_house human_cannonball journey_escape joust kaboom keystone_kapers king_kong klax
koolaid laser_gates lost_luggage mario_bros maze_craze miniature_golf mr_do othello pacman pitfall2
pooyan sir_lancelot space_war superman tetris tic_tac_toe_3d trondead turmoil video_checkers
video_chess video_cube warlords word_zapper
"""

#: The 57 games of the usual benchmark.
BENCHMARK = tuple(_BENCHMARK.split())

#: All others.
OTHERS = tuple(_OTHERS.split())

#: Games that need two players, which end the process when one of them steps.
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")

#: Other spellings in use.
ALIASES: Mapping[str, str] = MappingProxyType({"james_bond": "jamesbond"})


def names() -> tuple[str, ...]:
    """All task names, without games for two players."""
    games = [name for name in (*BENCHMARK, *OTHERS) if name not in TWO_PLAYERS]
    return (*games, *ALIASES)
