"""Training in several processes, on one or several machines; see docs/scripts.md.

`supervisor.py` starts the parts and ends them. `agent.py` acts (`actor.py`) and learns. Other
processes are environments (`env.py`), the replay (`replay_server.py`) and the logger
(`log_server.py`); messages are in `messages.py`, calls in `rpc.py`.
"""
