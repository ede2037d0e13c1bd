"""The replay: streams of steps, sampled as windows. Start with `replay.py`, then `window.py`."""

from embodied.core.replay.folder import ReplaySaveError as ReplaySaveError
from embodied.core.replay.limiters import Limiter as Limiter
from embodied.core.replay.limiters import MinSize as MinSize
from embodied.core.replay.limiters import SamplesPerInsert as SamplesPerInsert
from embodied.core.replay.prioritized import Prioritized as Prioritized
from embodied.core.replay.replay import Replay as Replay
from embodied.core.replay.requirements import Requirements as Requirements
from embodied.core.replay.schema import Schema as Schema
from embodied.core.replay.schema import SchemaError as SchemaError
from embodied.core.replay.selectors import Fifo as Fifo
from embodied.core.replay.selectors import Mixture as Mixture
from embodied.core.replay.selectors import Recency as Recency
from embodied.core.replay.selectors import Selector as Selector
from embodied.core.replay.selectors import Uniform as Uniform
