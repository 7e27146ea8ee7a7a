"""Options: several parameters as one value, which models hold and hand on unread."""

import pickle
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from streamgda import (
    Categorical,
    GaussianNB,
    Marginal,
    MixtureDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    scan_arrow,
)
from streamgda.data.blocks.options import Option, option_of
from streamgda.data.registry import OPTIONS, Entry
from streamgda.models.estimators import options
from streamgda.models.estimators.options import OptionOf
from streamgda.models.estimators.reading import one_of

X, Y = [[0.0], [1.0], [5.0], [6.0], [2.0], [7.0]], [0, 0, 1, 1, 0, 1]


@dataclass(frozen=True, repr=False)
class Smooth(Option):
    most: int = 3
    share: float = 0.5

    def __post_init__(self):
        if self.most < 1:
            raise ValueError("most is at least 1")


@dataclass(eq=False, repr=False, kw_only=True)
class Model(GaussianNB):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianNB._parameter_constraints,
        "smooth": [one_of("usual"), OptionOf("smooth"), None],
    }

    smooth: Any = "usual"


@pytest.fixture(autouse=True)
def _smooth(monkeypatch):
    monkeypatch.setitem(OPTIONS, "smooth", Entry("usual", f"{__name__}:Smooth"))
    monkeypatch.setitem(options.RENAMED, "smooth_most", ("smooth", "most"))


def test_an_option_shows_the_parameters_that_differ_from_their_defaults():
    assert repr(Smooth()) == "Smooth()"
    assert repr(Model(smooth=Smooth(share=0.25))) == "Model(smooth=Smooth(share=0.25))"
    assert Smooth(2).get_params() == {"most": 2, "share": 0.5}
    assert Smooth(2) != Smooth()
    assert len({Smooth(2), Smooth(2)}) == 1


def test_an_option_never_changes():
    with pytest.raises(FrozenInstanceError):
        Smooth().most = 4
    assert Smooth().with_params(most=4) == Smooth(4)
    with pytest.raises(
        ValueError, match=r"Invalid parameter 'mots' for Smooth\(\)\. Valid .*'most', 'share'"
    ):
        Smooth().with_params(mots=4)
    with pytest.raises(ValueError, match="most is at least 1"):
        Smooth().with_params(most=0)


def test_a_word_stands_for_the_defaults():
    assert option_of("smooth", "usual") == Smooth()
    assert option_of("smooth", Smooth(4)) == Smooth(4)
    assert option_of("smooth", None) is None


def test_setting_a_parameter_of_an_option_replaces_the_option():
    before = Smooth()
    model = Model(smooth=before).fit(X, Y)
    state = model._cache
    model.predict(X)
    assert model._cache is state
    assert model.set_params(smooth__most=9).smooth == Smooth(9)
    assert before == Smooth()
    model.predict(X)
    assert model._cache is not state  # as for any parameter that was set


def test_parameters_of_an_option_are_set_where_a_word_stands_for_it():
    assert Model().set_params(smooth__share=0.1).smooth == Smooth(share=0.1)
    assert Model().set_params(smooth__share=0.1, smooth=Smooth(8)).smooth == Smooth(8, 0.1)
    model = Model(smooth=None)
    with pytest.raises(ValueError, match=r"smooth=None has no parameters; set smooth=Smooth\(most=2\)"):
        model.set_params(smooth__most=2)
    with pytest.raises(ValueError, match="Invalid parameter 'smoth'"):
        model.set_params(smoth__most=2)


def test_options_are_parameters_to_scikit_learn():
    model = Model(smooth=Smooth(4))
    assert model.get_params()["smooth__most"] == 4
    assert clone(model).smooth is model.smooth
    assert pickle.loads(pickle.dumps(model)).smooth == Smooth(4)
    search = GridSearchCV(Model(), {"smooth__most": [1, 2]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"smooth__most": 1}
    ours = StatisticsSearchCV(Model(), {"smooth__most": [1, 2]}, cv=2).fit(X, Y)
    assert ours.best_estimator_.smooth == Smooth(1)
    model._repr_html_()


@pytest.mark.parametrize("value", [7, "never", Option()])
def test_another_value_is_an_error(value):
    with pytest.raises(ValueError, match=r"'smooth' parameter of Model must be .*'usual'}, a Smooth or None"):
        Model(smooth=value).fit(X, Y)


@pytest.mark.parametrize(
    ("kind", "old", "now"),
    [
        (Model, "smooth_most", r"a parameter of an option: smooth=Smooth\(most=\.\.\.\)"),
        (GaussianNB, "alpha", r"a parameter of an option: categories=Categorical\(alpha=\.\.\.\)"),
        (GaussianNB, "max_patterns", r"a parameter of an option: missing=Marginal\(max_patterns=\.\.\.\)"),
        (GaussianNB, "max_reads", r"a parameter of an option: missing=Marginal\(max_reads=\.\.\.\)"),
        (GaussianNB, "em_tol", r"a parameter of an option: missing=Marginal\(tol=\.\.\.\)"),
        (MixtureDiscriminantAnalysis, "n_subclasses", "subclasses$"),
        (MixtureDiscriminantAnalysis, "subclass_centers", "subclasses$"),
        (MixtureDiscriminantAnalysis, "rows_per_class", r".*: subclasses=Subclasses\(rows_per_class="),
        (MixtureDiscriminantAnalysis, "random_state", r".*: subclasses=Subclasses\(random_state="),
    ],
)
def test_parameters_of_older_versions_are_errors_that_name_the_new_spelling(kind, old, now):
    with pytest.raises(TypeError, match=f"{old} is now {now}"):
        kind(**{old: 3})
    with pytest.raises(ValueError, match=f"{old} is now {now}"):
        kind().set_params(**{old: 3})
    with pytest.raises(ValueError, match=f"{old} is now {now}"):
        StatisticsSearchCV(kind(), {old: [1, 2]}, cv=2).fit(X, Y)


def test_a_name_that_was_never_a_parameter_of_a_model_is_unexpected():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        GaussianNB(n_subclasses=2)


def test_options_are_saved_and_those_of_older_versions_loaded():
    assert options.to_plain({"smooth": Smooth(4), "tol": 1}) == {
        "smooth": {"most": 4, "share": 0.5},
        "tol": 1,
    }
    assert options.from_plain(Model, {"smooth": {"most": 4, "share": 0.5}})["smooth"] == Smooth(4)
    assert options.from_plain(Model, {"smooth": "usual"})["smooth"] == "usual"
    assert options.from_plain(Model, {"smooth_most": 4, "tol": 1}) == {"smooth": Smooth(4), "tol": 1}
    assert options.from_plain(Model, {"smooth_most": 3})["smooth"] == "usual"
    assert options.from_plain(Model, {"smooth": None, "smooth_most": 9})["smooth"] is None
    assert options.from_plain(Model, {"tol": 1}) == {"tol": 1}


@pytest.mark.parametrize("value", [3, True, ["marginal"], Categorical(), "keep"])
def test_a_value_that_is_no_policy_of_missing_rows_is_an_error_at_the_call(value, tmp_path):
    source = scan_arrow(pa.table({"x": [1.0, 2.0, 3.0], "y": [0, 1, 0]}), "y")
    for call in (
        lambda: accumulate(source, missing=value),
        lambda: StatisticsLedger(tmp_path, missing=value),
    ):
        with pytest.raises(ValueError, match="missing must be 'raise', 'marginal' or a Marginal; got"):
            call()


@pytest.mark.parametrize("value", [3, Marginal()])
def test_a_value_that_is_no_encoding_is_an_error_of_the_scan(value):
    with pytest.raises(ValueError, match="categories must be 'auto', None or Categorical"):
        scan_arrow(pa.table({"x": [1.0], "y": [0]}), "y", categories=value)


def test_passes_and_ledgers_name_the_new_spelling_of_an_old_keyword(tmp_path):
    source = scan_arrow(pa.table({"x": [1.0], "y": [0]}), "y")
    for call in (
        lambda: accumulate(source, max_patterns=5),
        lambda: StatisticsLedger(tmp_path, max_patterns=5),
    ):
        with pytest.raises(TypeError, match=r"missing=Marginal\(max_patterns=\.\.\.\)"):
            call()
