"""Set-up of all tests: programs are compiled quickly rather than well, and compiled once."""

import contextlib
import os
import pathlib
import time

FAST_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false"
)
#: Compiled programs outlive the session. JAX finds them by what they compute, by its version and
#: by the flags, so that a change of the code never finds an old one. Old ones go.
PROGRAMS = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax-programs"

# Read by JAX when it is imported, here and in the programs that tests start.
os.environ.setdefault("XLA_FLAGS", FAST_COMPILATION)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(PROGRAMS))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
# Hundreds of programs would compile the package again, a third of the time that they take to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if "PYTEST_XDIST_WORKER" not in os.environ:
    for program in PROGRAMS.glob("*"):
        with contextlib.suppress(FileNotFoundError):  # Another session removes them, too.
            if program.stat().st_mtime < time.time() - 7 * 24 * 3600:
                program.unlink()
