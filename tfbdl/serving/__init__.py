"""Models that answer with their uncertainty, as files for processes without this package."""

from tfbdl.serving.exporting import export

__all__ = ["export"]
