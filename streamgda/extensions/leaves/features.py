"""Leaves of trees: a forest grown on a sample sends each row to one leaf of each tree."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgda.statistics.kernels import find_leaves
from streamgda.statistics.validation import check_whole

_ROWS_TOGETHER = 1 << 11  # which stay in the cache while they go through the trees
_NODES = (
    ("features", np.int32, 1),
    ("children", np.int32, 2),
    ("thresholds", np.float32, 1),
    ("nan_left", np.uint8, 1),
)


class LeafFeatures(TransformerMixin, BaseEstimator):
    """The leaves of a forest as features: a row is 1 at one leaf of each tree, and 0 elsewhere.

    A sample of labelled rows grows the forest, by scikit-learn. It then takes each row by itself. States and
    models whose rows went through equal forests add up.

    Parameters
    ----------
    n_trees : int, default=8
        How many trees are grown.
    max_leaves : int or None, default=None
        The most leaves of a tree; None sets no limit.
    kind : {"random", "extra"}, default="random"
        Whether trees are those of a random forest, which look for the best threshold, or of extremely
        randomised trees, which draw it.
    max_features : float or "sqrt", default=0.4
        The share of the features that each split chooses from, or the root of their number.
    random_state : int, RandomState instance or None, default=0
        The seed of the forest.

    Attributes
    ----------
    n_features_in_ : int
        How many columns the sample had.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if they had any.
    n_outputs : int
        How many leaves there are.

    References
    ----------
    Moosmann, Triggs & Jurie (2006), "Fast discriminative visual codebooks using randomized clustering
    forests", NIPS; He et al. (2014), "Practical lessons from predicting clicks on ads at Facebook", ADKDD, of
    leaves under a linear model; Geurts, Ernst & Wehenkel (2006), "Extremely randomized trees", Machine
    Learning 63.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import LeafFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> features = LeafFeatures(3, max_leaves=4).fit(X, y)
    >>> features.transform(X).shape, features.transform(X[:1]).toarray().sum()
    ((150, 12), np.float64(3.0))
    """

    _choices: ClassVar[tuple[str, ...]] = ("random", "extra")

    def __init__(
        self,
        n_trees: int = 8,
        max_leaves: int | None = None,
        kind: Literal["random", "extra"] = "random",
        max_features: float | Literal["sqrt"] = 0.4,
        random_state: Any = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.kind = kind
        self.max_features = max_features
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    # ------------------------------------------------------------------ the forest is grown

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Grow the forest on a sample of labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The sample. NaN is a missing value.
        y : array-like of shape (n_rows,)
            Its labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is not valid, or a value is infinite or beyond float32.
        """
        from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier  # slow to import

        check_whole(self.n_trees, "n_trees", 1)
        if self.max_leaves is not None:
            check_whole(self.max_leaves, "max_leaves", 2)
        if self.kind not in self._choices:
            raise ValueError(f"kind must be 'random' or 'extra'; got {self.kind!r}")
        rows = validate_data(self, X, ensure_all_finite="allow-nan", dtype=np.float32)
        forest = (RandomForestClassifier if self.kind == "random" else ExtraTreesClassifier)(
            self.n_trees,
            max_leaf_nodes=self.max_leaves,
            max_features=self.max_features,
            random_state=self.random_state,
        )
        self._set_nodes([tree.tree_ for tree in forest.fit(rows, y).estimators_])
        return self

    def _set_nodes(self, trees: Sequence[Any]) -> None:
        """Put the nodes of all trees one after the other, in the order of their numbers."""
        sizes = [tree.node_count for tree in trees]
        roots = np.concatenate(([0], np.cumsum(sizes)))
        features = np.concatenate([tree.feature for tree in trees]).astype(np.int32)
        is_leaf = np.concatenate([tree.children_left for tree in trees]) < 0
        children = np.concatenate(
            [
                np.stack([tree.children_left, tree.children_right], axis=1) + root
                for tree, root in zip(trees, roots[:-1], strict=True)
            ]
        )
        children[is_leaf] = np.stack([np.arange(is_leaf.sum()), np.zeros(is_leaf.sum(), int)], axis=1)
        features[is_leaf] = -1
        thresholds = np.concatenate([tree.threshold for tree in trees])
        nan_left = np.concatenate([tree.missing_go_to_left for tree in trees]).astype(np.uint8)
        # A value in single precision is at most a threshold if it is at most the next single below that.
        singles = thresholds.astype(np.float32)
        singles = np.where(singles > thresholds, np.nextafter(singles, np.float32(-np.inf)), singles)
        singles[is_leaf] = 0.0
        nan_left[is_leaf] = 0
        self._nodes = features, children.astype(np.int32), singles, nan_left
        self._roots = roots[:-1].astype(np.int32)
        self._set_leaves()

    def _set_leaves(self) -> None:
        is_leaf = self._nodes[0] < 0
        starts = np.concatenate(([0], np.cumsum(is_leaf)))
        self.firsts = starts[np.append(self._roots, len(is_leaf))].astype(np.int64)
        """The first leaf of each tree, and the number of all leaves: (n_trees + 1,)."""

    @property
    def n_outputs(self) -> int:
        """How many leaves there are."""
        return int(self.firsts[-1])

    # ------------------------------------------------------------------ rows are mapped

    def leaves(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The numbers of the leaves of rows that have been checked: (n_rows, n_trees)."""
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(rows, np.float32)
        if not rows.flags.writeable:
            rows = rows.copy()
        found = [
            find_leaves(rows[start : start + _ROWS_TOGETHER], self._nodes, self._roots)
            for start in range(0, len(rows), _ROWS_TOGETHER)
        ]
        return np.concatenate(found) if found else np.empty((0, len(self._roots)), np.int32)

    def transform(self, X: ArrayLike) -> scipy.sparse.csr_array:
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers of any real type, which are rounded to float32. NaN is a missing value.

        Returns
        -------
        csr_array of shape (n_rows, n_leaves)
            1 at the leaves of each row. A row alone has the same leaves as among others, on every machine.

        Raises
        ------
        ValueError
            If a value is infinite, or the columns are not those of the sample.
        """
        check_is_fitted(self)
        leaves = self.leaves(
            validate_data(self, X, reset=False, ensure_all_finite="allow-nan", dtype=np.float32)
        )
        ends = np.arange(0, leaves.size + 1, leaves.shape[1])
        return scipy.sparse.csr_array(
            (np.ones(leaves.size), leaves.ravel(), ends), (len(leaves), self.n_outputs)
        )

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The names of the leaves: "tree0_leaf0" and so on."""
        check_is_fitted(self)
        numbers = [(t, i) for t, n in enumerate(np.diff(self.firsts)) for i in range(n)]
        return np.array([f"tree{t}_leaf{i}" for t, i in numbers], dtype=object)

    # ------------------------------------------------------------------ forests are saved and compared

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` reads."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        is_whole = isinstance(self.random_state, int | np.integer)
        return {
            **self.get_params(),
            "random_state": int(self.random_state) if is_whole else None,
            "names": None if names is None else names.tolist(),
            "n_columns": self.n_features_in_,
            "roots": self._roots.tolist(),
            "nodes": [
                b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
                for array in self._nodes
            ],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The forest that `to_document` made plain values of.

        Raises
        ------
        ValueError
            If they are not such.
        """
        try:
            features = cls(**{name: document[name] for name in cls._get_param_names()})
            features.n_features_in_ = int(document["n_columns"])
            if document["names"] is not None:
                features.feature_names_in_ = np.array(document["names"], dtype=object)
            nodes = []
            for (_, dtype, width), text in zip(_NODES, document["nodes"], strict=True):
                array = np.frombuffer(
                    b64decode(text, validate=True), np.dtype(dtype).newbyteorder("<")
                ).astype(dtype)
                nodes.append(array.reshape(-1, 2) if width == 2 else array)
            features._nodes = cast("Any", tuple(nodes))
            features._roots = np.array(document["roots"], np.int32)
            features._check_nodes()
            features._set_leaves()
        except (KeyError, TypeError, IndexError, binascii.Error) as error:
            raise ValueError(f"this is no forest: {error!r}") from error
        return features

    def _check_nodes(self) -> None:
        """Raise ValueError unless a row ends at a leaf of each tree, whatever its values."""
        features, children, thresholds, nan_left = self._nodes
        sizes = np.diff(np.append(self._roots, len(features)))
        is_leaf, inside = features < 0, children[features[: len(children)] >= 0]
        sound = (
            len(features) == len(children) == len(thresholds) == len(nan_left)
            and self._roots[:1].tolist() == [0]
            and (sizes > 0).all()
            and features.max(initial=-1) < self.n_features_in_
            and (inside > np.flatnonzero(~is_leaf)[:, None]).all()  # so that no way comes back
            and (inside < np.repeat(np.cumsum(sizes), sizes)[~is_leaf][:, None]).all()
            and (children[is_leaf, 0] == np.arange(is_leaf.sum())).all()
        )
        if not sound:
            raise ValueError("this is no forest: its nodes lead nowhere")
