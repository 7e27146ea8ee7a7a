"""Thresholds, costs and the best labels, beside scikit-learn's thresholds and the definition."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import FixedThresholdClassifier

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    evaluate,
    predict_dataset,
    scan_parquet,
)

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 2000)
FRAME = pd.DataFrame(RNG.normal(size=(2000, 3)) + 0.7 * np.eye(3)[Y], columns=list("uvw"))
KINDS = np.array(["ant", "bee", "cow"])
COSTS = np.array([[0.0, 1.0, 20.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0]])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    FRAME.assign(kind=KINDS[Y]).to_parquet(path, row_group_size=700)
    return path


@pytest.fixture(scope="module")
def model():
    return LinearDiscriminantAnalysis().fit(FRAME, KINDS[Y])


def test_the_best_labels_are_in_the_order_of_their_probabilities(path, model, tmp_path):
    source = scan_parquet(path, "kind")
    predict_dataset(model, source, tmp_path / "scored", columns=["label", "distance"], top=3)
    found = pq.read_table(tmp_path / "scored").to_pandas()
    names = ["predicted_label", "predicted_label_2", "predicted_label_3"]
    assert list(found) == [*names, "distance"]
    expected = model.classes_[np.argsort(-model.predict_proba(FRAME), axis=1)]
    assert (found[names].to_numpy() == expected).all()
    assert (found["predicted_label"] == model.predict(FRAME)).all()
    assert predict_dataset(model, source, tmp_path / "scored", columns=["label"], top=2).n_found == 0
    assert predict_dataset(model, source, tmp_path / "scored", columns=["label"], top=2).n_found == 1
    assert predict_dataset(model, source, tmp_path / "scored", columns=["label"]).n_found == 0
    predict_dataset(model, source, tmp_path / "scored.zarr", columns=["label"], top=2)
    group = zarr.open_group(tmp_path / "scored.zarr", mode="r")
    assert (group["predicted_label_2"][:] == expected[:, 1]).all()


@pytest.mark.parametrize("options", [{}, {"costs": COSTS}], ids=["likeliest", "costs"])
def test_reasons_are_the_strongest_contributions_to_the_predicted_class(tmp_path, options):
    frame = FRAME.assign(shape=RNG.choice(["flat", "round"], len(FRAME)), day=pd.Timestamp("2026-01-01"))
    frame["day"] += pd.to_timedelta(RNG.integers(0, 300, len(FRAME)), "D")
    lists = pa.table({"emb": pa.array(frame[["u", "v"]].to_numpy().tolist(), pa.list_(pa.float64(), 2))})
    table = pa.Table.from_pandas(frame.drop(columns=["u", "v"])).append_column("emb", lists["emb"])
    pq.write_table(
        table.append_column("kind", pa.array(KINDS[Y])), tmp_path / "rows.parquet", row_group_size=700
    )
    source = scan_parquet(tmp_path / "rows.parquet", "kind", categories="auto")
    model = GaussianNB().fit(source)
    how = {"columns": ["label", "reasons"], "top": 3, **options}
    predict_dataset(model, source, tmp_path / "scored", **how)
    assert predict_dataset(model, source, tmp_path / "scored", **how).n_found == 1
    found = pq.read_table(tmp_path / "scored").to_pandas()
    names = ["reason_1", "contribution_1", "reason_2", "contribution_2", "reason_3", "contribution_3"]
    assert list(found)[-6:] == names
    rows = pq.read_table(tmp_path / "rows.parquet").drop(["kind"]).to_pandas()
    logs = pd.DataFrame(model.predict_log_proba(rows), columns=model.classes_)
    for label, own in found.groupby("predicted_label"):
        others = logs.loc[own.index].drop(columns=label).idxmax(axis=1)
        for other, of_pair in own.groupby(others):
            values, _ = model.contributions(rows.iloc[of_pair.index], label, other)
            sums = pd.DataFrame(values, of_pair.index, model.feature_names_in_)
            sums = sums.T.groupby(lambda name: name.split("_")[0]).sum().T
            order = np.argsort(-abs(sums.to_numpy()), axis=1)[:, :3]
            assert (sums.columns.to_numpy()[order] == of_pair[names[::2]].to_numpy()).all()
            strongest = np.take_along_axis(sums.to_numpy(), order, axis=1)
            np.testing.assert_allclose(of_pair[names[1::2]], strongest, rtol=1e-9)
    predict_dataset(model, source, tmp_path / "scored.zarr", **how)
    group = zarr.open_group(tmp_path / "scored.zarr", mode="r")
    for name in names:
        assert (group[name][:] == found[name].to_numpy()).all()


def test_a_threshold_decides_as_scikit_learns(path, tmp_path):
    kinds = np.where(Y == 0, "ant", "bee")
    two = GaussianNB().fit(FRAME, kinds)
    theirs = two.predict_proba(FRAME)[:, 1]
    for threshold in (0.0, 0.2, float(theirs[17]), 0.9, 1.0):
        expected = FixedThresholdClassifier(FrozenEstimator(two), threshold=threshold).fit(FRAME, kinds)
        expected = expected.predict(FRAME)
        evaluation = evaluate(two, FRAME, kinds, threshold=threshold)
        assert evaluation.accuracy == pytest.approx((expected == kinds).mean())
        predict_dataset(two, path, tmp_path / "scored", columns=["label"], threshold=threshold)
        assert (pq.read_table(tmp_path / "scored")["predicted_label"].to_numpy() == expected).all()


@pytest.mark.parametrize("pos_label", ["ant", "bee"])
def test_a_threshold_is_of_the_positive_class(path, tmp_path, pos_label):
    kinds = np.where(Y == 0, "ant", "bee")
    two = GaussianNB().fit(FRAME, kinds)
    theirs = FixedThresholdClassifier(FrozenEstimator(two), threshold=0.1, pos_label=pos_label)
    expected, options = theirs.fit(FRAME, kinds).predict(FRAME), {"threshold": 0.1, "pos_label": pos_label}
    evaluation = evaluate(two, FRAME, kinds, **options)
    assert evaluation.accuracy == pytest.approx((expected == kinds).mean())
    assert evaluation.pos_label == pos_label
    for _ in range(2):
        written = predict_dataset(two, path, tmp_path / "scored", columns=["label"], **options)
        assert (pq.read_table(tmp_path / "scored")["predicted_label"].to_numpy() == expected).all()
    assert written.n_found == 1
    of_the_second = predict_dataset(two, path, tmp_path / "scored", columns=["label"], threshold=0.1)
    assert of_the_second.n_found == (pos_label == "bee")


def test_a_threshold_of_one_of_many_classes_leaves_the_others_as_they_are(model):
    probabilities = model.predict_proba(FRAME)
    others = np.where(probabilities[:, 0] > probabilities[:, 1], "ant", "bee")
    expected = np.where(probabilities[:, 2] >= 0.1, "cow", others)
    evaluation = evaluate(model, FRAME, KINDS[Y], threshold=0.1, pos_label="cow")
    assert evaluation.confusion_matrix.tolist() == confusion_matrix(KINDS[Y], expected).tolist()
    assert evaluation.recall[2] > evaluate(model, FRAME, KINDS[Y]).recall[2]


def test_costs_are_least_where_they_decide(path, model, tmp_path):
    evaluations = [evaluate(model, scan_parquet(path, "kind"), costs=costs) for costs in (COSTS, None)]
    paid, unaware = (float((found.confusion_matrix * COSTS).sum() / found.weight) for found in evaluations)
    assert paid < 0.8 * unaware
    assert evaluations[0].log_loss == evaluations[1].log_loss  # probabilities are as they were
    predict_dataset(model, path, tmp_path / "scored", columns=["label"], costs=COSTS, keep=["kind"])
    table = pq.read_table(tmp_path / "scored").to_pandas()
    cheapest = (model.predict_proba(FRAME) @ COSTS).argmin(axis=1)
    assert (table["predicted_label"] == model.classes_[cheapest]).all()
    agrees = (table["predicted_label"] == table["kind"]).mean()
    assert evaluations[0].accuracy == pytest.approx(agrees)


def test_a_class_that_the_model_does_not_know_is_never_predicted(model):
    evaluation = evaluate(model, FRAME, np.where(Y == 2, "aardvark", KINDS[Y]), costs=COSTS)
    assert evaluation.confusion_matrix[:, 0].sum() == 0
    assert evaluation.classes.tolist() == ["aardvark", "ant", "bee", "cow"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.5}, "give pos_label, one of 'ant', 'bee', 'cow'"),
        ({"threshold": 5, "pos_label": "ant"}, "threshold is a probability, from 0 to 1; got 5"),
        ({"threshold": 0.5, "pos_label": "dog"}, "'dog' is none of the classes: 'ant'"),
        ({"costs": np.eye(2)}, r"shape \(3, 3\); got \(2, 2\)"),
        ({"costs": np.full((3, 3), np.nan)}, "NaN or infinite"),
        ({"threshold": 0.5, "costs": COSTS}, "give one of them"),
    ],
)
def test_decisions_that_the_model_cannot_make_are_refused(path, model, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(model, FRAME, KINDS[Y], **options)
    with pytest.raises(ValueError, match=message):
        predict_dataset(model, path, tmp_path / "scored", **options)


def test_top_is_a_number_of_labels(path, model, tmp_path):
    for top in (4, 0):
        with pytest.raises(ValueError, match=f"top is a number of labels, from 1 to 3; got {top}"):
            predict_dataset(model, path, tmp_path / "scored", columns=["label"], top=top)
    with pytest.raises(ValueError, match="top is a number of labels and reasons, from 1 to 3; got 4"):
        predict_dataset(model, path, tmp_path / "scored", columns=["label", "reasons"], top=4)
    with pytest.raises(ValueError, match="contributions are those of classes that are no mixtures"):
        mixture = MixtureDiscriminantAnalysis(2).fit(FRAME, KINDS[Y])
        predict_dataset(mixture, path, tmp_path / "scored", columns=["reasons"])
    with pytest.raises(ValueError, match="top=2 writes labels, so columns must have 'label'"):
        predict_dataset(model, path, tmp_path / "scored", columns=["distance"], top=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.5, "pos_label": "ant"}, "choose labels, so columns must have 'label'"),
        ({"costs": COSTS}, "choose labels, so columns must have 'label'"),
        ({"pos_label": "ant"}, "give threshold too"),
    ],
)
def test_what_would_choose_no_label_is_refused(path, model, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        predict_dataset(model, path, tmp_path / "scored", columns=["probabilities"], **options)


def test_columns_to_keep_are_a_list(path, model, tmp_path):
    with pytest.raises(ValueError, match="keep must be a list of column names; got the string 'kind'"):
        predict_dataset(model, path, tmp_path / "scored", keep="kind")
