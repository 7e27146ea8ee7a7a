"""Real datasets: published figures reached, singular covariances met."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes
from sklearn.covariance import OAS

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    scan_parquet,
)


@pytest.fixture(scope="module")
def covtype(real_data):
    table = pq.read_table(real_data / "covtype.parquet")
    y = table["cover_type"].to_numpy()
    return table.drop_columns(["cover_type"]).to_pandas().to_numpy(), y


def test_lda_on_covertype_scores_what_was_published(covtype):
    """Blackard & Dean (1999): 58.38 % on the 565,892 test rows. Constant and one-hot columns are singular."""
    X, y = covtype
    with pytest.warns(UserWarning, match=r"rank 50 of 54.*range of the covariance") as caught:
        model = LinearDiscriminantAnalysis().fit(X[:11_340], y[:11_340])
        score = model.score(X[15_120:], y[15_120:])
    assert len(caught) == 1
    assert len(y[15_120:]) == 565_892
    assert score == pytest.approx(0.5838, abs=1e-4)


@pytest.mark.slow
def test_the_pooled_covariance_of_all_of_covertype_has_rank_52(real_data):
    with pytest.warns(UserWarning, match="rank 52 of 54"):
        model = LinearDiscriminantAnalysis().fit(scan_parquet(real_data / "covtype.parquet", "cover_type"))
    assert model.statistics_.n_rows == 581_012


@pytest.mark.slow
def test_qda_on_a_singular_class_says_which(covtype):
    X, y = covtype
    with pytest.raises(np.linalg.LinAlgError) as caught:
        QuadraticDiscriminantAnalysis().fit(X, y)
    rank = np.linalg.matrix_rank(np.corrcoef(X[y == 1][:, X[y == 1].std(axis=0) > 0].T), tol=1e-10)
    message = str(caught.value)
    assert "class 1 is not full rank" in message
    assert f"It has rank {rank} of 54, from {np.sum(y == 1):,} rows" in message
    assert "leave out constant or collinear features" in message


@pytest.fixture(scope="module")
def shuttle(real_data):
    """Classes of 34,108 to 6 rows, one with a constant feature."""
    frame = pq.read_table(real_data / "shuttle_trn.parquet").to_pandas()
    return frame.drop(columns="class"), frame["class"]


def test_qda_on_shuttle_names_the_classes_and_features_that_are_singular(shuttle):
    X, y = shuttle
    assert y.value_counts().sort_index().tolist() == [34108, 37, 132, 6748, 2458, 6, 11]
    with pytest.raises(
        np.linalg.LinAlgError, match=r"class 2 .* rank 8 of 9, from 37 rows.*constant in it: 's3'\. Set"
    ):
        QuadraticDiscriminantAnalysis().fit(X, y)
    rest = y != 2
    with pytest.raises(np.linalg.LinAlgError, match="class 6 .* rank 5 of 9, from 6 rows.*no more rows than"):
        QuadraticDiscriminantAnalysis().fit(X[rest], y[rest])
    assert np.linalg.matrix_rank(np.cov(X[y == 6].T)) == 5


@pytest.mark.parametrize("params", [{"shrinkage": "auto"}, {"shrinkage": "oas"}, {"shrinkage": 0.1}])
def test_shrunk_qda_on_shuttle_as_scikit_learn(shuttle, real_data, params):
    X, y = shuttle
    ours = QuadraticDiscriminantAnalysis(store_covariance=True, **params).fit(
        scan_parquet(real_data / "shuttle_trn.parquet", "class")
    )
    if params["shrinkage"] == "oas":
        params = {"covariance_estimator": OAS()}
    theirs = sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis(
        solver="eigen", store_covariance=True, tol=0, **params
    )
    theirs.fit(X, y)
    for a, b in zip(ours.covariance_, theirs.covariance_, strict=True):
        assert (np.abs(a - b) <= 1e-8 * np.sqrt(np.outer(np.diag(b), np.diag(b)))).all()
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-4, atol=1e-7)


def test_regularised_qda_on_shuttle(shuttle, real_data):
    """scikit-learn's reg_param refuses classes with fewer rows than features; the formula does not."""
    X, y = shuttle
    ours = QuadraticDiscriminantAnalysis(reg_param=0.01, store_covariance=True).fit(X, y)
    for label, covariance in zip(ours.classes_, ours.covariance_, strict=True):
        expected = 0.99 * np.cov(X[y == label].T, bias=True) + 0.01 * np.eye(9)
        np.testing.assert_allclose(covariance, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    test = pq.read_table(real_data / "shuttle_tst.parquet").to_pandas()
    assert ours.score(test.drop(columns="class"), test["class"]) > 0.9
    with pytest.raises(np.linalg.LinAlgError, match="class 6"):
        sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.01).fit(X, y)


@pytest.mark.parametrize("shrinkage", ["auto", 0.5])
def test_shrunk_lda_on_covertype_as_scikit_learn(covtype, shrinkage):
    X, y = (part[:50_000] for part in covtype)
    ours = LinearDiscriminantAnalysis("lsqr", shrinkage).fit(X, y)
    theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
    theirs.fit(X.astype(float), y)
    roots = np.sqrt(np.diag(theirs.covariance_))
    assert (np.abs(ours.covariance_ - theirs.covariance_) <= 1e-8 * np.outer(roots, roots)).all()


@pytest.mark.slow_cases("Quadratic")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (GaussianNB, sklearn.naive_bayes.GaussianNB),
        (LinearDiscriminantAnalysis, sklearn.discriminant_analysis.LinearDiscriminantAnalysis),
        (QuadraticDiscriminantAnalysis, sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis),
    ],
)
def test_letters_out_of_core_as_in_memory(real_data, ours, theirs):
    frame = pq.read_table(real_data / "letter.parquet").to_pandas()
    y, X = frame.pop("letter").to_numpy().astype(str), frame
    streamed = ours().fit(scan_parquet(real_data / "letter.parquet", "letter"))
    reference = theirs().fit(X, y)
    assert streamed.classes_.tolist() == [chr(code) for code in range(ord("A"), ord("Z") + 1)]
    np.testing.assert_allclose(streamed.predict_proba(X), reference.predict_proba(X), rtol=1e-6, atol=1e-10)
    assert streamed.score(X, y) == reference.score(X, y)


def test_shuttle_from_two_files_is_one_dataset(real_data, tmp_path):
    paths = [real_data / "shuttle_trn.parquet", real_data / "shuttle_tst.parquet"]
    together = accumulate(scan_parquet(paths, "class"))
    parts = [accumulate(scan_parquet(path, "class")) for path in paths]
    assert together.allclose(parts[0] + parts[1])
    assert (together - parts[1]).allclose(parts[0], rtol=1e-7)
    pq.write_table(pa.concat_tables(map(pq.read_table, paths)), tmp_path / "1.parquet")
    assert together.allclose(accumulate(scan_parquet(tmp_path / "1.parquet", "class")))
