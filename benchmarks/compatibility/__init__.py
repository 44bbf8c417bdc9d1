"""Which models of others go through which part of the package."""
