"""Records, as services send them: dicts that leave out keys."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, scan_arrow

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], 30)
FRAME = pd.DataFrame(RNG.normal(size=(60, 3)) + Y[:, None], columns=["a", "b", "c"])
MODELS = [GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis]


@pytest.mark.parametrize("kind", MODELS)
def test_a_key_that_is_left_out_is_missing(kind):
    model = kind(missing="marginal").fit(FRAME, Y)
    full = {"a": 0.5, "b": 0.1, "c": 0.2}
    for absent in (["b"], ["c", "a"], ["a", "b", "c"][:3]):
        record = {name: value for name, value in full.items() if name not in absent} or {"a": None}
        expected = model.predict_proba(pd.DataFrame([{**full, **dict.fromkeys(absent, np.nan)}]))
        for rows in (record, [record], json.loads(json.dumps(record)), {**full, **dict.fromkeys(absent)}):
            np.testing.assert_array_equal(model.predict_proba(rows), expected)
    several = [full, {"a": 0.5}]
    expected = model.predict_proba(pd.DataFrame(several))
    np.testing.assert_array_equal(model.predict_proba(several), expected)


def test_such_records_are_learnt_too():
    learn = [({"a": 1.0, "c": 0.5}, 0), ({"a": 1.5, "b": 2.0, "c": 0.0}, 1), ({"b": 1.0}, 1)]
    frames = [pd.DataFrame([record], columns=["a", "b", "c"]).astype(float) for record, _ in learn]
    ours, theirs = (GaussianNB(missing="marginal").fit(FRAME, Y) for _ in range(2))
    for (record, label), frame in zip(learn, frames, strict=True):
        ours.partial_fit(record, [label])
        theirs.partial_fit(frame, [label])
    assert ours.statistics_ == theirs.statistics_
    plain = GaussianNB().fit(FRAME, Y).partial_fit({"a": 1.0}, [0], missing="drop")
    assert (plain.statistics_.n_rows, plain.statistics_.n_dropped) == (60, 1)


def test_without_marginal_the_keys_and_the_remedy_are_named():
    model = GaussianNB().fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"leave out 'a', 'c'.*set_params\(missing='marginal'\)"):
        model.predict({"b": 1.0})
    with pytest.raises(ValueError, match=r"leave out 'b'.*missing='marginal'"):
        model.partial_fit([{"a": 1.0, "c": 1.0}], [0])
    with pytest.raises(ValueError, match="unseen at fit time:\\n- d"):  # and no key may be misspelt
        model.set_params(missing="marginal").predict({"a": 1.0, "d": 2.0})


def test_categories_and_computed_columns_may_be_left_out():
    shops = np.array(["north", "web", None], dtype=object)
    model = GaussianNB(missing="marginal").fit(FRAME.assign(shop=shops[np.arange(60) % 3]), Y)
    row = {"a": 0.5, "b": 0.1, "c": 0.2}
    expected = model.predict_proba({**row, "shop": None})
    np.testing.assert_array_equal(model.predict_proba(row), expected)
    source = scan_arrow(pa.table(FRAME).append_column("y", [Y]), "y", features=["a", "b"]).with_columns(
        double=pc.multiply(pc.field("c"), 2)
    )
    piped = GaussianNB(missing="marginal").fit(source)
    pipeline = piped.as_pipeline(source)
    expected = piped.predict_proba({"a": 0.5, "double": 0.4})
    np.testing.assert_array_equal(pipeline.predict_proba({"a": 0.5, "c": 0.2}), expected)
    np.testing.assert_array_equal(pipeline.predict_proba([{"a": 0.5, "b": None, "c": 0.2}]), expected)
    pipeline[-1].set_params(missing="raise")
    with pytest.raises(ValueError, match=r"leave out 'b'.*set_params\(missing='marginal'\)"):
        pipeline.predict({"a": 0.5, "c": 0.2})
    with pytest.raises(ValueError, match="'double' is NaN or null"):
        pipeline.predict({"a": 0.5, "b": 0.2})
