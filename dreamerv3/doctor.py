"""Runs the doctor: `python -m dreamerv3.doctor`, which is `dreamerv3 doctor`."""

from dreamerv3.cli.doctor import main
from embodied.core.program import run_program

if __name__ == "__main__":
    run_program(main)
