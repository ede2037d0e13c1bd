"""Trains four seeds on one device and on four of a CPU that is split, started by the tests."""

import json
import pathlib
import sys

import jax
import numpy as np

from embodied.core.config import Config

sys.path.append(str(pathlib.Path(__file__).parents[1] / "unit"))
from ondevice_model import CONFIG, Runner

SEEDS = (0, 1, 2, 3)


def main():
    found = {}
    for name, devices in {"one": (0,), "four": (0, 1, 2, 3), "two": (2, 3)}.items():
        options = Config({**CONFIG.jax, "mock_devices": 4, "train_devices": devices})
        runner = Runner(SEEDS, jax=options)
        runner.run(16, 5)
        # Saved and continued, so that what comes back is placed as before.
        saved = runner.program.save()
        runner.program.load(saved)
        report = [float(metrics["error"]) for metrics in runner.program.report()]
        runner.run(3)
        state = runner.state
        found[name] = [np.asarray(x, np.float64) for x in jax.tree.leaves((state, report))]
        placed = runner.program._state.params["net/kernel"].sharding.device_set
        assert len(placed) == len(devices), placed
    different = [
        float(np.abs(x - y).max(initial=0))
        for name in ("four", "two")
        for x, y in zip(found[name], found["one"], strict=True)
    ]
    print(json.dumps({"different": max(different), "updates": float(found["one"][2])}))


if __name__ == "__main__":
    main()
