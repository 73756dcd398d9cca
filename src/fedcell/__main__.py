"""The command `fedcell`, and `python -m fedcell`."""

import os

from fedcell.cli.signals import exit_at_once


def main() -> None:
    """Import the command line, and run it."""
    # Matrices are small here, and the threads of a linear algebra library that wait for each other
    # while workers train make a fit of milliseconds take a second. Set for this process and its
    # workers before NumPy is imported, unless you have set it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with exit_at_once():
        from fedcell.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
