"""Files whose checksums are right and whose content makes no sense: one clear error, and no memory for it."""

import base64
import copy
import io
import re
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import streamgda
from streamgda import (
    ClassStatistics,
    Evaluation,
    ExactClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    WindowedStatistics,
    scan_arrow,
)
from streamgda.data.storage.documents import decode, encode
from tests.fuzz import CORPUS, read_one

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
MOST_BYTES = 1 << 26


def evaluation():
    model = GaussianNB().fit(X, Y)
    return Evaluation().update(Y, model.predict_log_proba(X), model.classes_)


def pipeline():
    columns = pa.table({"u": X[:, 0], "v": X[:, 1], "y": Y})
    source = scan_arrow(columns, "y").with_columns(product=pc.field("u") * pc.field("v"))
    return GaussianNB().fit(source).as_pipeline(source)


SAVED = {
    "full": lambda: ClassStatistics().update(X, Y),
    "tied": lambda: ClassStatistics("tied").update(X, Y),
    "diag": lambda: ClassStatistics("diag", feature_names=["u", "v", "w"]).update(X, Y),
    "exact": lambda: ExactClassStatistics().update(X, Y),
    "incomplete": lambda: IncompleteStatistics().update(GAPS, Y),
    "window": lambda: WindowedStatistics(3).update(X, Y).update(X, Y),
    "naive Bayes": lambda: GaussianNB().fit(X, Y),
    "lda": lambda: LinearDiscriminantAnalysis(shrinkage=0.1).fit(X, Y),
    "qda": lambda: QuadraticDiscriminantAnalysis(priors=[0.2, 0.3, 0.5]).fit(X, Y),
    "edda": lambda: GaussianDiscriminantAnalysis().fit(X, Y),
    "mda": lambda: MixtureDiscriminantAnalysis().fit(X, Y),
    "pipeline": pipeline,
    "evaluation": evaluation,
}

READS = {"window": WindowedStatistics.from_bytes, "evaluation": Evaluation.from_bytes}

VALUES = [None, "many", -1, 0, 1e300, 2**70, True, [], {}, [1, 2], {"a": 1}, float("nan"), float("inf"), ""]


def written(table, document):
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(encode(document)), sink, compression="none")
    return sink.getvalue()


def places_in(document, before=()):
    """The paths of all values in a document."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in pairs:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places_in(value, (*before, key))


def forged_documents(document):
    """The document with each of its values deleted or replaced, one after the other."""
    for *path, last in places_in(document):
        for value in [*RNG.permutation(len(VALUES))[:5].tolist(), None]:
            forged = inside = copy.deepcopy(document)
            for key in path:
                inside = inside[key]
            if value is None:
                del inside[last]
            else:
                inside[last] = VALUES[value]
            yield forged


def forged_tables(table):
    """The table without a column, with other numbers in it, with fewer, more and other rows."""
    for name in table.column_names:
        i = table.schema.get_field_index(name)
        column = table.column(name).combine_chunks()
        yield table.drop_columns([name])
        yield table.set_column(i, name, pa.nulls(len(table), column.type))
        yield table.set_column(i, name, pa.array(["x"] * len(table)))
        yield table.set_column(i, name, pa.array([-1.0] * len(table)))
        yield table.set_column(i, name, pa.array([np.nan] * len(table)))
        yield table.set_column(i, name, pa.array([[1.0, 2.0]] * len(table), pa.large_list(pa.float64())))
        yield table.set_column(i, name, column[::-1] if isinstance(column, pa.Array) else column)
        if pa.types.is_large_list(column.type):
            lists = column.to_pylist()
            for change in (
                lambda numbers: numbers[:-1],
                lambda numbers: [*numbers, 1.0],
                lambda numbers: [-1 - abs(number) for number in numbers],
                lambda numbers: [float("nan")] * len(numbers),
                lambda numbers: [float("inf")] * len(numbers),
                lambda numbers: numbers[::-1],
            ):
                other = [numbers and change(numbers) for numbers in lists]
                yield table.set_column(
                    i, name, pa.array(other, pa.large_list(pa.float64()), from_pandas=False)
                )
    yield table.slice(1)
    yield table.slice(0, 0)
    yield pa.concat_tables([table, table])
    yield pa.concat_tables([table] * 40)


@pytest.fixture(scope="module", autouse=True)
def traced_memory():
    """Traced once: in Python 3.11, threads that end while tracing stops may crash (cpython #128679)."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def check(read, content):
    """Read a forged file: it may be taken, or be refused by one ValueError of one line."""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    try:
        read(content)
    except ValueError as error:
        assert "\n" not in str(error), error  # noqa: PT017
        refused = True
    else:
        refused = False
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before < MOST_BYTES
    return refused


@pytest.mark.slow  # some hundred files
@pytest.mark.parametrize("kind", SAVED)
def test_a_forged_file_is_refused_by_one_clear_error(kind):
    content = SAVED[kind]().to_bytes()
    table = pq.read_table(io.BytesIO(content))
    document, read = decode(table.schema.metadata, "this"), READS.get(kind, streamgda.from_bytes)
    assert read(written(table, document)) is not None
    refused = [check(read, written(table, forged)) for forged in forged_documents(document)]
    refused += [check(read, written(forged, document)) for forged in forged_tables(table)]
    assert np.mean(refused) > 0.4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [b"f", b"c", b"j", b"[0-;]"])
def test_bytes_that_were_once_found_are_read_or_refused_by_one_error(kind):
    contents = [path.read_bytes() for path in CORPUS.iterdir()]
    chosen = [content for content in contents if re.match(kind, content)]
    assert chosen
    for content in chosen:
        read_one(content)


@pytest.mark.slow
def test_an_evaluation_of_more_classes_than_numbers_takes_no_memory():
    content = evaluation().to_bytes()
    table = pq.read_table(io.BytesIO(content))
    n = 20_000
    empty = pa.array([[]] * n, pa.large_list(pa.float64()))
    many = {name: empty for name in table.column_names if name != "label"}
    wide = pa.table({"label": pa.array([f"{i:05}" for i in range(n)]), **many})
    assert check(Evaluation.from_bytes, written(wide, decode(table.schema.metadata, "this")))


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("odds", lambda numbers: numbers[::-1]),
        ("odds_weights", np.negative),
        ("confusion", np.negative),
        ("calibration", lambda numbers: numbers[:-1]),
        ("confusion", lambda numbers: numbers * 2),
    ],
)
def test_an_evaluation_that_makes_no_sense_is_refused(column, change):
    table = pq.read_table(io.BytesIO(evaluation().to_bytes()))
    i, lists = table.schema.get_field_index(column), table.column(column).to_pylist()
    other = pa.array([change(np.array(numbers)) for numbers in lists], pa.large_list(pa.float64()))
    forged = table.set_column(i, column, other)
    with pytest.raises(ValueError, match="this is damaged or not consistent: "):
        Evaluation.from_bytes(written(forged, decode(table.schema.metadata, "this")))


@pytest.mark.parametrize("more", [1, -1])
def test_a_footer_with_two_schemas_of_different_lengths_is_damaged(more):
    table = pq.read_table(io.BytesIO(ClassStatistics().update(X, Y).to_bytes()))
    other = table.append_column("more", table.column(0)) if more > 0 else table.drop_columns(["label"])
    schema = base64.b64encode(other.schema.serialize().to_pybytes())
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, compression="none", store_schema=False) as writer:
        writer.write_table(table)
        document = table.schema.metadata[b"streamgda"].decode()
        writer.add_key_value_metadata({"ARROW:schema": schema.decode(), "streamgda": document})
    with pytest.raises(ValueError, match=r"this is (truncated, )?damaged"):
        streamgda.from_bytes(sink.getvalue())


def test_a_column_whose_name_is_no_text_is_damage():
    content = SAVED["full"]().to_bytes()
    assert b"\x04mean" in content
    with pytest.raises(ValueError, match="damaged.* 'utf-8' codec"):
        streamgda.from_bytes(content.replace(b"\x04mean", b"\x04me\x8an"))


@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_a_tolerance_whose_square_exceeds_float64_leaves_no_direction(model):
    with pytest.raises(np.linalg.LinAlgError, match="no feature varies|not full rank"):
        model(tol=1e300).fit(X, Y)
