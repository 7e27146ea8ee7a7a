"""What a type checker sees of the calls in the guides: mypy and pyright read this file, and nothing runs it.

A line that ignores an error is a mistake that they find, since both report what is ignored in vain. pyright
alone finds the last two: base classes of scikit-learn have no types, which lets mypy take any attribute.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray

from streamgda import (
    ClassStatistics,
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    StatisticsLedger,
    StatisticsSearchCV,
    WindowedStatistics,
    accumulate,
    cross_validate,
    drift,
    estimate_priors,
    evaluate,
    load_model,
    load_statistics,
    predict_dataset,
    scan,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.sources.base import Source
from streamgda.data.sources.files.parquet import ParquetSource
from streamgda.data.sources.zarr import ZarrSource
from streamgda.jobs.ledger.drift import DriftReport, RefreshReport
from streamgda.jobs.scoring.label_shift import PriorEstimate
from streamgda.jobs.scoring.outputs.base import PredictionSummary
from streamgda.models.estimators.pipeline import ModelPipeline
from streamgda.statistics.base import Statistics

Floats = NDArray[np.float64]

X = np.zeros((4, 2))
y = ["a", "b", "a", "b"]
source = scan_parquet("flowers", "kind", features=["length"], filters=[("width", "<", 2.0)])
statistics = accumulate(source, "diag", exact=True, scheduler="threads", progress=True)
model = QuadraticDiscriminantAnalysis(reg_param=0.1, pooling="bayes", predictive="student")

assert_type(source, ParquetSource)
assert_type(source.split(test=0.2, by="patient"), tuple[ParquetSource, ParquetSource])
assert_type(source.map(np.sqrt, features=["root"]), Source)
assert_type(scan([Path("a.csv"), Path("b.csv")], target="kind"), ParquetSource)
assert_type(scan_zarr("flowers.zarr"), ZarrSource)

assert_type(statistics, Statistics)
assert_type(statistics + statistics, Statistics)
assert_type(statistics.means, Floats)
assert_type(ClassStatistics("tied").update({"length": 1.0}, ["a"]), ClassStatistics)
assert_type(WindowedStatistics(2).statistics, Statistics)

assert_type(model.fit(source), QuadraticDiscriminantAnalysis)
assert_type(model.fit(X, y, sample_weight=[1, 2, 1, 1]), QuadraticDiscriminantAnalysis)
assert_type(model.fit(pd.DataFrame(X), pd.Series(y)), QuadraticDiscriminantAnalysis)
assert_type(model.fit(pl.DataFrame(X), pl.Series(y)), QuadraticDiscriminantAnalysis)
assert_type(model.partial_fit({"length": 1.4}, ["setosa"]), QuadraticDiscriminantAnalysis)
assert_type(model.merge(statistics), QuadraticDiscriminantAnalysis)
assert_type(model.set_params(reg_param=0.2), QuadraticDiscriminantAnalysis)
assert_type(LinearDiscriminantAnalysis.from_statistics(statistics), LinearDiscriminantAnalysis)
assert_type(MixtureDiscriminantAnalysis({"a": 2}).fit(source).subclass_means_, Floats)
assert_type(RandomFeatureClassifier(features=500).fit(X, y).validation_error_, float)

assert_type(model.predict([{"length": 1.4}]), NDArray[Any])
assert_type(model.predict_proba(pd.DataFrame(X)), Floats)
assert_type(model.mahalanobis({"length": 1.4}), Floats)
assert_type(model.means_, Floats)
assert_type(model.score(X, y), float)
assert_type(model.sample(10), tuple[Floats, NDArray[Any]])
assert_type(model.as_pipeline(source), ModelPipeline)
assert_type(model.to_sql("flowers", "duckdb"), str)
assert_type(model.to_bytes(), bytes)
assert_type(load_model("model.parquet").predict(X), NDArray[Any])
assert_type(load_statistics("state.parquet"), Statistics)

assert_type(evaluate(model, source), Evaluation)
assert_type(evaluate(model, X, y).accuracy, float)
assert_type(evaluate(model, source).conformal_quantile(0.9), float | Floats)
assert_type(predict_dataset(model, "flowers", "scored", columns=["label"]), PredictionSummary)
assert_type(estimate_priors(GaussianNB(), X), PriorEstimate)
assert_type(drift(statistics, statistics), DriftReport)
assert_type(cross_validate(model, source, scoring="accuracy"), dict[str, Floats])
assert_type(StatisticsSearchCV(model, {"reg_param": [0, 0.1]}).fit(source).best_params_, dict[str, Any])
assert_type(StatisticsLedger("ledger", folds=5).refresh("flowers", max_shift=0.8), RefreshReport)
assert_type(StatisticsLedger("ledger").statistics({"monday.parquet": 0.5}), Statistics)

QuadraticDiscriminantAnalysis(pooling="bayesian")  # type: ignore
QuadraticDiscriminantAnalysis(0.1, shrinkage="ledoit")  # type: ignore
ClassStatistics(covariance="tied")  # type: ignore
scan_parquet("flowers", features=[1])  # type: ignore
accumulate(source, "spherical")  # type: ignore
predict_dataset(model, "flowers", "scored", columns=["labels"])  # type: ignore
StatisticsLedger("ledger").refresh("flowers", on_error="ignore")  # type: ignore
QuadraticDiscriminantAnalysis(reg_parm=0.1)  # pyright: ignore
model.fitted()  # pyright: ignore
