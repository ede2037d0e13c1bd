"""The replay, and a command that looks into its folders: `python -m embodied.replay inspect`."""

from embodied.core.program import run_program
from embodied.core.replay import Fifo as Fifo
from embodied.core.replay import Limiter as Limiter
from embodied.core.replay import MinSize as MinSize
from embodied.core.replay import Mixture as Mixture
from embodied.core.replay import Prioritized as Prioritized
from embodied.core.replay import Recency as Recency
from embodied.core.replay import Replay as Replay
from embodied.core.replay import SamplesPerInsert as SamplesPerInsert
from embodied.core.replay import Selector as Selector
from embodied.core.replay import Uniform as Uniform

if __name__ == "__main__":
    from embodied.core.replay.inspect import main

    run_program(main)
