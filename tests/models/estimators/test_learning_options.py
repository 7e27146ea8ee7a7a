"""What `fit` and `partial_fit` take beside rows: what to do about missing values, where to run, progress."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest

from streamgda import GaussianNB, scan_arrow

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), np.array(["ant", "bee"] * 30, dtype=object)
HOLES, UNLABELLED = X.copy(), Y.copy()
HOLES[3, 1], HOLES[7, 0], UNLABELLED[11] = np.nan, np.inf, None
WHOLE = np.setdiff1d(np.arange(60), [3, 7, 11])


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_rows_with_missing_values_are_dropped_and_counted(model, learn):
    learnt = getattr(model(), learn)(HOLES, UNLABELLED, missing="drop")
    expected = model().fit(X[WHOLE], Y[WHOLE])
    assert learnt.statistics_.allclose(expected.statistics_, rtol=1e-12)
    assert learnt.statistics_.n_dropped == 3
    learnt.partial_fit(HOLES, UNLABELLED, missing="drop")
    assert (learnt.statistics_.n_rows, learnt.statistics_.n_dropped) == (2 * len(WHOLE), 6)
    with pytest.raises(ValueError, match="row 3: feature 1 is NaN"):
        learnt.partial_fit(HOLES, Y)
    with pytest.raises(ValueError, match="missing must be"):
        learnt.partial_fit(X, Y, missing="ignore")
    assert learnt.statistics_.n_rows == 2 * len(WHOLE)


def test_nothing_is_left_when_all_rows_are_dropped():
    model = GaussianNB()
    with pytest.raises(ValueError, match=r"it was dropped \(60 rows\)"):
        model.fit(np.full_like(X, np.nan), Y, missing="drop")
    assert not hasattr(model, "statistics_")


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_pass_runs_where_it_is_told_to(learn):
    source = scan_arrow(pa.table({"a": X[:, 0], "b": X[:, 1], "kind": Y.tolist()}), "kind")
    learnt = getattr(GaussianNB(), learn)(source, scheduler="synchronous", progress=True)
    assert learnt.statistics_.allclose(GaussianNB().fit(source).statistics_, rtol=0)
    rows = da.from_array(HOLES, chunks=(20, 2))
    lazily = getattr(GaussianNB(), learn)(
        rows, da.from_array(Y, chunks=20), missing="drop", scheduler="threads"
    )
    assert lazily.statistics_.n_dropped == 2
    with pytest.raises(ValueError, match="Expected one of .*threads"):
        getattr(GaussianNB(), learn)(source, scheduler="nosuch")
    with pytest.raises(ValueError, match="say missing='drop' where the source is scanned"):
        getattr(GaussianNB(), learn)(source, missing="drop")
