"""Usage statistics."""

import gc
import json
import logging
import os
import pathlib
import shutil
import stat
import tracemalloc

import numpy as np

from embodied.core.usage import Usage

PSUTIL = {
    "proc_cpu_usage",
    "proc_ram_frac",
    "proc_ram_gb",
    "total_cpu_count",
    "total_cpu_frac",
    "total_ram_avail_gb",
    "total_ram_frac",
    "total_ram_total_gb",
    "total_ram_used_gb",
}


def test_psutil_has_the_public_names_and_sane_values():
    stats = Usage().stats()
    assert set(stats) == {f"psutil/{name}" for name in PSUTIL}
    assert 0 < stats["psutil/proc_ram_gb"] < stats["psutil/total_ram_total_gb"]
    assert 0 <= stats["psutil/total_cpu_frac"] <= 1
    assert stats["psutil/total_cpu_count"] == os.cpu_count()
    used = stats["psutil/total_ram_used_gb"] + stats["psutil/total_ram_avail_gb"]
    np.testing.assert_allclose(used, stats["psutil/total_ram_total_gb"], rtol=1e-6)
    assert json.dumps(stats)


def test_absent_tools_are_silently_absent(monkeypatch, caplog):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert Usage(psutil=False, nvsmi=True, gputil=True).stats() == {}
    assert not caplog.records


def _fake_nvidia_smi(folder: pathlib.Path, script: str, monkeypatch) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_gpus_are_summarised(tmp_path, monkeypatch):
    _fake_nvidia_smi(tmp_path, "echo '50, 1000, 4000'; echo '100, 3000, 4000'", monkeypatch)
    stats = Usage(psutil=False, nvsmi=True).stats()
    assert stats["nvsmi/compute_avg"] == 0.75
    assert stats["nvsmi/compute_min"] == 0.5
    assert stats["nvsmi/memory_max"] == 0.75


def test_a_broken_tool_is_reported_once(tmp_path, monkeypatch, caplog):
    _fake_nvidia_smi(tmp_path, "exit 9", monkeypatch)
    usage = Usage(psutil=False, nvsmi=True)
    with caplog.at_level(logging.WARNING):
        assert usage.stats() == {}
        assert usage.stats() == {}
    assert len(caplog.records) == 1


def test_garbage_and_malloc_probes():
    before = list(gc.callbacks)
    try:
        usage = Usage(psutil=False, malloc=True, gc=True)
        usage.stats()
        gc.collect()
        stats = usage.stats()
        assert stats["gc/collections"] >= 1
        assert 0 < stats["malloc/current_gb"] <= stats["malloc/peak_gb"]
        assert isinstance(stats["malloc/summary"], str)
    finally:
        tracemalloc.stop()
        gc.callbacks[:] = before
