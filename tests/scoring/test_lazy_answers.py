"""predict_dataset on Dask collections: lazy DataFrames with what the model says in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    predict_dataset,
    scan_dask,
)

MODELS = [GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianDiscriminantAnalysis]
NAMES = ["u", "v", "w"]
ALL = ("label", "probabilities", "log_density", "distance")

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # dask on pandas 3.1


def n_rows_of(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 3)) + kind[:, None], columns=NAMES)
    frame = frame.assign(note=[f"n{i}" for i in range(n_rows)], kind=np.array(["ant", "bee", "cow"])[kind])
    return frame.set_index(pd.Index(np.arange(n_rows) * 3, name="id"))


@pytest.fixture
def rows():
    return n_rows_of()


@pytest.fixture
def model(rows):
    return QuadraticDiscriminantAnalysis().fit(rows[NAMES], rows["kind"])


def check(scored, model, X):
    """Whether answers are those of the methods of the model."""
    assert (scored["predicted_label"].to_numpy() == model.predict(X)).all()
    names = [f"probability_{label}" for label in model.classes_]
    nearest = model.mahalanobis(X)[np.arange(len(X)), model.predict_proba(X).argmax(axis=1)]
    np.testing.assert_allclose(scored[names], model.predict_proba(X), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(scored["log_density"], model.score_samples(X), rtol=1e-12)
    np.testing.assert_allclose(scored["distance"], nearest, rtol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_frame_gives_a_lazy_frame_with_its_index(rows, model):
    fitted = model().fit(rows[NAMES], rows["kind"])
    turned = rows[["kind", "w", "note", "u", "v"]]
    lazy = predict_dataset(fitted, dd.from_pandas(turned, npartitions=4), columns=ALL, keep=["note", "u"])
    assert isinstance(lazy, dd.DataFrame)
    assert lazy.npartitions == 4
    scored = lazy.compute()
    assert list(lazy.columns) == list(scored.columns)
    assert lazy.dtypes.astype(str).tolist() == scored.dtypes.astype(str).tolist()
    assert scored.columns.tolist()[:3] == ["note", "u", "predicted_label"]
    assert scored.index.equals(rows.index)
    assert scored["note"].tolist() == rows["note"].tolist()
    check(scored, fitted, rows[NAMES])


@pytest.mark.parametrize("chunks", [(50, 2), (1000, 3)])
@pytest.mark.parametrize("known", [True, False])
def test_an_array_gives_a_lazy_frame(rows, chunks, known):
    X = rows[NAMES].to_numpy()
    model = LinearDiscriminantAnalysis().fit(X, rows["kind"])
    array = da.from_array(X, chunks=chunks)
    if not known:
        array = array[array[:, 0] > -100]
    lazy = predict_dataset(model, array, columns=ALL)
    check(lazy.compute(), model, X)
    if known:
        assert lazy.compute().index.tolist() == list(range(200))


def test_a_named_model_takes_arrays_and_an_unnamed_one_frames(rows, model):
    X = rows[NAMES].to_numpy()
    check(predict_dataset(model, da.from_array(X, chunks=(50, 3)), columns=ALL).compute(), model, rows[NAMES])
    unnamed = GaussianNB().fit(X, rows["kind"])
    frame = dd.from_pandas(rows[[*NAMES, "note"]], npartitions=3)
    check(predict_dataset(unnamed, frame, columns=ALL, keep=["note"]).compute(), unnamed, X)


def test_written_by_dask_and_read_again(rows, model, tmp_path):
    lazy = predict_dataset(model, dd.from_pandas(rows, npartitions=3), keep=["kind"])
    lazy.to_parquet(tmp_path / "out")
    assert pd.read_parquet(tmp_path / "out").equals(lazy.compute())


def test_partitions_without_rows_and_missing_values(rows):
    model = QuadraticDiscriminantAnalysis(missing="marginal").fit(rows[NAMES], rows["kind"])
    holed = rows.copy()
    holed.loc[holed.index[::7], "v"] = np.nan
    frame = dd.from_pandas(holed, npartitions=4)
    few = frame[frame["u"] > holed["u"].quantile(0.99)]
    scored = predict_dataset(model, few, columns=["label", "log_density"]).compute()
    expected = holed[holed["u"] > holed["u"].quantile(0.99)]
    assert scored["predicted_label"].tolist() == model.predict(expected[NAMES]).tolist()
    assert scored.index.equals(expected.index)
    np.testing.assert_allclose(scored["log_density"], model.score_samples(expected[NAMES]), rtol=1e-12)
    none = predict_dataset(model, frame[frame["u"] > 100], keep=["note"]).compute()
    assert none.shape == (0, 5)


def test_what_the_model_learns_later_changes_nothing(rows, model):
    lazy = predict_dataset(model, dd.from_pandas(rows, npartitions=2))
    before = lazy.compute()
    model.partial_fit(rows[NAMES] + 5, rows["kind"])
    assert lazy.compute().equals(before)


def test_on_a_cluster(rows, model, client):
    lazy = predict_dataset(model, dd.from_pandas(rows, npartitions=4), columns=ALL)
    assert lazy.compute(scheduler=client).equals(lazy.compute())


def test_integer_labels_and_flags_keep_their_type(rows):
    for y in (np.arange(200) % 3, np.arange(200) % 2 == 0):
        model = GaussianNB().fit(rows[NAMES], y)
        lazy = predict_dataset(model, dd.from_pandas(rows, npartitions=2), columns=["label"])
        assert lazy.dtypes["predicted_label"] == lazy.compute()["predicted_label"].dtype == y.dtype


# ---------------------------------------------------------------------- what is refused


def test_an_output_has_no_place_beside_a_lazy_one(rows, model, tmp_path):
    frame = dd.from_pandas(rows, npartitions=2)
    for out in ("out", "out.zarr"):
        with pytest.raises(ValueError, match=r"leave out out, .* to its compute\(\) or to_parquet\(\)"):
            predict_dataset(model, frame, tmp_path / out)
    for options in ({"progress": True}, {"scheduler": "threads"}):
        with pytest.raises(ValueError, match=r"leave out .* to its compute\(\) or to_parquet\(\)"):
            predict_dataset(model, frame, **options)
    with pytest.raises(TypeError, match="or a Dask collection, .* itself"):
        predict_dataset(model, scan_dask(frame, "kind", features=NAMES), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_columns_that_are_not_there(rows, model):
    frame = dd.from_pandas(rows, npartitions=2)
    with pytest.raises(ValueError, match=r"there is no column 'note2'; did you mean 'note'\?"):
        predict_dataset(model, frame, keep=["note2"])
    with pytest.raises(ValueError, match="the data frame: there is no column 'w'"):
        predict_dataset(model, frame[["u", "v"]])
    with pytest.raises(ValueError, match="'predicted_label' cannot be kept"):
        predict_dataset(model, frame.rename(columns={"note": "predicted_label"}), keep=["predicted_label"])
    unnamed = GaussianNB().fit(rows[NAMES].to_numpy(), rows["kind"])
    with pytest.raises(ValueError, match="5 columns besides those kept, and the model was fitted to 3"):
        predict_dataset(unnamed, frame)
    array = da.ones((10, 2), chunks=5)
    with pytest.raises(ValueError, match="X has 2 features"):
        predict_dataset(unnamed, array)
    with pytest.raises(ValueError, match="a dask array has no columns to keep"):
        predict_dataset(unnamed, da.ones((10, 3), chunks=5), keep=["u"])


def test_rows_that_cannot_be_judged_are_named_when_they_are_computed(rows, model):
    rows.loc[rows.index[3], "v"] = np.nan
    lazy = predict_dataset(model, dd.from_pandas(rows, npartitions=2))
    with pytest.raises(ValueError, match="row 3: feature 'v' is NaN or null"):
        lazy.compute()
    rows["v"] = 1e300
    with pytest.raises(ValueError, match="row 0 is too far from the classes"):
        predict_dataset(model, dd.from_pandas(rows, npartitions=2)).compute()
    with pytest.raises(ValueError, match="columns .v. hold text"):
        predict_dataset(model, dd.from_pandas(rows.assign(v="text"), npartitions=2))
