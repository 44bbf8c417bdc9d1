"""The UCI regressions on their published splits, by any method of the package."""
