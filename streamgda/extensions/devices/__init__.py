"""Rows that lie on a device, such as a GPU, are learnt and scored there, by the array API standard.

In come arrays of PyTorch, CuPy and JAX, where scikit-learn's `array_api_dispatch` is on. A batch becomes
moments where it lies, in float64; the state that they go into is NumPy's. Scores come from a model's
`ScoreFormula`, and stay on the device. `rows` has what is learnt, and `scores` what a model answers. The core
finds them by name in `streamgda.models.estimators.DEVICES`.
"""
