"""Training: the loop, its log, checkpoints, and callbacks for `model.fit`."""
