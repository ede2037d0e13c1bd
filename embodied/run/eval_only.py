"""Evaluate a saved agent, in one process and without learning."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.checkpoint import Checkpoint
from embodied.core.interfaces import Agent
from embodied.core.writers.pictures import write_video
from embodied.run.banner import environments
from embodied.run.episodes import Episode, EpisodeLogger
from embodied.run.evaluation import Evaluation
from embodied.run.options import RunOptions
from embodied.run.session import PROGRAM, Caller, Session, session
from embodied.run.setup import MakeAgent, MakeEnv

EPISODES, SUMMARY, VIDEOS = "episodes.jsonl", "summary.json", "videos"


def eval_only(
    make_agent: MakeAgent, make_env: MakeEnv, options: RunOptions, caller: Caller = PROGRAM
) -> None:
    """Run exactly `options.eval_eps` episodes over `options.eval_envs` environments.

    The folder `options.logdir` gets `episodes.jsonl` with a line per episode (`episode`, `env`,
    `score`, `length`, and `partial` if it was cut off), `summary.json` (`episodes`, `partial`, of
    the others `score_mean`, `score_std`, `length_mean`, and where the agent comes from), and
    `videos/`, if asked for. Files of an earlier evaluation in the same folder are replaced.

    Args:
      make_agent: Makes an agent that acts; neither a replay nor the state of an optimizer is
        needed.
      make_env: Makes the environment of an index; sent to worker processes.
      options: Options of the run.
      caller: What has started the script.

    Raises:
      FileNotFoundError: If `options.from_checkpoint` has no checkpoint.
      ValueError: If the checkpoint does not fit the agent.
      SystemExit: After a signal, with the exit code; episodes that were complete are kept.
    """
    with session(caller) as here:
        with here.phase("Building the agent"):
            agent = make_agent()
        source = _load(agent, options, here)
        with here.phase(f"Starting {environments(options.eval_envs)}"):
            evaluation = Evaluation(make_env, options, here)
        record = _Record(options, source, evaluation.is_partial)
        episodes = EpisodeLogger(None, int(options.eval.video))
        with here.loop(options.logdir):
            with here.heartbeat.activity("running episodes", record.progress):
                evaluation.run(agent, episodes, record.add)
            record.finish()


def _load(agent: Agent, options: RunOptions, here: Session) -> dict[str, Any]:
    """Load the agent; say where it comes from. An agent that acts at random needs no checkpoint."""
    if not options.from_checkpoint:
        return {"checkpoint": "", "step": 0}
    with here.phase(f"Loading the agent from {options.from_checkpoint}"):
        checkpoint = Checkpoint(Path(options.from_checkpoint))
        snapshot, states = checkpoint.read(options.from_checkpoint, ["agent"])
        agent.load(states["agent"])
    return {"checkpoint": str(snapshot.path), "step": snapshot.step}


class _Record:
    """Files of an evaluation."""

    def __init__(
        self, options: RunOptions, source: dict[str, Any], is_partial: Callable[[Episode], bool]
    ) -> None:
        self._options, self._source, self._is_partial = options, source, is_partial
        self._folder = Path(options.logdir)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._episodes: list[Episode] = []
        self._videos = 0
        (self._folder / EPISODES).write_text("")
        (self._folder / SUMMARY).unlink(missing_ok=True)

    def add(self, episode: Episode) -> None:
        """Write the line and the videos of an episode."""
        number = len(self._episodes)
        self._episodes.append(episode)
        line = {
            "episode": number,
            "env": episode.worker,
            "score": episode.score,
            "length": episode.length,
            **({"partial": True} if self._is_partial(episode) else {}),
        }
        with (self._folder / EPISODES).open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(
            f"Episode {number + 1} of {self._options.eval_eps}: score {episode.score:.4g}, "
            f"{episode.length:,} steps",
            flush=True,
        )
        for key, frames in episode.videos.items() if self._options.eval.video else ():
            self._videos += 1
            name = f"episode{number:05d}-{key.replace('/', '-')}"
            write_video(self._folder / VIDEOS / name, frames, self._options.fps)

    def progress(self) -> str:
        """Say how many episodes are over."""
        return f"{len(self._episodes)} of {self._options.eval_eps} episodes are over"

    def finish(self) -> None:
        """Write and print the summary."""
        whole = [episode for episode in self._episodes if not self._is_partial(episode)]
        scores = [episode.score for episode in whole]
        summary = {
            "episodes": len(self._episodes),
            "partial": len(self._episodes) - len(whole),
            "score_mean": float(np.mean(scores)) if scores else None,
            "score_std": float(np.std(scores)) if scores else None,
            "length_mean": float(np.mean([x.length for x in whole])) if scores else None,
            "mode": self._options.eval.mode,
            "seed": self._options.seed,
            **self._source,
        }
        (self._folder / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n")
        print(json.dumps(summary), flush=True)
        print(f"Episodes and summary are in {self._folder}.", flush=True)
        if self._options.eval.video and not self._videos:
            print("No video was written, as the environment shows no pictures.", flush=True)
