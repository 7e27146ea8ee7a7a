"""A guest from outside: features, classes and densities of a new kind, without a change to the core."""

import zlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal

import streamgda
from streamgda import GaussianNB, accumulate, load, predict_dataset, scan_parquet
from streamgda.data.registry import SCHEMAS
from streamgda.statistics.registry import RULES

GUEST = '''
"""Words are hashed to features; rows are divided by the first feature; covariances are widened."""

import zlib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from streamgda import QuadraticDiscriminantAnalysis
from streamgda.data.blocks.labels import divided_labels, drop_unused
from streamgda.data.blocks.schema import MadeColumns, Schema


@dataclass(frozen=True)
class Hashing:
    """The option of a scan: which column holds words, and how many features they are hashed to."""

    column: str
    n_buckets: int
    by_name: ClassVar[bool] = True

    @property
    def identity(self):
        return ["hashing", self.n_buckets]

    def chosen(self, features, stored, origin):
        return (self.column,)

    def takes(self, arrow_type):
        return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)

    def read(self, columns, numbers, origin):
        words = columns[self.column].to_pylist()
        buckets = np.array([zlib.crc32(word.encode()) % self.n_buckets for word in words], np.intp)
        schema = HashedWords(tuple(numbers), self.column, self.n_buckets)
        return HashedColumns(schema, [*numbers.values()], buckets)


@dataclass(frozen=True)
class HashedWords(Schema):
    """Columns of numbers, and a feature for each bucket."""

    saved_as: ClassVar[str] = "hashed_words"

    numbers: tuple[str, ...]
    column: str
    n_buckets: int

    @property
    def feature_names(self):
        return (*self.numbers, *(f"{self.column}#{bucket}" for bucket in range(self.n_buckets)))

    @property
    def names(self):
        return (*self.numbers, self.column)

    @property
    def encoded(self):
        return (self.column,)

    @property
    def encoding(self):
        return Hashing(self.column, self.n_buckets)

    def to_document(self):
        return {"numbers": self.numbers, "column": self.column, "n_buckets": self.n_buckets}

    @classmethod
    def from_plain(cls, plain):
        return cls(tuple(plain["numbers"]), plain["column"], plain["n_buckets"])


@dataclass(frozen=True)
class HashedColumns(MadeColumns):
    """Rows of which the bucket of the word is in memory."""

    schema: HashedWords
    numbers: list
    buckets: np.ndarray

    def __len__(self):
        return len(self.numbers) + self.schema.n_buckets

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        n = len(self.numbers)
        return self.numbers[index] if index < n else (self.buckets == index - n).view(np.uint8)

    @property
    def n_rows(self):
        return len(self.buckets)

    @property
    def n_columns(self):
        return len(self.numbers) + 1

    def rows(self, rows):
        return replace(self, numbers=[column[rows] for column in self.numbers], buckets=self.buckets[rows])

    def by_name(self):
        return dict(zip(self.schema.names, (*self.numbers, self.buckets), strict=True))


@dataclass(frozen=True)
class Halves:
    """The rule that divides the rows of a class by a column: below a threshold, and from it on."""

    saved_as: ClassVar[str] = "halves"

    threshold: float

    def assign(self, block):
        rows = block.features
        first = rows[:, 0] if isinstance(rows, np.ndarray) else rows[0]
        codes = 2 * block.codes.astype(np.int64) + (np.asarray(first) >= self.threshold)
        n_classes = len(block.classes)
        labels = divided_labels(np.repeat(block.classes, 2), np.tile([0, 1], n_classes))
        classes, codes = drop_unused(labels, codes.astype(block.codes.dtype))
        return replace(block, classes=classes, codes=codes)

    def check_same(self, other):
        if self != other:
            raise ValueError(f"rows were divided by {self} and {other}")

    def to_document(self):
        return {"threshold": self.threshold}

    from_document = classmethod(lambda cls, document: cls(**document))


class Widened(QuadraticDiscriminantAnalysis):
    """Rows are scored by densities of twice the covariance: a step of the chain."""

    def _view(self, statistics):
        view = super()._view(statistics)
        return replace(view, chain=(*view.chain, widened))


def widened(densities, view):
    whitenings = [type(one).of(2 * one.covariance, view.numbers.means, 1e-12) for one in densities.whitenings]
    return replace(densities, whitenings=whitenings)
'''


@pytest.fixture
def guest(tmp_path, monkeypatch):
    (tmp_path / "next_guest.py").write_text(GUEST)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(SCHEMAS, "hashed_words", "next_guest:HashedWords")
    monkeypatch.setitem(RULES, "halves", "next_guest:Halves")
    import next_guest

    yield next_guest
    monkeypatch.delitem(__import__("sys").modules, "next_guest")


N_BUCKETS = 5


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = rng.normal(size=400) + y
    words = [f"word{n}" for n in rng.integers(0, 12, 400) + 4 * y]
    for part in range(2):
        some = slice(200 * part, 200 * (part + 1))
        table = pa.table({"x": x[some], "word": words[some], "y": y[some]})
        pq.write_table(table, tmp_path / f"rows-{part}.parquet", row_group_size=70)
    buckets = np.array([zlib.crc32(word.encode()) % N_BUCKETS for word in words])
    return np.column_stack([x, np.eye(N_BUCKETS)[buckets]]), y


def source_of(guest, tmp_path, *names):
    paths = [tmp_path / name for name in names or ("rows-0.parquet", "rows-1.parquet")]
    return scan_parquet(paths, "y", categories=guest.Hashing("word", N_BUCKETS))


def test_words_are_hashed_to_features(guest, rows, tmp_path):
    X, y = rows
    model = GaussianNB(var_smoothing=0.01).fit(source_of(guest, tmp_path))
    expected = GaussianNB(var_smoothing=0.01).fit(X, y)
    np.testing.assert_allclose(model.theta_, expected.theta_, rtol=1e-12)
    np.testing.assert_allclose(model.var_, expected.var_, rtol=1e-9)
    assert model.feature_names_in_.tolist() == ["x", "word"]
    predict_dataset(model, source_of(guest, tmp_path), tmp_path / "out")
    predictions = pq.read_table(tmp_path / "out")["predicted_label"].to_numpy()
    np.testing.assert_array_equal(predictions, expected.predict(X))
    assert streamgda.evaluate(model, source_of(guest, tmp_path)).accuracy == np.mean(predictions == y)


def test_states_with_hashed_words_are_saved_and_merged(guest, rows, tmp_path):
    X, y = rows
    parts = [accumulate(source_of(guest, tmp_path, f"rows-{part}.parquet")) for part in range(2)]
    whole = parts[0] + parts[1]
    whole.save(tmp_path / "state.parquet")
    assert load(tmp_path / "state.parquet") == whole
    assert whole.schema == guest.HashedWords(("x",), "word", N_BUCKETS)
    np.testing.assert_allclose(whole.means[1], X[y == 1].mean(axis=0), rtol=1e-12)


def test_a_rule_divides_classes_by_a_column(guest, rows, tmp_path):
    X, y = rows
    source = scan_parquet([tmp_path / "rows-0.parquet", tmp_path / "rows-1.parquet"], "y", features=["x"])
    state = accumulate(source, rule=guest.Halves(0.5))
    counts = Counter(zip(y.tolist(), (X[:, 0] >= 0.5).astype(int).tolist(), strict=True))
    assert dict(zip(state.classes.tolist(), state.counts.tolist(), strict=True)) == dict(counts)
    state.save(tmp_path / "state.parquet")
    assert load(tmp_path / "state.parquet").rule == guest.Halves(0.5)
    assert state.by_label().classes.tolist() == [0, 1]
    with pytest.raises(ValueError, match="divided by"):
        state.copy().merge(accumulate(source, rule=guest.Halves(0.6)))


def test_a_step_changes_the_densities(guest, rows):
    X, y = rows
    X = X[:, :3]
    model = guest.Widened().fit(X, y)
    peers = [
        multivariate_normal(X[y == k].mean(axis=0), 2 * np.cov(X[y == k].T, ddof=0)).logpdf(X) for k in (0, 1)
    ]
    expected = softmax(np.column_stack(peers) + np.log(np.bincount(y)), axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
