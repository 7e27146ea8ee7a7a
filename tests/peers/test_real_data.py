"""Real datasets: published figures reached, singular covariances met."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes
from sklearn.covariance import OAS

from streamgda import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, scan_parquet


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


@pytest.fixture(scope="module")
def shuttle(real_data):
    """Classes of 34,108 to 6 rows, one with a constant feature."""
    frame = pq.read_table(real_data / "shuttle_trn.parquet").to_pandas()
    return frame.drop(columns="class"), frame["class"]


def test_qda_on_shuttle_names_the_classes_and_features_that_are_singular(shuttle):
    X, y = shuttle
    assert y.value_counts().sort_index().tolist() == [34108, 37, 132, 6748, 2458, 6, 11]
    with pytest.raises(
        np.linalg.LinAlgError, match=r"class 2 .* rank 8 of 9, from 37 rows.*constant in it: 's3'"
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
