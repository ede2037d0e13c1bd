"""Streams of batches: iterators whose position can be saved."""

from embodied.core.streams.basic import Map as Map
from embodied.core.streams.basic import Mixer as Mixer
from embodied.core.streams.basic import Stateless as Stateless
from embodied.core.streams.basic import Zip as Zip
from embodied.core.streams.basic import close_all as close_all
from embodied.core.streams.consec import Consec as Consec
from embodied.core.streams.prefetch import Prefetch as Prefetch
