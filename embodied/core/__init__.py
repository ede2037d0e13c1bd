"""Everything that works without JAX: interfaces, replay, driver, streams, logging, checkpoints."""
