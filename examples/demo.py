"""Ten minutes to an agent that has learned something, without a GPU: `make demo`.

Trains a tiny agent on a game in tiny pictures, `embodied/envs/catch.py`: a basket has to be under
fruits that fall. Then prints its scores beside those of a random agent, draws the curve, and films
the agent and what its world model imagines.

    python examples/demo.py [FOLDER] [SEED]

Needs matplotlib and pillow: pip install -e '.[plot,images]'
"""

import pathlib
import sys

import matplotlib
import numpy as np
from evaluate_with_pictures import film

import dreamerv3
from embodied.envs.catch import Catch

matplotlib.use("Agg")  # Draws into a file, also where there is no display.
import matplotlib.pyplot as plt


def main(folder="~/logdir/demo", seed=0, steps=None, options=None):
    """Train, or continue, and show what was learned."""
    options = {"seed": seed, **(options or {})}
    run = dreamerv3.train(Catch, presets="demo", steps=steps, logdir=folder, options=options)
    steps, scores = run.scores
    game = Catch()
    figure = draw(steps, scores, game, pathlib.Path(run.logdir) / "demo.png")
    videos = film(run.logdir, run.logdir)
    first, last = scores[:10].mean(), scores[-10:].mean()
    print(
        f"\nFirst ten episodes: {first:.1f} points on average. Last ten: {last:.1f}. A random "
        f"agent gets {game.random_return:.0f}, one that follows every fruit {game.good_return:.1f}."
        f"\nCurve:  {figure}\nVideos: {videos[0]}\n        {videos[1]} (right: imagined after five "
        "frames, from the actions alone)"
    )
    return first, last


def draw(steps, scores, game, path):
    """Draw every episode, the mean over ten, and the levels to compare with."""
    plt.figure(figsize=(6, 3.5))
    plt.plot(steps, scores, ".", color="0.75", label="episodes")
    window = min(10, len(scores))
    mean = np.convolve(scores, np.ones(window) / window, "valid")
    plt.plot(steps[window - 1 :], mean, label=f"mean of {window}")
    plt.axhline(game.random_return, ls=":", color="tab:red", label="random agent")
    plt.axhline(game.good_return, ls="--", color="tab:green", label="follows every fruit")
    plt.xlabel("steps"), plt.ylabel("points per episode"), plt.legend()
    plt.savefig(path, dpi=150, bbox_inches="tight")
    return path


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
