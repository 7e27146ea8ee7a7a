"""The graph of a classifier: from rows to labels and probabilities, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.data.blocks.wording import listed
from streamgda.models.estimators import ESTIMATORS, estimator_named
from streamgda.models.estimators.formula import score_formula
from streamgda.models.estimators.reading import check_has_learnt

_ABSENT = -1e300  # the score of a class without density; a class of -inf alone would make NaN
_OPSET = 18


def register() -> None:
    """Let skl2onnx convert the fitted estimators of this package, also in a Pipeline.

    The graph computes in float64, also where rows and probabilities are float32. It has the priors, the
    temperature and the regularised covariances of the model. Labels are strings or integers, which
    stand for bools and floats too. Probabilities are NaN in a row with NaN, or too far from all classes.

    To convert a model with ``missing="marginal"`` or ``predictive="student"`` raises ValueError, and an
    unfitted one NotFittedError. Columns of text go through a ``OneHotEncoder`` before the model.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> import skl2onnx
    >>> import streamgda.onnx
    >>> streamgda.onnx.register()
    >>> X = np.array([[0.0], [2.0], [6.0], [10.0]])
    >>> model = streamgda.GaussianNB().fit(X, [0, 0, 1, 1])
    >>> graph = skl2onnx.to_onnx(model, X, options={"zipmap": False})
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> labels, probabilities = session.run(None, {"X": X})
    >>> labels.tolist()
    [0, 0, 1, 1]
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError('models become ONNX by skl2onnx: pip install "streamgda[onnx]"') from error

    options = {
        "zipmap": [True, False, "columns"],
        "output_class_labels": [False, True],
        "nocl": [True, False],
    }
    for name in ESTIMATORS:
        update_registered_converter(
            estimator_named(name), f"Streamgda{name}", _output_shapes, _convert, options=options
        )


def _output_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    check_has_learnt(operator.raw_operator)
    if encoded := operator.raw_operator.statistics_.schema.encoded:
        raise ValueError(
            f"ONNX takes numbers alone, and the model has learnt the values of {listed(encoded)}. Fit it "
            "after a step that encodes them, which skl2onnx converts too: make_pipeline("
            "make_column_transformer((OneHotEncoder(drop='first', sparse_output=False), columns), "
            "remainder='passthrough'), model)"
        )
    calculate_linear_classifier_output_shapes(operator)
    is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
    shape = operator.outputs[1].type.shape
    operator.outputs[1].set_type((DoubleTensorType if is_double else FloatTensorType)(shape=shape))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from onnx import TensorProto
    from onnx.numpy_helper import from_array
    from skl2onnx.common.data_types import DoubleTensorType

    def constant(values: Any) -> str:
        name = scope.get_unique_variable_name("constant")
        container.add_initializer(name, None, None, from_array(np.asarray(values), name))
        return str(name)

    def node(kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or scope.get_unique_variable_name(kind)
        name = scope.get_unique_operator_name(kind)
        container.add_node(kind, list(inputs), [output], name=name, op_version=_OPSET, **attributes)
        return str(output)

    formula = score_formula(operator.raw_operator, "ONNX")
    members, n_most = formula.members, max(map(len, formula.members))
    places = np.concatenate([np.resize(own, n_most) for own in members])  # as many parts in each class
    is_own = np.concatenate([np.arange(n_most) < len(own) for own in members])
    constants = np.maximum(np.where(is_own, formula.constants[places], -np.inf), _ABSENT)[:, None]
    rows = node("Cast", operator.inputs[0].full_name, to=TensorProto.DOUBLE)
    if formula.kind == "linear":
        deviations = node("Sub", rows, constant(formula.centres))
        terms = node("MatMul", deviations, constant(formula.matrices[:, places]))
        terms = node("Transpose", terms, perm=[1, 0])
    else:
        deviations = node("Sub", rows, constant(formula.centres[places][:, None]))
        if formula.mean_tails is not None:
            deviations = node("Sub", deviations, constant(formula.mean_tails[places][:, None]))
        is_full, matrices = formula.kind == "full", formula.matrices[places]
        factors = constant(matrices if is_full else matrices[:, None])
        whitened = node("MatMul" if is_full else "Mul", deviations, factors)
        squared = node("ReduceSumSquare", whitened, constant([2]), keepdims=0)
        terms = node("Mul", squared, constant(-0.5))
    scores = node("Add", terms, constant(constants))
    if n_most > 1:
        by_class = node("Reshape", scores, constant([len(members), n_most, -1]))
        scores = node("ReduceLogSumExp", by_class, constant([1]), keepdims=0)
    scores = node("Transpose", scores, perm=[1, 0])
    classes, labels = operator.raw_operator.classes_, scope.get_unique_variable_name("labels")
    if classes.dtype.kind in "OUT":
        texts = [label.encode() for label in classes.tolist()]
        container.add_initializer(labels, TensorProto.STRING, [len(texts)], texts)
    else:
        container.add_initializer(labels, TensorProto.INT64, [len(classes)], classes.astype(np.int64))
    best = node("ArgMax", scores, axis=1, keepdims=0)
    node("Gather", labels, best, output=operator.outputs[0].full_name)
    calibrated = node("Div", scores, constant(formula.temperature))
    probabilities = node("Softmax", calibrated, axis=1)
    is_double = isinstance(operator.outputs[1].type, DoubleTensorType)
    kind = TensorProto.DOUBLE if is_double else TensorProto.FLOAT
    node("Cast", probabilities, to=kind, output=operator.outputs[1].full_name)
