"""Runs the doctor: `python -m dreamerv3.doctor`, which is `dreamerv3 doctor`."""

from dreamerv3.cli.doctor import main

if __name__ == "__main__":
    main()
