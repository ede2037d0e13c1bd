"""The DreamerV3 agent and its command line.

`main.py` runs experiments, `factories.py` builds their parts from a config, `agent.py` is the
agent.
"""
