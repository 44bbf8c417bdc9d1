"""The errors by which a command fails."""


class NotSaved(Exception):
    """A result was shown but could not be saved; the message says why."""
