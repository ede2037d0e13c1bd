"""Train several seeds and draw them in one figure, with their mean and spread.

    python examples/several_seeds.py

Needs matplotlib: pip install -e '.[plot]'
"""

import pathlib

import dreamerv3
from scores.plot import main as plot
from scores.table import main as table


def main(folder="~/logdir/several_seeds", seeds=3, steps=4_000, options=None):
    """Train one after the other. Run again, it continues where it was stopped."""
    folder = pathlib.Path(folder).expanduser()
    for seed in range(seeds):
        dreamerv3.train(
            "embodied.envs.catch:Catch",
            presets="demo",
            steps=steps,
            logdir=folder / f"seed{seed}",
            options={"seed": seed, "method": "dreamerv3", **(options or {})},
        )
    figure = folder / "curves.png"
    plot([str(folder), "--out", str(figure)])
    table([str(folder)])
    return figure


if __name__ == "__main__":
    main()
