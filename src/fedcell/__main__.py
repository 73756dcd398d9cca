"""The command `fedcell`, and `python -m fedcell`."""

import os

from fedcell.cli.signals import leaving_at_once

# Matrices here are small, and threads of a linear algebra that wait for each other while workers
# train make a fit of milliseconds take a second. Set before NumPy is loaded; yours stands.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Loads the command line, which takes a moment, and runs it."""
    with leaving_at_once():
        from fedcell.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
