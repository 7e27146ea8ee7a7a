"""Which columns are read as categories, how, and what models make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, Self

import pyarrow as pa
from numpy.typing import NDArray

from streamgda.data.blocks.options import Option, option_of
from streamgda.data.sources.batches import labels_of
from streamgda.data.sources.columns.names import matching
from streamgda.data.sources.columns.types import label_kind, types_of
from streamgda.extensions.categories.columns import Categories, MixedColumns, coded

Treatment = Literal["features", "naive", "separate", "common"]
"""How a model treats categories.

"features": each is a feature of 0 and 1. The others give each class a table of probabilities. Then numbers
are independent of the categories ("naive"), or their means depend on them by slopes of each class
("separate") or by slopes common to all classes ("common").
"""


@dataclass(frozen=True, repr=False)
class Categorical(Option):
    """Which columns of a table have categories, and what a model makes of them.

    It is the value of the parameter `categories` of models and of `scan_parquet`, `scan_arrow` and
    `scan_dask`, where "auto" stands for ``Categorical()``. Functions that scan use `columns` alone. Models
    that learn from a source take its columns, and use the other parameters; a change of these needs no read.

    It never changes: ``model.set_params(categories__alpha=0.5)`` gives a model another one.

    Parameters
    ----------
    columns : "auto" or list of str, default="auto"
        All columns that hold strings or dictionaries; or those with these names or patterns, whose values are
        strings, integers or bools. A missing value is a category too; with ``missing="marginal"``, models
        that give categories probabilities leave it out.
    model : {"dummies", "conditional"} or None, default=None
        What categories are to a model. "dummies" makes a feature of 0 and 1 of each, as linear discriminant
        analysis does without being told. "conditional" gives each class probabilities of the categories, and
        the numbers means that depend on them: the conditional Gaussian model of Krzanowski (1975). None is
        "dummies" for `LinearDiscriminantAnalysis`, `GaussianDiscriminantAnalysis` and
        `MixtureDiscriminantAnalysis`, the latter two of which have no other. It is "conditional" for
        `QuadraticDiscriminantAnalysis`, and for `GaussianNB`, where numbers do not depend on categories.
    alpha : float, default=1.0
        What is added to the weight of each category in each class, as in scikit-learn's `CategoricalNB`:
        p(v | k) = (n_kv + alpha) / (n_k + alpha V) for a column of V categories. "dummies" do not need it.
    ridge : float, default=1.0
        κ in the regression of numbers on categories, B = S_xz (S_zz + κ I)⁻¹, of their scatters. It draws the
        slopes of a category to zero as much as κ rows would in which it does not change the numbers. Naive
        Bayes and "dummies" do not need it.
    max_categories : int or None, default=255
        How many categories of a column have probabilities of their own. The least frequent of more count as
        one, as in scikit-learn's `OneHotEncoder`. The statistics keep all of them.

    References
    ----------
    Krzanowski (1975), "Discrimination and classification using both binary and continuous variables", Journal
    of the American Statistical Association 70.

    Examples
    --------
    >>> import pandas as pd
    >>> from streamgda import Categorical, GaussianNB
    >>> rows = pd.DataFrame({"size": [1.0, 2.0, 7.0, 8.0], "shop": [3, 3, 4, 4]})
    >>> model = GaussianNB(categories=Categorical(columns=["shop"])).fit(rows, [0, 0, 1, 1])
    >>> model.categories_
    {'shop': [3, 4]}
    >>> model.set_params(categories__alpha=0.5).categories
    Categorical(columns=('shop',), alpha=0.5)
    """

    columns: Literal["auto"] | Sequence[str] = "auto"
    model: Literal["dummies", "conditional"] | None = None
    alpha: float = 1.0
    ridge: float = 1.0
    max_categories: int | None = 255

    def __post_init__(self) -> None:
        if any(getattr(self, field.name) is not field.default for field in fields(self)):
            self._check_params()
        if not isinstance(self.columns, str):
            object.__setattr__(self, "columns", tuple(map(str, self.columns)))

    def _check_params(self) -> None:
        # What scans with the defaults does without scikit-learn, which takes a second to import.
        from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

        constraints = {
            "columns": [StrOptions({"auto"}), "array-like"],
            "model": [StrOptions(dict.fromkeys(("dummies", "conditional")).keys()), None],
            "alpha": [Interval(Real, 0, None, closed="left")],
            "ridge": [Interval(Real, 0, None, closed="neither")],
            "max_categories": [Interval(Integral, 2, None, closed="left"), None],
        }
        validate_parameter_constraints(constraints, self.get_params(), "Categorical")

    @classmethod
    def of(cls, model: Any) -> Self:
        """The option of a model. A model without categories may still read a source that has some."""
        option: Self | None = option_of("categories", model.categories)
        return cls() if option is None else option

    @classmethod
    def from_old(cls, **params: Any) -> Self | None:
        """The option of a model that version 0.2 saved; None for one of numbers alone."""
        columns, model = params.pop("columns", None), params.pop("model", "dummies")
        rest = {**params, "model": None if model == "dummies" else model}
        if columns is None:
            option = cls((), **rest)
            return None if option == cls(()) else option
        return cls("auto" if columns == "from_dtype" else columns, **rest)

    def check(self, model: Any) -> None:
        """Raise ValueError if a model does not treat categories so."""
        self.treatment(model)

    def treatment(self, model: Any) -> Treatment | None:
        """How a model treats categories; None if it takes none."""
        known: tuple[Treatment, ...] = model._ways_to_encode
        wanted = [
            way for way in known if self.model in {None, "dummies" if way == "features" else "conditional"}
        ]
        if known and not wanted:
            raise ValueError(
                f"{type(model).__name__} does not take Categorical(model={self.model!r}); leave it out, or "
                "use LinearDiscriminantAnalysis, which takes both models"
            )
        return wanted[0] if wanted else None

    # ------------------------------------------------------------------ how columns are read

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names, and not by their types."""
        return not isinstance(self.columns, str)

    @property
    def identity(self) -> list[Any]:
        """Nothing: the other parameters are those of models."""
        return []

    def chosen(self, features: Sequence[str], stored: pa.Schema, origin: str) -> tuple[str, ...]:
        """The features with categories, in order; ValueError for a name that is no feature."""
        if isinstance(self.columns, str):
            names = {
                name
                for name, kind in types_of(features, stored).items()
                if label_kind(kind) == "str" or pa.types.is_dictionary(kind)
            }
        else:
            names = matching(self.columns, features, origin)
        return tuple(name for name in features if name in names)

    def takes(self, arrow_type: pa.DataType) -> bool:
        """Whether a column of this type can have categories."""
        return label_kind(arrow_type) is not None

    def read(
        self, columns: Mapping[str, pa.Array], numbers: Mapping[str, NDArray[Any]], origin: str
    ) -> MixedColumns:
        """The numbers of a batch, and the codes of the columns with categories."""
        pairs = [coded(*labels_of(columns[name], f"{origin}: column {name!r}")) for name in columns]
        categories = Categories(tuple(numbers), tuple(columns), tuple(values for values, _ in pairs))
        return MixedColumns(categories, list(numbers.values()), [codes for _, codes in pairs])
