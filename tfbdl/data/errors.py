"""The one error for data files that are missing, damaged or in another format."""


class DataError(ValueError):
    """Data that cannot be had: one line saying what is wrong and what to do about it."""
