"""The command line: presets, checks, help, run folders, and the parts of a run from its config."""
