"""What sparse rows save beside dense ones, and what a read of text costs beside scikit-learn out of core.

Run as ``python -m bench.sparse``. The text is generated: a document has words of Zipf's law, and a share of
0.15 from the twentieth of the vocabulary that its topic prefers. All contenders hash the same column of
Parquet to the same number of features. scikit-learn's `GaussianNB` takes dense rows alone. A refresh adds a
file of a tenth as many rows to those that are learnt, and ends with a model.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
from sklearn import naive_bayes
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from bench import report
from bench.arguments import parser_of
from bench.contest import Contender, cells, contest, median_time
from streamgda import (
    ClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    RidgeClassifier,
    StatisticsLedger,
    scan_parquet,
)

_VOCABULARY, _TOPICS, _WORDS = 20_000, 20, 40


def documents(rng: np.random.Generator, n_rows: int) -> pa.Table:
    """Texts and their topics."""
    topics = rng.integers(_TOPICS, size=n_rows)
    words = np.minimum(rng.zipf(1.2, size=(n_rows, _WORDS)), _VOCABULARY) - 1
    preferred = rng.integers(_VOCABULARY // _TOPICS, size=words.shape) * _TOPICS + topics[:, None]
    words = np.where(rng.random(words.shape) < 0.15, preferred, words)
    names = np.array([f"word{i}" for i in range(_VOCABULARY)])
    return pa.table({"text": [" ".join(row) for row in names[words]], "topic": topics})


def written(folder: Path, n_rows: int, n_files: int) -> Path:
    """A folder of Parquet, with rows to test with and new rows in files beside it."""
    rng = np.random.default_rng(0)
    (folder / "documents").mkdir(parents=True)
    for i in range(n_files):
        pq.write_table(documents(rng, n_rows // n_files), folder / "documents" / f"{i:03}.parquet")
    for name in ("test", "new"):
        pq.write_table(documents(rng, max(n_rows // 10, 200)), folder / f"{name}.parquet")
    return folder


def by_streamgda(model: Any, folder: Path, n_features: int) -> Callable[[], Any]:
    """Fit a model to the hashed column in one read."""
    hashes = HashingVectorizer(n_features=n_features)
    return lambda: model.fit(
        scan_parquet(folder / "documents", "topic", features=["text"]).map(hashes), scheduler="synchronous"
    )


def by_scikit_learn(model: Any, folder: Path, n_features: int, n_reads: int = 1) -> Callable[[], Any]:
    """Learn the hashed column file by file, as often as `n_reads` says."""

    def learn() -> Any:
        for X, y in _batches(n_reads * sorted((folder / "documents").iterdir()), n_features):
            dense = isinstance(model, naive_bayes.GaussianNB)
            model.partial_fit(X.toarray() if dense else X, y, classes=np.arange(_TOPICS))
        return model

    return learn


def by_a_ledger(model: Any, folder: Path, n_features: int) -> Callable[[], Any]:
    """Learn a new file by a ledger of the others, and make the model of all."""
    own, hashes = folder / "ledger", HashingVectorizer(n_features=n_features)
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(folder / "documents", own / "documents")
    source = scan_parquet(own / "documents", "topic", features=["text"]).map(hashes)
    ledger = StatisticsLedger(own / "states", covariance_type="tied")
    ledger.refresh(source, scheduler="synchronous")

    def refresh() -> Any:
        shutil.copy(folder / "new.parquet", own / "documents")
        ledger.refresh(source, scheduler="synchronous")
        fitted = model.from_statistics(ledger.statistics())
        fitted.predict(hashes.transform(["word1"]))
        return fitted

    return refresh


def by_partial_fit(model: Any, folder: Path, n_features: int, n_reads: int = 1) -> Callable[[], Any]:
    """Learn a new file by a model that has learnt the others."""
    learnt = by_scikit_learn(model, folder, n_features, n_reads)()

    def refresh() -> Any:
        for X, y in _batches([folder / "new.parquet"], n_features):
            learnt.partial_fit(X, y)
        return learnt

    return refresh


def _batches(paths: list[Path], n_features: int) -> Iterator[tuple[Any, Any]]:
    hashes = HashingVectorizer(n_features=n_features)
    for path in paths:
        table = pq.read_table(path)
        yield hashes.transform(table["text"].to_pylist()), table["topic"].to_numpy()


def against_dense(n_rows: int, repeats: int) -> list[tuple[str, str, str]]:
    """The seconds that sums and scores of sparse and of the same dense rows take."""
    rng, rows = np.random.default_rng(0), []
    y = rng.integers(5, size=n_rows)
    for kind, n_features, density in (("diag", 5_000, 20 / 5_000), ("tied", 2_000, 0.01)):
        X = scipy.sparse.random_array((n_rows, n_features), density=density, rng=rng, format="csr")
        name = f'"{kind}", {n_features:,} features, {n_features * density:.0f} stored values a row'
        rows.append((name, *_both(X, lambda Z, kind=kind: ClassStatistics(kind).update(Z, y), repeats)))
    X = scipy.sparse.random_array((n_rows, 1_000), density=0.01, rng=rng, format="csr")
    model = LinearDiscriminantAnalysis(shrinkage=0.1).fit(X, y)
    return [
        *rows,
        ("scores of LDA, 1,000 features, 10 stored values a row", *_both(X, model.predict, repeats)),
    ]


def _both(X: Any, call: Callable[[Any], Any], repeats: int) -> tuple[str, str]:
    dense, sparse = (median_time(lambda Z=Z: call(Z), repeats, time.process_time) for Z in (X.toarray(), X))
    return f"{dense:.3f}", f"{sparse:.3f}"


def main() -> None:
    """Measure, and print the tables."""
    options = parser_of(__doc__, rows=20_000, texts=50_000, features=2_048, repeats=3).parse_args()
    rows = against_dense(options.rows, options.repeats)
    title = f"{options.rows:,} rows, one thread"
    table = report.table(["what", "dense, processor s", "sparse, processor s"], rows)
    goals = report.Goals([report.at_most('processor seconds of "diag"', float(rows[0][2]), 0.05)])
    report.publish("sparse", title, table, goals, keep=not options.print_only)
    with TemporaryDirectory() as folder:
        data = written(Path(folder) / "text", options.texts, 10)
        descent = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0)
        ways: dict[str, tuple[Callable[..., Callable[[], Any]], tuple[Any, ...]]] = {
            "RidgeClassifier": (by_streamgda, (RidgeClassifier(), data, options.features)),
            "GaussianNB": (by_streamgda, (GaussianNB(var_smoothing=1e-3), data, options.features)),
            "SGDClassifier, one read": (by_scikit_learn, (clone(descent), data, options.features)),
            "SGDClassifier, ten reads": (by_scikit_learn, (clone(descent), data, options.features, 10)),
            "scikit-learn's GaussianNB": (
                by_scikit_learn,
                (naive_bayes.GaussianNB(var_smoothing=1e-3), data, options.features),
            ),
            "RidgeClassifier, a refresh": (by_a_ledger, (RidgeClassifier, data, options.features)),
            "SGDClassifier, a refresh": (by_partial_fit, (clone(descent), data, options.features)),
            "SGDClassifier, a refresh after ten reads": (
                by_partial_fit,
                (clone(descent), data, options.features, 10),
            ),
        }
        results = contest([Contender(name, how, own) for name, (how, own) in ways.items()], 1)
        ((X, y),) = _batches([data / "test.parquet"], options.features)
        errors = {}
        for name, (how, own) in ways.items():
            fitted = how(*own)()
            errors[name] = 1 - fitted.score(X.toarray() if name.endswith("s GaussianNB") else X, y)
        columns = ("median s", "processor s", "peak MB")
        table = report.table(
            ["contender", "error", *columns],
            [(name, f"{errors[name]:.4f}", *cells(one, *columns)) for name, one in results.items()],
        )
    title = (
        f"{options.texts:,} generated texts of {_WORDS} words, {_TOPICS} topics, {options.features:,} hashes"
    )
    report.publish("sparse.text", title, table, report.Goals([]), keep=not options.print_only)


if __name__ == "__main__":
    main()
