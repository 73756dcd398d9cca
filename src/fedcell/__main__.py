"""`python -m fedcell`."""

from fedcell.cli.main import main

main()
