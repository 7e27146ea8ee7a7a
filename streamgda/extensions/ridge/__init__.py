"""Ridge regression of the classes from tied statistics, and random features, with which it is accurate.

- `random`: `RandomFeatureClassifier`, a ridge regression on random features.
- `classifier`: `RidgeClassifier`.
- `maps`: the rule by which rows go through a map. `rule`: that of random features. `sampled`: a sample of the
  rows beside a state.
- `scores`: scores that are linear in the features.
- `calibration`: probabilities from the scores of rows that a model has not learnt.
- `path`: the regressions of all penalties. `banded`: the matrix by which they are compared at little cost.
  `pytorch`: the same on a device.
- `features`: `RandomFeatures`, the map. `array_api`: the map on a device.
"""
