"""The command `fedcell`, and `python -m fedcell`."""

from fedcell.cli.signals import leaving_at_once


def main() -> None:
    """Loads the command line, which takes a moment, and runs it."""
    with leaving_at_once():
        from fedcell.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
