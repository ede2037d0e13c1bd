"""Log outputs: where the records of the logger end up."""

from embodied.core.outputs.base import Output, Record
from embodied.core.outputs.jsonl import JSONLOutput
from embodied.core.outputs.scope import ScopeOutput
from embodied.core.outputs.terminal import TerminalOutput

__all__ = ["JSONLOutput", "Output", "Record", "ScopeOutput", "TerminalOutput"]
