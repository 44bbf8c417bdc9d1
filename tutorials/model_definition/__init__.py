"""What a Bayesian neural network assumes, and what it then predicts."""
