"""Log writers: where the records of the logger end up."""

from typing import Any

from embodied.core.writers.jsonl import JSONLWriter
from embodied.core.writers.scope import ScopeWriter
from embodied.core.writers.terminal import TerminalWriter
from embodied.core.writers.writer import Record, Writer

__all__ = ["JSONLWriter", "Record", "ScopeWriter", "TerminalWriter", "Writer"]


def __getattr__(name: str) -> Any:
    # Their names in `embodied.outputs`.
    if name.endswith("Output") and f"{name.removesuffix('Output')}Writer" in __all__:
        return globals()[f"{name.removesuffix('Output')}Writer"]
    raise AttributeError(f"module 'embodied.core.writers' has no attribute '{name}'")
