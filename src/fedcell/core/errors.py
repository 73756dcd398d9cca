"""What goes wrong, in sentences: each message names the culprit and the way out."""


class FedcellError(Exception):
    """Base of every error that fedcell raises on purpose."""


class BadInput(FedcellError, ValueError):  # noqa: N818
    """A file, an option or an array that cannot be used; one line per fault."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class FedcellWarning(UserWarning):
    """Something that a user should know and that does not stop the work."""
