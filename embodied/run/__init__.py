"""Run scripts: the loops that tie environments, agent, replay and logs together."""
