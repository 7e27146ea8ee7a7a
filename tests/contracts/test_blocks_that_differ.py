"""The same rows, cut so that blocks have other categories, classes and nulls, or no row that counts."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import (
    Categorical,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    cross_validate,
    drift,
    evaluate,
    learning_curve,
    predict_dataset,
    scan_arrow,
    scan_dask,
    scan_parquet,
)
from streamgda.data.sources.base import FileSource

LDA, QDA = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
N = 60


def frames():
    """Two categories and classes; one of each; no row that counts; nulls, and another class."""
    rng = np.random.default_rng(0)
    cases = [(["a", "b"], [0, 1]), (["c"], [1]), (["d"], [9]), (["b", "c", None], [0, 1, 2])]
    for number, (categories, classes) in enumerate(cases):
        y, u, v = rng.choice(classes, N), *rng.normal(size=(2, N))
        u, v = u + y, v - y
        u[:9] = np.nan if number == 3 else 0
        c = rng.choice(np.array(categories, object), N)
        yield pd.DataFrame(
            {"c": c, "u": u, "v": v, "y": y, "g": np.arange(N) % 4, "w": np.full(N, float(number != 2))}
        )


def written(path, parts):
    """A file with a row group for each part."""
    with pq.ParquetWriter(path, table_of(parts).schema) as writer:
        for part in parts:
            writer.write_table(table_of([part]).cast(table_of(parts).schema))


def table_of(parts):
    return pa.Table.from_pandas(pd.concat(parts), preserve_index=False)


def files(folder, parts, **options):
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"{number}.parquet")
    return scan_parquet(folder, "y", **options)


def keys(folder, parts, **options):
    for part in parts:
        key = folder / f"c={part['c'].iloc[0]}"
        key.mkdir()
        part.drop(columns="c").to_parquet(key / "1.parquet")
    categories = Categorical(columns=["c"]) if "c" in options["features"] else "auto"
    return scan_parquet(folder, "y", categories=categories, **options)


def row_groups(folder, parts, **options):
    written(folder / "1.parquet", parts)
    return scan_parquet(folder, "y", **options)


def batches(folder, parts, **options):
    return scan_arrow(pa.Table.from_batches(table_of(parts).to_batches(N)), "y", **options)


def partitions(folder, parts, **options):
    return scan_dask(dd.concat([dd.from_pandas(part, npartitions=1) for part in parts]), "y", **options)


def one_block(folder, parts, **options):
    return row_groups(folder, [pd.concat(parts)], **options)


def states(source, folder, **own):
    for kind in ("full", "tied", "diag"):
        state = accumulate(source, kind)
        yield from (state.counts, state.means, state.scatter, [state.n_dropped])
        yield from (state.classes, state.feature_names)


def folds(source, folder, **own):
    search = StatisticsSearchCV(LDA(shrinkage=0.1, **own), {}, groups="g", cv=2).fit(source)
    for state in map(search.fold_statistics_.__getitem__, search.fold_statistics_.folds):
        yield from (state.counts, state.means, state.scatter, state.feature_names)


def searches(source, folder, **own):
    names = ["log_likelihood", "accuracy", "neg_log_loss", "neg_brier_score", "roc_auc", "f1_macro"]
    how = {"fold": "g", "scoring": names, "calibrate": "temperature"}
    search = StatisticsSearchCV(LDA(**own), {"shrinkage": [0.1, 0.5]}, refit="accuracy", **how).fit(source)
    yield from (v for name, v in search.cv_results_.items() if "test_" in name or name == "temperature")
    scores = cross_validate(QDA(shrinkage=0.5, **own), source, **how)
    yield from (values for name, values in scores.items() if "time" not in name)
    yield learning_curve(LDA(shrinkage=0.1, **own), source, fold="g", scoring="accuracy")[2]


def judged(source, folder, **own):
    models = LDA(shrinkage=0.1, **own).fit(source), QDA(shrinkage=0.5, **own).fit(source)
    for found in (evaluate(model, source) for model in models):
        yield from ([found.accuracy, found.log_loss], found.confusion_matrix, found.roc_auc)
    for model in models if "Dask" not in repr(source) else ():  # whose predictions are not written
        out = folder.with_name(f"{folder.name} {type(model).__name__}")
        predict_dataset(model, source, out)
        yield from pq.read_table(out).to_pandas().to_numpy().T


def mixtures(source, folder, **own):
    model = MixtureDiscriminantAnalysis(1, covariance_type="tied", shrinkage=0.1, **own).fit(source)
    yield from (model.means_, [evaluate(model, source).log_loss])


def night(source, folder, **own):
    """A refresh, and how far the rows lie from others."""
    total = accumulate(source, "diag")
    if isinstance(source, FileSource):
        ledger = StatisticsLedger(folder.with_name(f"{folder.name} ledger"), "diag")
        report, held = ledger.refresh(source), ledger.statistics()
        assert (report.rows, report.rows_dropped) == (held.n_rows, held.n_dropped)
        yield from ([held.n_rows, held.n_dropped], held.means)
    else:
        yield from ([total.n_rows, total.n_dropped], total.means)
    first = scan_arrow(table_of([next(frames())]), "y", features=list(source.feature_names))
    found = drift(accumulate(first, "diag"), total)
    yield from (found.new_classes, found.new_categories, found.to_pandas()["shift"])


@pytest.mark.slow_cases("partitions", "judged", "marginal", "searches-numbers", "keys-searches")
@pytest.mark.parametrize("missing", ["drop", "marginal"])
@pytest.mark.parametrize("features", [["c", "u", "v"], ["u", "v"]], ids=["categories", "numbers"])
@pytest.mark.parametrize("job", [states, folds, searches, judged, mixtures, night])
@pytest.mark.parametrize("way", [files, keys, row_groups, batches, partitions])
def test_every_pass_has_the_numbers_of_one_block(way, job, features, missing, tmp_path):
    own, found = {"missing": missing} if missing == "marginal" else {}, []
    parts = list(frames())
    if way is keys:  # which come in the order of their names
        parts = [part.assign(c=f"k{number}") for number, part in enumerate(parts)]
    for number, source_of in enumerate((way, one_block)):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = source_of(folder, parts, features=features, weight="w", missing=missing)
        found.append([np.asarray(numbers) for numbers in job(source, folder, **own)])
    for ours, theirs in zip(*found, strict=way is not partitions):
        if ours.dtype.kind in "biuf":
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        else:
            assert ours.tolist() == theirs.tolist()
