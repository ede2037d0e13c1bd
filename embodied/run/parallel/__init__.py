"""Training in several processes, on one or several machines; see docs/scripts.md.

`supervisor.py` starts the parts and ends them. The agent learns (`learner.py`) and chooses the
actions of the environments, each of which is a process (`policy_server.py`). So are the replay
(`replay_server.py`) and the logger (`log_server.py`), whose functions the agent calls (`rpc.py`).
All of them send each other values (`messages.py`, `encoding.py`).
"""
