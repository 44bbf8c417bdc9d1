"""Bayes by Backprop (Blundell et al. 2015): the notebook, pruning, the report, the bandit."""
