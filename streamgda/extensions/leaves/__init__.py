"""Leaves of trees as features, whose counts of pairs determine a ridge regression.

- `features`: `LeafFeatures`, a forest as a transformer. `rule`: rows of a state go through it.
- `state`: `LeafStatistics`. `counts`: what they hold, and how it is added, subtracted and compared.
- `solver`: the regressions. `classifier`: `LeafClassifier`, from one read.
"""
