"""Whole agents against recordings of the public code: see tests/parity.py."""

import subprocess
import sys

import numpy as np
import parity
import pytest
from oracle_helpers import ORACLE

RECORDINGS = ["agent_vector_cont", "agent_mixed"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_agent_matches_the_recording(name):
    errors = parity.worst_errors(ORACLE / f"{name}.npz", ORACLE / f"{name}.json")
    expected = set(parity.TOLERANCES) - ({"report"} if name != "agent_mixed" else set())
    assert errors.keys() == expected
    for group, worst in errors.items():
        assert worst.error <= parity.TOLERANCES[group], (group, worst)


@pytest.mark.slow
def test_command_reports_the_one_difference(tmp_path):
    import json

    with np.load(ORACLE / "agent_vector_disc.npz") as file:
        arrays = dict(file)
    arrays["expect/losses/rew"] = arrays["expect/losses/rew"] * 1.001
    np.savez(tmp_path / "changed.npz", **arrays)
    options = json.loads((ORACLE / "agent_vector_disc.json").read_text())
    (tmp_path / "changed.json").write_text(json.dumps(options))
    command = [sys.executable, parity.__file__, tmp_path / "changed.npz", tmp_path / "changed.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    verdicts = {line.split()[0]: "ABOVE" in line for line in done.stdout.splitlines()}
    groups = parity.TOLERANCES.keys() & verdicts.keys()
    assert {group for group in groups if verdicts[group]} == {"losses"}
    assert {"gradients", "metrics"} <= groups


def test_metrics_next_to_zero_may_differ_by_rounding_and_nothing_else():
    zero, one = np.zeros(()), np.ones(())
    assert parity.relative_error(zero + 9e-7, zero, parity.ROUNDING) == 0
    assert parity.relative_error(zero + 2e-6, zero, parity.ROUNDING) == pytest.approx(0.02)
    assert parity.relative_error(one + 2e-4, one, parity.ROUNDING) == pytest.approx(2e-4)
    assert parity.relative_error(zero + 9e-7, zero) == pytest.approx(0.009)
    assert np.isnan(parity.relative_error(zero + np.nan, zero, parity.ROUNDING))
