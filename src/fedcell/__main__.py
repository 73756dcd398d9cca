"""`python -m fedcell`."""

from .cli import main

main()
