"""A pretrained network that knows when not to be trusted."""
