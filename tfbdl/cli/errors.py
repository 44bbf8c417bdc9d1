"""Errors of commands."""


class NotSaved(Exception):
    """A result was shown but could not be saved; the message says why."""
