"""Compare this implementation with a recording of the public one.

    python tests/parity.py RECORDING.npz CONFIG.json

Builds spaces, configuration and parameters from the recording, repeats what was recorded (losses,
gradients, three training steps, write-back, acting, report) and prints the largest relative error
of each group. The exit code is 1 if one of them is above its tolerance. The form of recordings is
described in tests/oracle/README.md.
"""

import argparse
import json
import pathlib
import sys
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import numpy as np

from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj

TOLERANCES = {
    "features": 2e-5,
    "losses": 2e-5,
    "gradients": 1e-4,
    "metrics": 1e-4,
    "parameters": 1e-4,
    # Quotients of gradients and their root mean square, which amplify the error of small ones.
    "optimizer": 1e-2,
    "write-back": 2e-5,
    "policy": 2e-5,
    "report": 1e-4,
}
FLOOR = 1e-4
#: Differences of metrics up to this are rounding, as their means may be next to zero.
ROUNDING = 1e-6
NOISE = 1e-8


class Worst(NamedTuple):
    """The largest error of a group: where it is, and how large."""

    error: float
    key: str


class Recording:
    """A recording and the model that it describes."""

    def __init__(self, arrays: str | pathlib.Path, options: str | pathlib.Path) -> None:
        """Read the files and build the model."""
        with np.load(arrays) as file:
            self.arrays = {key: file[key] for key in file.files}
        meta = json.loads(pathlib.Path(options).read_text())
        spaces = {
            kind: {
                k: Space(v["dtype"], tuple(v["shape"]), v.get("low"), v.get("high"))
                for k, v in meta["spaces"][kind].items()
            }
            for kind in ("obs", "act")
        }
        self.act_space = spaces["act"]
        self.obs_space = spaces["obs"]
        self.options = meta["config"]
        self.model = Dreamer(self.obs_space, self.act_space, agent_config(self.options))
        data = {k: jnp.asarray(v) for k, v in self.group("data").items()}
        self.data = {k: v for k, v in data.items() if k != "reset"}
        self.batch = self.data["is_first"].shape[0]
        gradients = {k: np.abs(v).max() for k, v in self.group("expect/grad").items()}
        largest = max(gradients.values())
        self.noise = tuple(k for k, v in gradients.items() if v < NOISE * largest)
        self.params = self._initial_params()

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the recorded arrays whose key starts with the prefix, without it."""
        prefix = f"{prefix}/"
        return {k[len(prefix) :]: v for k, v in self.arrays.items() if k.startswith(prefix)}

    def is_noise(self, path: str) -> bool:
        """Whether the recorded gradient of a parameter is nothing but rounding noise.

        That of an action's mean is, where actions are the mean itself. The optimizer turns such
        noise into full steps of random sign, which no other program repeats; so these parameters
        and their optimizer state are taken from the recording.
        """
        return path.endswith(self.noise)

    def _initial_params(self) -> dict[str, jax.Array]:
        created = nj.init(lambda: self.model.train(self.carry(), self.data))({}, seed=0)
        recorded = self.group("params/0")
        unknown = sorted(recorded.keys() - created.keys())
        missing = sorted(
            k for k in created.keys() - recorded.keys() if not k.startswith("opt/state/")
        )
        if unknown or missing:
            raise SystemExit(f"Parameters differ: unknown {unknown}, not recorded {missing}.")
        for key, value in recorded.items():
            if (value.shape, value.dtype) != (created[key].shape, created[key].dtype):
                raise SystemExit(f"Parameter {key}: {created[key].shape}, recorded {value.shape}.")
        return {**created, **{k: jnp.asarray(v) for k, v in recorded.items()}}

    def carry(self):
        """Return a fresh carry."""
        return self.model.init_train(self.data["is_first"].shape[0])


def agent_config(options: dict) -> Config:
    """The agent configuration of a recording: defaults, recorded values, modes for samples."""
    config = Presets.load().defaults
    for key, value in options.items():
        config = config.update({key: value})
    # The public code divides by eps where the mean square of a gradient underflows.
    config = config.update({"agent.sampling": "mode", "agent.opt.guard": False})
    return Config({**config.agent, "replay_context": config.replay_context})


def onehot(model: Dreamer, latents: dict) -> dict[str, np.ndarray]:
    """Expand compact latents to those of the public code."""
    latents = dict(latents)
    stoch = jax.nn.one_hot(latents["dyn/stoch"], model.dyn.classes)
    return {**latents, "dyn/stoch": stoch}


def repeat_recording(rec: Recording) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Repeat what was recorded; return pairs of ours and theirs by group and key."""
    groups: dict[str, dict] = {name: {} for name in TOLERANCES}

    def compare(group: str, ours: dict, prefix: str) -> None:
        theirs = rec.group(prefix)
        lacking = sorted(theirs.keys() - ours.keys())
        if lacking:
            raise SystemExit(f"Not computed for {prefix}: {lacking}.")
        for key, value in theirs.items():
            groups[group][f"{prefix}/{key}"] = (np.asarray(ours[key]), value)

    _compare_loss(rec, compare, groups)
    _compare_training(rec, compare, groups)
    _compare_policy(rec, compare)
    _compare_report(rec, compare)
    return groups


def _compare_loss(rec, compare, groups) -> None:
    model = rec.model

    def objective(state, obs, previous):
        losses, (_, _, metrics) = model.losses(state, obs, previous, training=True)
        metrics.update({f"loss/{key}": value.mean() for key, value in losses.items()})
        return model.total(losses), (losses, metrics)

    def run(data):
        state, obs, previous = model.split(rec.carry(), data)
        tokens = model.enc(obs)
        _, feat = model.dyn.observe(state, tokens, previous, obs["is_first"], model.draw)
        grad = nj.grad(objective, model.opt.modules, has_aux=True)
        loss, _, grads, (losses, metrics) = grad(state, obs, previous)
        return loss, losses, grads, metrics, feat, tokens

    loss, losses, grads, metrics, feat, tokens = jax.jit(
        lambda params, data: nj.pure(run)(params, data, seed=0, modify=True)[1]
    )(rec.params, rec.data)
    compare("features", feat, "expect/feat")
    groups["features"]["tokens"] = (np.asarray(tokens), rec.arrays["expect/tokens"])
    compare("losses", losses, "expect/losses")
    groups["losses"]["loss"] = (np.asarray(loss), rec.arrays["expect/loss"])
    compare("gradients", grads, "expect/grad")
    compare("metrics", metrics, "expect/metrics")


def _compare_training(rec, compare, groups) -> None:
    params, carry = rec.params, rec.carry()
    train = jax.jit(
        lambda params, carry, data: nj.pure(rec.model.train)(
            params, carry, data, seed=0, modify=True
        )
    )
    for step in (1, 2, 3):
        params, (carry, outs, metrics) = train(params, carry, rec.data)
        theirs = rec.group(f"params/{step}")
        params.update({key: theirs[key] for key in theirs if rec.is_noise(key)})
        compare("metrics", metrics, f"expect/train{step}")
        compare("parameters", params, f"params/{step}")
        state = [key for key in groups["parameters"] if key.startswith(f"params/{step}/opt/state/")]
        groups["optimizer"].update({key: groups["parameters"].pop(key) for key in state})
        if step == 1 and "replay" in outs:
            compare("write-back", onehot(rec.model, outs["replay"]), "expect/replay")


def _compare_policy(rec, compare) -> None:
    carry = rec.model.init_policy(rec.batch)
    policy = jax.jit(
        lambda params, carry, obs: nj.pure(rec.model.policy)(params, carry, obs, seed=0)[1]
    )
    for step in (1, 2, 3, 4):
        if not rec.group(f"expect/policy{step}"):
            continue
        obs = {key: rec.data[key][:, step] for key in rec.obs_space}
        carry, act, outs = policy(rec.params, carry, obs)
        ours = {f"act/{key}": value for key, value in act.items()}
        if outs:
            ours.update(onehot(rec.model, outs))
        compare("policy", ours, f"expect/policy{step}")


def _compare_report(rec, compare) -> None:
    length = rec.options["report_length"] + rec.options["replay_context"]
    data = {key: value[:, :length] for key, value in rec.data.items()}
    report = jax.jit(
        lambda params, data: nj.pure(rec.model.report)(
            params, rec.carry(), data, seed=0, ignore=True
        )[1]
    )
    _, metrics = report(rec.params, data)
    compare("report", metrics, "expect/report")
    assert any(key.startswith("loss/") for key in metrics), "The report lacks the losses."


def relative_error(ours: np.ndarray, theirs: np.ndarray, rounding: float = 0.0) -> float:
    """Largest difference of two arrays relative to the largest value of the second.

    Differences up to `rounding` do not count.
    """
    if ours.shape != theirs.shape:
        return np.inf
    if ours.dtype == np.uint8 and theirs.dtype == np.uint8:
        # Neighbouring gray values are the same picture.
        return float(np.mean(np.abs(ours.astype(int) - theirs) > 1))
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    scale = max(np.abs(theirs).max(initial=0.0), FLOOR)
    difference = np.abs(ours - theirs)
    return float(np.where(difference <= rounding, 0.0, difference).max(initial=0.0) / scale)


def worst_errors(recording: str | pathlib.Path, config: str | pathlib.Path) -> dict[str, Worst]:
    """Repeat a recording and return the largest error of each group that it has."""
    with jax.default_matmul_precision("highest"):
        groups = repeat_recording(Recording(recording, config))
    return {
        name: max(
            Worst(relative_error(*pair, ROUNDING if name == "metrics" else 0.0), key)
            for key, pair in pairs.items()
        )
        for name, pairs in groups.items()
        if pairs
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recording", help="arrays (.npz)")
    parser.add_argument("config", help="spaces and options (.json)")
    args = parser.parse_args()
    failed = False
    for name, worst in worst_errors(args.recording, args.config).items():
        bad = not worst.error <= TOLERANCES[name]
        failed |= bad
        mark = "ABOVE" if bad else "within"
        print(f"{name:12} {worst.error:.2e}  {mark} {TOLERANCES[name]:.0e}  ({worst.key})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
