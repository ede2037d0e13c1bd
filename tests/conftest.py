"""Set-up of all tests: programs are compiled quickly rather than well, and compiled once."""

import os
import tempfile

FAST_COMPILATION = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

# Read by JAX when it is imported, here and in the programs that tests start.
os.environ.setdefault("XLA_FLAGS", FAST_COMPILATION)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="jax-cache-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
