"""The one error for data files that are missing, damaged or in another format."""


class DataError(ValueError):
    """Data that cannot be had: one line saying what is wrong and what to do about it.

    The message always ends with the way that needs no download, so that a reader without the
    files or without a network can go on.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}; or use --data digits, which needs no download"
