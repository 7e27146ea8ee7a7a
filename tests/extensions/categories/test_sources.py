"""Tables with strings, bools, dates, nulls and dictionaries, from every source, against dummies by pandas."""

from dataclasses import dataclass

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from streamgda import (
    Categorical,
    ClassStatistics,
    StatisticsLedger,
    accumulate,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
)
from streamgda.data.storage.identity import identity_of

CATEGORIES = {"city": ["Oslo", "Paris", "Rome", None], "grade": [1, 2, 3], "year": ["2024", "2025"]}
CHOSEN = Categorical(["city", "grade", "year"])


@pytest.fixture(scope="module")
def customers():
    """Customers of two years, of whom some have no city; Oslo is in the second year alone."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 300),
            "city": pd.Series(rng.choice(["Paris", "Rome", None], 300), dtype="str"),
            "spent": rng.normal(size=300).round(3),
            "member": rng.random(300) < 0.4,
            "grade": rng.integers(1, 4, 300),
            "year": np.repeat(["2024", "2025"], 150),
            "joined": pd.date_range("2024-01-01", periods=300),
            "kind": rng.choice(["buys", "leaves"], 300),
        }
    )
    table.loc[200:250, "city"] = "Oslo"
    return table


@pytest.fixture(scope="module")
def expected(customers):
    dummies = [
        (customers[name].isna() if value is None else customers[name] == value).astype(float)
        for name, values in CATEGORIES.items()
        for value in values
    ]
    rows = np.column_stack([customers[["age", "spent", "member"]].to_numpy(float), *dummies])
    return ClassStatistics("tied").update(rows, customers["kind"].to_numpy(object))


def check(source, expected):
    found = accumulate(source, "tied")
    assert found.schema.numbers == ("age", "spent", "member")
    assert dict(zip(found.schema.columns, map(list, found.schema.values), strict=True)) == CATEGORIES
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-12)
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-9, atol=1e-9)


def test_parquet_of_unlike_dictionaries_and_hive_partitions(tmp_path, customers, expected):
    for year, part in customers.groupby("year"):
        folder = tmp_path / f"year={year}y"
        folder.mkdir()
        city = part["city"].astype("category") if year == "2024" else part["city"]
        part.drop(columns="year").assign(city=city).to_parquet(folder / "part.parquet", row_group_size=40)
    features = ["age", "city", "spent", "member", "grade", "year"]
    source = scan_parquet(tmp_path, "kind", features=features, categories=CHOSEN)
    found = accumulate(source, "tied")
    assert found.schema.values[2] == ("2024y", "2025y")
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-9, atol=1e-9)


def as_csv(table, folder):
    table.to_pandas().to_csv(folder / "rows.csv", index=False)
    schema = table.schema.set(table.schema.get_field_index("city"), pa.field("city", pa.string()))
    nulls = csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
    return ds.dataset(folder / "rows.csv", format=ds.CsvFileFormat(convert_options=nulls), schema=schema)


ARROW = {
    "table": lambda table, folder: table,
    "reader": lambda table, folder: table.to_reader(max_chunksize=70),
    "pandas": lambda table, folder: table.to_pandas(),
    "polars": lambda table, folder: pytest.importorskip("polars").from_arrow(table),
    "lazy": lambda table, folder: pytest.importorskip("polars").from_arrow(table).lazy(),
    "duckdb": lambda table, folder: pytest.importorskip("duckdb").arrow(table),
    "csv": as_csv,
}


@pytest.mark.parametrize("kind", ARROW)
def test_arrow_data_of_any_library(tmp_path, kind, customers, expected):
    data = ARROW[kind](pa.Table.from_pandas(customers, preserve_index=False), tmp_path)
    check(scan_arrow(data, "kind", exclude=["joined"], categories=CHOSEN), expected)


def test_dask_frames(customers, expected):
    frame = dd.from_pandas(customers.astype({"city": "category"}), npartitions=4)
    check(scan_dask(frame, "kind", exclude=["joined"], categories=CHOSEN), expected)


def test_categories_are_those_of_strings_and_dictionaries_by_their_types(customers):
    table = pa.Table.from_pandas(customers.astype({"grade": "category"}), preserve_index=False)
    source = scan_arrow(table, "kind", exclude=["joined"], categories="auto")
    assert source.encoded == ("city", "grade", "year")


def test_features_that_are_proposed_leave_out_constants_and_identifiers(customers, tmp_path):
    rows = customers[["age", "city"]].assign(
        version=[3, None] * 150, ticket=[f"t{i}" for i in range(300)], kind="a", tags=[["x"]] * 300
    )
    pq.write_table(pa.Table.from_pandas(rows), tmp_path / "rows.parquet")
    proposed = r"features=\['age', 'city'\] \('version', 'ticket' have one value in the first rows, or one in"
    for read in (
        lambda: scan_parquet(tmp_path, "kind"),
        lambda: scan_arrow(rows, "kind"),
        lambda: scan_arrow(pa.Table.from_pandas(rows), "kind"),
        lambda: scan_arrow(ds.dataset(tmp_path), "kind"),
    ):
        with pytest.raises(ValueError, match=proposed):
            read()
    rows[["age", "version", "kind", "ticket"]].to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=r"features=\['age'\] \('version' have"):
        scan(tmp_path / "rows.csv", "kind", categories=None)


def test_all_columns_that_can_be_no_feature_are_named_with_their_remedies(customers):
    table = pa.Table.from_pandas(customers, preserve_index=False)
    message = (
        r"columns 'city' \(\w*string\), 'year' \(\w*string\) cannot be features; leave them out, "
        r"with exclude=\['city', 'year'\].* features=\['age', .*'joined'\].*categories='auto'"
    )
    with pytest.raises(ValueError, match=message):
        scan_arrow(table, "kind", categories=None)
    with pytest.raises(ValueError, match="there is no column 'town'"):
        scan_arrow(table, "kind", exclude=["joined"], categories=Categorical(["town"]))
    with pytest.raises(ValueError, match="must be 'auto', None or Categorical"):
        scan_arrow(table, "kind", exclude=["joined"], categories="city")


def test_a_null_among_numbers_is_no_category_and_is_named(tmp_path, customers):
    pq.write_table(pa.Table.from_pandas(customers.assign(spent=np.nan)), tmp_path / "a.parquet")
    source = scan_parquet(tmp_path, "kind", exclude=["joined"], categories=CHOSEN)
    with pytest.raises(ValueError, match=r"a.parquet.* row 0: feature 'spent' is NaN or null"):
        accumulate(source, "tied")
    dropping = scan_parquet(tmp_path, "kind", exclude=["joined", "spent"], categories=CHOSEN, missing="drop")
    assert accumulate(dropping, "tied").n_dropped == 0


def test_text_is_categories_by_default(tmp_path, customers):
    frame = customers.drop(columns=["joined", "grade"]).assign(nothing=None)
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (
        scan_parquet(tmp_path, "kind", exclude=["nothing"]),
        scan_arrow(frame, "kind", exclude=["nothing"]),
        scan_dask(dd.from_pandas(frame, npartitions=2), "kind", exclude=["nothing"]),
    ):
        assert source.encoded == ("city", "year")
    assert scan_parquet(tmp_path, "kind").feature_names[-1] == "nothing"
    with pytest.raises(ValueError, match="row 0: feature 'nothing' is NaN or null"):  # and no category
        accumulate(scan_parquet(tmp_path, "kind"))


def test_a_partition_key_has_categories_if_it_is_named(tmp_path, customers):
    for year, part in customers.groupby("year"):
        (tmp_path / f"year={year}y").mkdir()
        part[["age", "kind"]].to_parquet(tmp_path / f"year={year}y" / "part.parquet")
    with pytest.raises(
        ValueError, match=r"'2024y' is not a number; .* categories=Categorical\(columns=\['year'\]\)"
    ):
        accumulate(scan_parquet(tmp_path, "kind", features=["age", "year"]))
    source = scan_parquet(tmp_path, "kind", features=["age", "year"], categories=Categorical(["year"]))
    assert accumulate(source).schema.values == (("2024y", "2025y"),)


@dataclass(frozen=True, repr=False)
class Shortened(Categorical):
    """Categories by the first letters of their values."""

    letters: int = 1

    @property
    def identity(self):
        return ["shortened", self.letters]

    def read(self, columns, numbers, origin):
        text = {name: column.cast(pa.string()) for name, column in columns.items()}
        short = {name: pc.utf8_slice_codeunits(column, 0, self.letters) for name, column in text.items()}
        return super().read(short, numbers, origin)


def test_how_columns_are_encoded_is_a_part_of_the_identity_of_rows(tmp_path, customers):
    path = str(tmp_path / "customers.parquet")
    customers.to_parquet(path)

    def scanned(categories):
        source = scan_parquet(path, "kind", features=["age", "city"], categories=categories)
        (split,) = source.splits()
        return source, identity_of(split)

    (usual, same), (of_letters, other) = scanned(Categorical(["city"])), scanned(Shortened(["city"]))
    assert accumulate(of_letters).schema.values == (("O", "P", "R", None),)
    assert len({same, other, scanned(Shortened(["city"], letters=2))[1]}) == 3
    assert same == scanned("auto")[1] == scanned(Categorical(["city"], "conditional", alpha=7))[1]
    assert usual.read_options["categorical_features"] == ["city"]  # as ledgers of 0.2 hold it
    StatisticsLedger(str(tmp_path / "ledger")).refresh(usual)
    StatisticsLedger(str(tmp_path / "ledger")).refresh(scanned(Categorical(["city"], alpha=7))[0])
    with pytest.raises(ValueError, match=r"with categories=\['city'\], and here it is .*short"):
        StatisticsLedger(str(tmp_path / "ledger")).refresh(of_letters)


@pytest.mark.parametrize("scan", [scan_arrow, scan_dask, scan_parquet])
def test_the_keyword_of_older_versions_is_an_error_with_the_new_spelling(scan):
    with pytest.raises(TypeError, match=r"categories=Categorical\(columns=\.\.\.\)"):
        scan("rows.parquet", "y", categorical_features=["colour"])
