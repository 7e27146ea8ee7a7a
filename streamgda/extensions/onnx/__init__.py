"""Models as ONNX graphs: `register` tells skl2onnx how to convert them. The extra ``onnx`` installs it.

`converters` writes the graph of any estimator in `streamgda.models.estimators.ESTIMATORS` from its
`streamgda.models.estimators.formula.ScoreFormula`. So a new estimator needs nothing here.
"""
