"""Ridge regression of the classes from tied statistics, and random features, with which it is accurate.

- `classifier`: `RidgeClassifier`.
- `calibration`: probabilities from the scores of rows that a model has not learnt.
- `scores`: scores that are linear in the features.
- `path`: the regressions of all penalties.
- `rule`: `MappedRows`, by which rows go through a map before they are added up.
- `features`: `RandomFeatures`, the map.
"""
