"""Command that looks into replay folders: `python -m embodied.replay inspect|export`."""
