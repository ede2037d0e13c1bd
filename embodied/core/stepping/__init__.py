"""How N environments are stepped together: in this process, in worker processes, as one batch."""
