"""What a saved file says of itself, the same as bytes, and what type checkers know of what is loaded."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import streamgda
from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    IncompleteStatistics,
    QuadraticDiscriminantAnalysis,
    from_bytes,
    load,
    load_metadata,
    load_model,
    load_statistics,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 3)), np.repeat(["ant", "bee", "cat"], 20)
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)

OBJECTS = {
    "floating": lambda: ClassStatistics("tied").update(X, Y),
    "exact": lambda: ExactClassStatistics().update(X, Y),
    "incomplete": lambda: IncompleteStatistics().update(HOLES, Y),
    "naive Bayes": lambda: GaussianNB(priors={"ant": 0.5, "bee": 0.25, "cat": 0.25}).fit(X, Y),
    "QDA of float32": lambda: QuadraticDiscriminantAnalysis().fit(X.astype(np.float32), Y),
}


@pytest.fixture(params=OBJECTS)
def made(request):
    return OBJECTS[request.param]()


def statistics_of(saved):
    return getattr(saved, "statistics_", saved)


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """So a loss of power leaves the old file, or the new one whole."""
    path, flush, flushed = tmp_path / "state.parquet", os.fsync, []

    def noted(descriptor):
        flush(descriptor)
        flushed.append((os.fstat(descriptor).st_ino, path.exists()))

    monkeypatch.setattr(os, "fsync", noted)
    OBJECTS["floating"]().save(path)
    assert (path.stat().st_ino, False) in flushed


def test_bytes_are_the_same_for_equal_objects_and_come_back(made, tmp_path):
    content = made.to_bytes()
    back = from_bytes(content)
    assert type(back) is type(made)
    assert statistics_of(back) == statistics_of(made)
    assert back.to_bytes() == content
    if hasattr(made, "predict"):
        assert back.get_params() == made.get_params()
        np.testing.assert_array_equal(back.predict_proba(X), made.predict_proba(X))
    (tmp_path / "there.parquet").write_bytes(content)
    made.save(tmp_path / "there.parquet")
    assert statistics_of(load(tmp_path / "there.parquet")) == statistics_of(made)
    assert from_bytes((tmp_path / "there.parquet").read_bytes()).to_bytes() == content


def test_a_file_says_where_it_comes_from(made, tmp_path, monkeypatch):
    path = tmp_path / "saved.parquet"
    before = datetime.now(UTC)
    made.save(path, metadata={"offset": 17, "topics": ["a", "b"]})
    said = load_metadata(path)
    assert said["library"] == f"streamgda {streamgda.__version__}"
    assert timedelta(seconds=-1) <= datetime.fromisoformat(said["time"]) - before < timedelta(minutes=5)
    assert said["fingerprint"] == statistics_of(made).digest()
    assert said["metadata"] == {"offset": 17, "topics": ["a", "b"]}
    content = made.to_bytes(metadata={"offset": 17, "topics": ["a", "b"]})
    assert load_metadata(content) == {**said, "time": None}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    made.save(path)
    assert load_metadata(path)["time"] == "1970-01-02T00:00:00+00:00"
    assert load_metadata(path)["metadata"] is None


def test_the_fingerprint_tells_rows_apart_and_not_how_they_were_cut():
    exact = [ExactClassStatistics(), ExactClassStatistics().update(X, Y), ExactClassStatistics()]
    for rows in np.array_split(RNG.permutation(60), 7):
        exact[0].update(X[rows], Y[rows])
    exact[2].update(np.vstack([X[:-1], X[-1:] + 1e-12]), Y)
    prints = [load_metadata(state.to_bytes())["fingerprint"] for state in exact]
    assert prints[0] == prints[1] != prints[2]


def test_files_that_say_nothing_of_themselves_are_read():
    old = Path(__file__).parents[2] / "files" / "format-1-full.parquet"
    assert load_metadata(old) == dict.fromkeys(("library", "time", "fingerprint", "metadata"))


def test_state_and_offset_are_replaced_together(tmp_path):
    """What cannot be saved leaves both as they were."""
    path, model = tmp_path / "model.parquet", GaussianNB().partial_fit(X[:30], Y[:30])
    model.save(path, metadata={"offset": 30})
    model.partial_fit(X[30:], Y[30:])
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save(path, metadata={"offset": object()})
    content = path.read_bytes()
    offset = load_metadata(content)["metadata"]["offset"]
    assert from_bytes(content).partial_fit(X[offset:], Y[offset:]).statistics_.n_rows == 60


def test_bytes_of_anything_else_are_refused():
    for content, message in ((b"", "truncated"), (b"PAR1 and more", "truncated"), (b"x" * 99, "no Parquet")):
        with pytest.raises(ValueError, match=f"^this is .*{message}"):
            from_bytes(content)


def test_load_model_and_load_statistics_say_what_they_return(tmp_path):
    model, state = GaussianNB().fit(X, Y), ClassStatistics().update(X, Y)
    model.save(tmp_path / "model.parquet")
    state.save(tmp_path / "state.parquet")
    assert isinstance(load_model(tmp_path / "model.parquet"), GaussianNB)
    assert load_statistics(tmp_path / "model.parquet") == model.statistics_
    assert load_statistics(tmp_path / "state.parquet") == state
    with pytest.raises(ValueError, match=r"state\.parquet holds statistics and no model"):
        load_model(tmp_path / "state.parquet")


CHECKED = """
import streamgda
from streamgda import ClassStatistics, predict_dataset

labels = streamgda.load("model.parquet").predict([[1.0]])
model = streamgda.load_model("model.parquet")
probabilities = model.predict_proba([[1.0]])
rows: int = streamgda.load_statistics("model.parquet").n_rows
predict_dataset(model, "rows", "scored", columns=["label", "log_density"])
ClassStatistics("tied").save("state.parquet", metadata={"offset": 3})
"""

WRONG = """
from streamgda import load_model, load_statistics, predict_dataset

load_statistics("model.parquet").predict([[1.0]])
predict_dataset(load_model("model.parquet"), "rows", "scored", columns=["lable"])
"""


@pytest.mark.slow
def test_type_checkers_know_what_is_loaded_and_the_names_of_columns(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(Path(streamgda.__file__).parents[1])  # where mypy finds its options and its cache
    (tmp_path / "checked.py").write_text(CHECKED)
    (tmp_path / "wrong.py").write_text(WRONG)
    told, failed, _ = api.run(["--output=json", str(tmp_path / "checked.py"), str(tmp_path / "wrong.py")])
    assert not failed
    faults = [(Path(fault["file"]).name, fault["code"]) for fault in map(json.loads, told.splitlines())]
    assert faults == [("wrong.py", "attr-defined"), ("wrong.py", "list-item")]


def test_saving_through_a_link_keeps_the_link_and_the_permissions_of_the_file(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "state.parquet", tmp_path / "link.parquet"
    state = ClassStatistics().update([[1.0], [3.0]], ["a", "a"])
    state.save(target)
    target.chmod(0o600)
    link.symlink_to(target)
    more = state + state

    more.save(link)

    assert link.is_symlink()
    assert load(target) == load(link) == more
    assert target.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.rglob("*")} == {"there", "state.parquet", "link.parquet"}


def test_saving_through_a_link_to_nothing_makes_what_it_leads_to(tmp_path):
    (tmp_path / "link.parquet").symlink_to(tmp_path / "new.parquet")
    ClassStatistics().update([[1.0], [3.0]], ["a", "a"]).save(tmp_path / "link.parquet")
    assert load(tmp_path / "new.parquet").n_rows == 2
