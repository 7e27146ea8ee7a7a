"""Each parameter of an estimator changes what a call gives, or is an error; those that do neither are listed.

A new parameter fails here until it has a value to be tried with, and what it does in each call is decided.
"""

import re
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import streamgda
from streamgda import LeafFeatures, RandomFeatures, cross_validate, evaluate, from_bytes, scan
from streamgda.models.estimators import ESTIMATORS

RNG = np.random.default_rng(0)
Y = np.arange(160) % 2
X = RNG.normal(size=(160, 3)) @ RNG.normal(size=(3, 3)) + Y[:, None] * [1.0, 0.5, 0.0]
BASE = {
    "RandomFeatureClassifier": {"features": RandomFeatures(20)},
    "LeafClassifier": {"features": LeafFeatures(3)},
    "MixtureDiscriminantAnalysis": {"subclasses": 1},
}
TRIED = {
    "alpha": 3.0,
    "calibration": None,
    "calibration_rows": 100,
    "covariance_model": "EII",
    "covariance_type": "tied",
    "features": RandomFeatures(10),
    "half_life": 5.0,
    "max_df": 0.01,
    "pooling": 0.7,
    "predictive": "student",
    "priors": [0.9, 0.1],
    "reg_param": 0.3,
    "scale": False,
    "shrinkage": 0.4,
    "subclasses": 2,
    "temperature": 2.0,
    "var_smoothing": 0.5,
}
TRIED_BY = {"LeafClassifier": {**TRIED, "alpha": 7.0, "features": LeafFeatures(3, 4)}}
NOT_TRIED = {  # they say which rows are read, end in an error, change other attributes, or only rounding
    *("categories", "covariance_estimator", "device", "exact", "missing", "n_components", "products"),
    *("singular", "solver", "store_covariance", "tol"),
}


def state_of(model):
    return type(model)(**BASE.get(type(model).__name__, {})).fit(X, Y).statistics_


CALLS = {
    "fit": lambda model: model.fit(X, Y).predict_proba(X),
    "partial_fit": lambda model: (
        model.partial_fit(X[:120], Y[:120]).partial_fit(X[120:], Y[120:]).predict_proba(X)
    ),
    "from_statistics": lambda model: (
        type(model).from_statistics(state_of(model), **model.get_params(deep=False)).predict_proba(X)
    ),
    "cross_validate": lambda model: cross_validate(model, X, Y, scoring="neg_log_loss")["test_score"],
}
WITHOUT_EFFECT = {  # which docstrings tell
    "fit": {"half_life"},  # all rows are of one age
    "partial_fit": {"subclasses", "calibration_rows"},  # a batch has too few rows
    "from_statistics": {"half_life", "calibration", "calibration_rows"},
    "cross_validate": {"half_life"},
}


MAPPED = ("RandomFeatureClassifier", "LeafClassifier")
PAIRS = set(product(ESTIMATORS, CALLS)) - set(product(MAPPED, ["cross_validate"]))  # which needs a map


@pytest.mark.parametrize(("name", "call"), sorted(PAIRS))
def test_a_parameter_has_an_effect(name, call):
    kind, base, tried = getattr(streamgda, name), BASE.get(name, {}), TRIED_BY.get(name, TRIED)
    plain, same = CALLS[call](kind(**base)), set()
    told = {"features", "subclasses"} if call == "from_statistics" else set()
    for parameter in set(kind().get_params(deep=False)) - NOT_TRIED - told:
        changed = CALLS[call](kind(**{**base, parameter: tried[parameter]}))
        same |= {parameter} if np.array_equal(changed, plain) else set()
    few = {"calibration_rows"} if name == "LeafClassifier" else set()  # an eighth of the rows
    assert same <= WITHOUT_EFFECT[call] | few


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_missing_value_is_an_error_with_a_remedy_that_the_model_has(name, tmp_path):
    kind, holed = getattr(streamgda, name), pd.DataFrame(X.copy(), columns=["u", "v", "w"])
    make = partial(kind, **BASE.get(name, {}))
    model = make().fit(holed, Y)
    holed.loc[7, "v"] = np.nan
    pq.write_table(pa.table(holed.assign(y=Y)), tmp_path / "a.parquet")
    source = scan(tmp_path / "a.parquet", "y")
    records = holed[:9].to_dict("records")
    records[7].pop("v")
    calls = [
        lambda: make().fit(holed, Y),
        lambda: make().fit(source),
        lambda: make().fit(scan(tmp_path / "a.parquet", "y", missing="marginal")),
        lambda: make().partial_fit(holed, Y),
        lambda: model.partial_fit(holed, Y),
        lambda: model.partial_fit(records, Y[:9]),
        lambda: model.predict(holed),
        lambda: model.predict(records),
        lambda: evaluate(model, source),
    ]
    takes = "missing" in kind().get_params()
    for call in calls:
        with pytest.raises(
            ValueError, match="'?v'? (is NaN or null|has no value|is missing)|no 'v'"
        ) as caught:
            call()
        assert ("missing='marginal'" in str(caught.value)) == takes, str(caught.value)
        assert ("SimpleImputer" in str(caught.value)) != takes, str(caught.value)
    if not takes:
        (remedy,) = re.findall(r"x=(pc.*)\)$", str(caught.value))
        of_v = remedy.replace("'x'", "'v'").replace("VALUE", "0.5")
        filled = source.with_columns(v=eval(of_v, {"pc": pc}))
        pipeline, row = make().fit(filled).as_pipeline(filled), {"u": 0.1, "v": None, "w": 0.2}
        again = from_bytes(pipeline.to_bytes())
        np.testing.assert_array_equal(again.predict_proba(row), pipeline.predict_proba({**row, "v": 0.5}))


def test_statistics_tell_how_rows_were_mapped_or_divided():
    for name, parameter, other in (
        ("RandomFeatureClassifier", "features", RandomFeatures(10)),
        ("LeafClassifier", "features", LeafFeatures(3, 4)),
        ("MixtureDiscriminantAnalysis", "subclasses", 1),
    ):
        kind, params = getattr(streamgda, name), {**BASE[name], "subclasses": 2}
        own = {key: value for key, value in params.items() if key in kind().get_params()}
        state = kind(**own).fit(X, Y).statistics_
        assert (
            kind.from_statistics(state, **own).statistics_ == state == kind.from_statistics(state).statistics_
        )
        with pytest.raises(ValueError, match=f"leave out {parameter}="):
            kind.from_statistics(state, **{parameter: other})
