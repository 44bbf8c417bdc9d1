"""Which network? By the marginal likelihood of the training data."""
