"""Streams of batches: iterators whose position can be saved."""

from embodied.core.streams.consec import Consec as Consec
from embodied.core.streams.map import Map as Map
from embodied.core.streams.mixer import Mixer as Mixer
from embodied.core.streams.prefetch import Prefetch as Prefetch
from embodied.core.streams.stateless import Stateless as Stateless
from embodied.core.streams.zip import Zip as Zip
