"""skops loads models with the types that are listed for it."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamgda import QuadraticDiscriminantAnalysis, scan_arrow
from streamgda.models.estimators import ESTIMATORS, SKOPS_TYPES, estimator_named

skops_io = pytest.importorskip("skops.io")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_skops_loads_models_by_trusted_types(name, exact):
    y = np.arange(90) % 3
    X = np.random.default_rng(0).normal(size=(90, 2)) + y[:, None]
    kind = estimator_named(name)
    if exact and "exact" not in kind._get_param_names():
        pytest.skip("it has no exact sums")
    model = kind(**({"exact": True} if exact else {})).fit(X, np.array(["a", "b", "c"])[y])
    loaded = skops_io.loads(skops_io.dumps(model), trusted=SKOPS_TYPES)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_skops_loads_a_pipeline_that_computes_features():
    table = pa.table({"x": np.arange(90.0), "colour": ["red", "blue", "red"] * 30, "y": np.arange(90) % 2})
    source = scan_arrow(table, "y").with_columns(x=pc.sqrt(pc.field("x")))
    pipeline = QuadraticDiscriminantAnalysis().fit(source).as_pipeline(source)
    loaded = skops_io.loads(skops_io.dumps(pipeline), trusted=SKOPS_TYPES)
    np.testing.assert_array_equal(loaded.predict_proba(table), pipeline.predict_proba(table))


def test_skops_loads_a_model_that_keeps_fourth_moments():
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = QuadraticDiscriminantAnalysis(shrinkage="auto").fit(X, np.arange(90) % 3)
    loaded = skops_io.loads(skops_io.dumps(model), trusted=SKOPS_TYPES)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
