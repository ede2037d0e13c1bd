"""Measures what a run takes from the machine."""

import gc
import importlib.util
import logging
import os
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

_LOG = logging.getLogger(__name__)
_GIGABYTE = 1024**3
_NVIDIA_FIELDS = "utilization.gpu,memory.used,memory.total"

Stats = dict[str, float | str]


class Usage:
    """A set of probes, each of which gives a few metrics whose names start with that of the probe.

    A probe whose tool is not on this machine (nvidia-smi, the package GPUtil) is absent without a
    word. A probe that breaks later is reported once and dropped.
    """

    def __init__(
        self,
        psutil: bool = True,
        nvsmi: bool = False,
        gputil: bool = False,
        malloc: bool = False,
        gc: bool = False,
    ) -> None:
        """Choose the probes.

        Args:
          psutil: CPU and memory of this process and of the machine.
          nvsmi: GPUs, by calling nvidia-smi.
          gputil: GPUs, by the package GPUtil.
          malloc: Python memory by source line; slows Python down.
          gc: Garbage collections.
        """
        self._probes: dict[str, Callable[[], Stats]] = {}
        if psutil:
            self._probes["psutil"] = _ProcessProbe()
        if nvsmi and shutil.which("nvidia-smi"):
            self._probes["nvsmi"] = _nvidia_stats
        if gputil and importlib.util.find_spec("GPUtil"):
            self._probes["gputil"] = _gputil_stats
        if malloc:
            tracemalloc.start()
            self._probes["malloc"] = _malloc_stats
        if gc:
            self._probes["gc"] = _GarbageProbe()

    def stats(self) -> Stats:
        """Ask every probe, for example `psutil/proc_ram_gb`; fractions are between 0 and 1."""
        stats: Stats = {}
        for name, probe in list(self._probes.items()):
            try:
                stats.update({f"{name}/{key}": value for key, value in probe().items()})
            except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
                del self._probes[name]
                _LOG.warning("Usage statistics '%s' stopped working: %s", name, error)
        return stats


class _ProcessProbe:
    def __init__(self) -> None:
        self._process = psutil.Process(os.getpid())
        self._process.cpu_percent()  # The first call has nothing to compare with.
        psutil.cpu_percent()

    def __call__(self) -> Stats:
        memory = psutil.virtual_memory()
        resident = self._process.memory_info().rss
        return {
            "proc_cpu_usage": self._process.cpu_percent() / 100,
            "proc_ram_frac": resident / memory.total,
            "proc_ram_gb": resident / _GIGABYTE,
            "total_cpu_count": psutil.cpu_count() or 1,
            "total_cpu_frac": psutil.cpu_percent() / 100,
            "total_ram_avail_gb": memory.available / _GIGABYTE,
            "total_ram_frac": memory.percent / 100,
            "total_ram_total_gb": memory.total / _GIGABYTE,
            "total_ram_used_gb": (memory.total - memory.available) / _GIGABYTE,
        }


class _GarbageProbe:
    """Counts collections, the objects they freed and the seconds they took since the last call."""

    def __init__(self) -> None:
        self._start = 0.0
        self._totals = {"collections": 0.0, "collected": 0.0, "seconds": 0.0}
        gc.callbacks.append(self._on_collection)

    def __call__(self) -> Stats:
        stats: Stats = {**self._totals, "tracked": float(len(gc.get_objects()))}
        self._totals = dict.fromkeys(self._totals, 0.0)
        return stats

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._start = time.perf_counter()
        else:
            self._totals["collections"] += 1
            self._totals["collected"] += info["collected"]
            self._totals["seconds"] += time.perf_counter() - self._start


def _nvidia_stats() -> Stats:
    command = ["nvidia-smi", f"--query-gpu={_NVIDIA_FIELDS}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
    rows = [[float(field) for field in line.split(",")] for line in output.splitlines() if line]
    return _gpu_stats([(util / 100, used / total) for util, used, total in rows])


def _gputil_stats() -> Stats:
    gpus: list[Any] = importlib.import_module("GPUtil").getGPUs()
    return _gpu_stats([(gpu.load, gpu.memoryUtil) for gpu in gpus])


def _gpu_stats(rows: list[tuple[float, float]]) -> Stats:
    """Summarise (compute share, memory share) of every GPU."""
    if not rows:
        return {}
    stats: Stats = {}
    for name, column in zip(("compute", "memory"), np.array(rows).T, strict=True):
        stats[f"{name}_min"] = float(column.min())
        stats[f"{name}_avg"] = float(column.mean())
        stats[f"{name}_max"] = float(column.max())
    return stats


def _malloc_stats() -> Stats:
    current, peak = tracemalloc.get_traced_memory()
    lines = tracemalloc.take_snapshot().statistics("lineno")[:20]
    return {
        "current_gb": current / _GIGABYTE,
        "peak_gb": peak / _GIGABYTE,
        "summary": "\n".join(str(line) for line in lines),
    }
