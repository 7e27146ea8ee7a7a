"""Mixture discriminant analysis: each class is several normal subclasses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels, label_columns, whole_classes
from streamgda.data.blocks.options import option_of
from streamgda.data.sources.base import Source
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.extensions.subclasses.centers import SubclassCenters
from streamgda.extensions.subclasses.clustering import Subclasses, centers_in
from streamgda.extensions.subclasses.mixtures import Mixtures, shares_of
from streamgda.extensions.subclasses.sampled import SampledStatistics
from streamgda.models.estimators.forgetting import Times
from streamgda.models.estimators.generative import (
    GenerativeClassifier,
    PoolingParameter,
    pooled_rows,
    pooled_shares,
)
from streamgda.models.estimators.lda import LinearDiscriminantAnalysis
from streamgda.models.estimators.moment import of_one_moment
from streamgda.models.estimators.naive_bayes import GaussianNB
from streamgda.models.estimators.options import OptionOf
from streamgda.models.estimators.priors import priors_of
from streamgda.models.estimators.qda import QuadraticDiscriminantAnalysis
from streamgda.models.estimators.reading import one_of, source_to_learn
from streamgda.models.estimators.shrinkage import Shrinkage
from streamgda.models.estimators.view import Predictive, View
from streamgda.models.gaussians.base import Densities
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.missing import Read
from streamgda.statistics.required import Required


@dataclass(eq=False, repr=False)
class MixtureDiscriminantAnalysis(GenerativeClassifier[Any]):
    """Mixture discriminant analysis: a class is several normal subclasses, each with a mean of its own.

    Each row is of the subclass of its class whose centre is nearest, by the covariance within the classes.
    The statistics are those of the subclasses, and the density of a class is that of its subclasses, weighted
    by their shares. With one subclass for each class it is QDA, LDA or naive Bayes, to the last bit.

    Centres are found by k-means in a sample of the rows of each class. `fit` reads the rows twice: once for
    the covariance and the sample, once to learn. If `subclasses` is the `subclass_centers_` of a model, which
    hold the covariance, it reads them once. So batches, other machines and ledgers learn states that add up.
    `partial_fit` without centres draws those of a class in the first batch that has `rows_per_class` rows of
    it, as `Subclasses` has it, with the covariance of the first of these batches. The rows that the class had
    before are a subclass of their own.

    Parameters
    ----------
    subclasses : int, dict, Subclasses or SubclassCenters, default=3
        The number of subclasses of each class, for all or by label; `Subclasses` says how centres are drawn.
        Or the centres: with the covariance that measures distances, or as a dict of label to array-like, for
        Euclidean distances. Classes without centres have one subclass. Statistics that keep subclasses apart
        have their centres, which are no more than this says.
    covariance_type : {"full", "tied", "diag"}, default="full"
        Whether each subclass has a covariance, as in QDA, all share one, as in LDA and the classic
        mixture discriminant analysis, or features are independent, as in naive Bayes, with its smoothing:
        variances below 1e-9 of the largest are lost in it, so bring features to similar units.
    pooling : float in [0, 1], "bayes" or None, default="bayes"
        As in `QuadraticDiscriminantAnalysis`, for subclasses and the covariance within them; not for "tied".
    priors : array-like of shape (n_classes,) or dict, optional
        As in `QuadraticDiscriminantAnalysis`.
    shrinkage : float in [0, 1], "auto", "oas", "bayes" or None, default=None
        As in `QuadraticDiscriminantAnalysis`, for each subclass, or with "tied" as in
        `LinearDiscriminantAnalysis`; not for "diag".
    reg_param : float in [0, 1], default=0.0
        As in `QuadraticDiscriminantAnalysis`; for "full" alone.
    tol : float, default=1e-4
        As in `QuadraticDiscriminantAnalysis`.
    missing : {"raise", "marginal"} or Marginal, default="raise"
        As in `QuadraticDiscriminantAnalysis`. The nearest centre is that by the features that are observed.
        Rows are read once, whatever `Marginal` allows.
    singular : {"raise", "skip"} or None, default=None
        As in `QuadraticDiscriminantAnalysis`, for subclasses. With pooling, few are singular.
    predictive : {"plugin", "student"}, default="plugin"
        As in `QuadraticDiscriminantAnalysis`, for subclasses.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`.
    temperature : float, default=1.0
        Divides ln p(x, k) before it becomes a posterior probability: p(k | x) ∝ p(x, k)^(1 / temperature).
        Above 1, probabilities are less sure; the predicted classes stay. `Evaluation.best_temperature` fits
        it to rows that were not learnt. Densities, as of `score_samples`, do not depend on it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. With ``covariance_type="tied"``, each category is a feature of
        0 and 1, and the numbers alone decide to which subclass a row belongs. The other types take no
        categories.
    half_life : float, optional
        As in `QuadraticDiscriminantAnalysis`.

    Attributes
    ----------
    statistics_ : ClassStatistics, ExactClassStatistics or IncompleteStatistics
        What the model has learnt, of the classes (class, subclass).
    subclasses_ : list of tuple
        The label and the number of each subclass that has rows, in order.
    subclass_centers_ : SubclassCenters or None
        The centres by class, with the covariance that measures distances from them.
    subclass_means_ : ndarray of shape (n_subclasses, n_features)
        The mean of the rows of each subclass.
    subclass_weights_ : ndarray of shape (n_subclasses,)
        Its share of the rows of its class.
    classes_, n_features_in_, feature_names_in_, priors_, n_reads_
        As in `QuadraticDiscriminantAnalysis`.
    means_ : ndarray of shape (n_classes, n_features)
        Means of the classes.
    pooling_ : ndarray of shape (n_subclasses,)
        The share of the pooled covariance in that of each subclass.
    prior_rows_ : float
        How many rows the pooled covariance counts for.

    References
    ----------
    Hastie & Tibshirani (1996), "Discriminant analysis by Gaussian mixtures", Journal of the Royal Statistical
    Society B 58; here with rows assigned to subclasses once, by their nearest centres.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import MixtureDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 2)) + 6 * rng.integers(0, 2, (2000, 1)) + [[0, 3]] * y[:, None] * [[-1, 1]]
    >>> X[:, 1] += np.where(y == 0, np.abs(X[:, 0] - 3), 0)  # one class is bent
    >>> model = MixtureDiscriminantAnalysis(subclasses=2).fit(X, y)
    >>> model.subclasses_
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    >>> model.score(X, y) > QuadraticDiscriminantAnalysis().fit(X, y).score(X, y)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "subclasses": [Interval(Integral, 1, None, closed="left"), Mapping, OptionOf("subclasses")],
        "covariance_type": [one_of("full", "tied", "diag")],
        "shrinkage": LinearDiscriminantAnalysis._parameter_constraints["shrinkage"],
    }
    _renormalises_priors = True
    _of_one_class: ClassVar[dict[str, Any]] = {**GenerativeClassifier._of_one_class, "subclasses": 1}
    divides_rows = True
    _told_by_statistics = (*GenerativeClassifier._told_by_statistics, "subclasses")
    _fixed_by_rule = ("subclasses",)
    _remedy_for_encoded = "set covariance_type='tied', or use LinearDiscriminantAnalysis"

    subclasses: Any = 3
    _: KW_ONLY
    covariance_type: CovarianceType = "full"
    pooling: PoolingParameter = "bayes"
    priors: ArrayLike | None = None
    shrinkage: Shrinkage = None
    reg_param: float = 0.0
    tol: float = 1e-4
    singular: Any = None
    predictive: Predictive = "plugin"

    @property
    def _ways_to_encode(self) -> tuple[str, ...]:
        return ("features",) if self.covariance_type == "tied" else ()

    _covariance_type = property(attrgetter("covariance_type"))

    # ------------------------------------------------------------------ the model of the subclasses

    def _normal(self, **params: Any) -> GenerativeClassifier[Any]:
        """The model whose classes are the subclasses."""
        params |= {name: getattr(self, name) for name in self._adding}
        if self.covariance_type == "diag":
            return GaussianNB(pooling=self.pooling, **params)
        params |= {"shrinkage": self.shrinkage, "tol": self.tol}
        if self.covariance_type == "tied":
            return LinearDiscriminantAnalysis(**params)
        own: dict[str, Any] = {"reg_param": self.reg_param, "singular": self.singular}
        return QuadraticDiscriminantAnalysis(pooling=self.pooling, **own, **params)

    def _validate_params(self) -> None:
        super()._validate_params()
        for name, kinds in {"shrinkage": ("full", "tied"), "reg_param": ("full",)}.items():
            if getattr(self, name) and self.covariance_type not in kinds:
                raise ValueError(
                    f"covariance_type={self.covariance_type!r} takes no {name}; leave it out, or set "
                    "covariance_type='full'"
                )
        option_of("subclasses", self.subclasses)  # raises if it stands for none
        self._normal()._validate_params()

    def required_statistics(self) -> Required:
        """What the statistics of the model keep."""
        return self._normal().required_statistics()

    def _finalise(self, statistics: Statistics) -> Any:
        normal, statistics = self._normal(), statistics.narrowed(self.required_statistics())
        if self.covariance_type == "tied":  # here the priors set the centre of all rows
            classes, starts = whole_classes(statistics.classes)
            every, normal.priors = np.arange(len(statistics.classes)), self.priors
            if len(classes) < len(every):
                shares = shares_of(starts, statistics.weights)
                sizes = np.diff(starts, append=len(every))
                priors = priors_of(self, classes, np.add.reduceat(statistics.weights, starts))
                classes, normal.priors = every, shares * np.repeat(priors, sizes)
            statistics = statistics.of_classes(every, classes)
        return normal._finalise(statistics)

    def _n_covariance_parameters(self, gaussians: Any, statistics: Statistics) -> float:
        return self._normal()._n_covariance_parameters(gaussians, statistics)

    def labels_of(self, statistics: Statistics) -> Labels:
        """The labels of the classes of statistics, sorted; shape (n_classes,)."""
        return whole_classes(statistics.classes)[0]

    def _view(self, statistics: Statistics) -> View:
        view = super()._view(statistics)
        labels, starts = whole_classes(statistics.classes)
        if len(labels) == len(statistics.classes):
            return replace(view, labels=labels)

        def mixed(densities: Densities, view: View) -> Mixtures:
            return Mixtures(densities, starts, shares_of(starts, view.numbers.weights))

        weights = np.add.reduceat(view.weights, starts)
        return replace(view, labels=labels, weights=weights, chain=(*view.chain, mixed))

    # ------------------------------------------------------------------ learning

    @property
    def _how(self) -> Subclasses | SubclassCenters:
        """How centres are drawn, or those that are given."""
        how: Subclasses | SubclassCenters = option_of("subclasses", self.subclasses)
        return how

    def _check_rule(self, statistics: Statistics) -> None:
        how, centers = self._how, statistics.rule
        wanted = how.n if isinstance(how, Subclasses) else {label: len(own) for label, own in how.items()}
        for label, own in centers.items() if isinstance(centers, SubclassCenters) else ():
            most = wanted.get(label, 1) if isinstance(wanted, Mapping) else wanted
            if len(own) > most:
                raise ValueError(
                    f"these statistics have {len(own)} subclasses of {label!r}: leave out subclasses={how!r}"
                )

    def _empty_for(self, read: Read, is_more: bool) -> tuple[Statistics, int]:
        how, n_reads = self._how, 0
        if is_more and "statistics_" in self.__dict__:
            centers = self.subclass_centers_
        elif isinstance(how, SubclassCenters):
            centers = how
        else:
            sampled, n_reads = read(self._empty_sample(how.rows_per_class)), 1
            draw = how.more_centers if is_more else how.centers
            centers = draw(sampled, self.covariance_type)
        return self._empty(self.required_statistics(), centers), n_reads

    def _empty_sample(self, rows_per_class: int) -> SampledStatistics:
        """The state of no rows from which centres are drawn."""
        kind: CovarianceType = "diag" if self.covariance_type == "diag" else "tied"
        return SampledStatistics(self._empty(self._required(kind)), rows_per_class)

    @classmethod
    def rules_for(
        cls, models: Sequence[Any], read: Read, source: Source, scheduler: Scheduler = None
    ) -> tuple[list[Any], int]:
        """The centres of each model, which are drawn from one sample, and how many reads that takes."""
        drawing = [model for model in models if isinstance(model._how, Subclasses)]
        if drawing:
            widest = min(drawing, key=lambda model: model.covariance_type == "diag")
            sampled = read(widest._empty_sample(max(model._how.rows_per_class for model in drawing)))
        rules = [
            model._how.centers(sampled, model.covariance_type) if model in drawing else model._how
            for model in models
        ]
        return rules, int(bool(drawing))

    def _learn_blocks(
        self, blocks: Iterator[Block], fields_after: Callable[[], dict[str, Any]], now: Times | None = None
    ) -> None:
        """Add the rows of a batch. Classes of which it has enough get their centres, if it is not refused."""
        statistics = self.statistics_
        changes, rule = statistics.changes, statistics.rule
        try:
            super()._learn_blocks(iter(self._with_centers(blocks)), fields_after, now)
        except BaseException:
            if statistics.changes is changes:
                statistics.rule = rule
            raise

    def _with_centers(self, blocks: Iterable[Block]) -> Iterable[Block]:
        """The rows of a batch, whose classes have got centres if it has enough rows of them."""
        centers, how = self.subclass_centers_, self._how
        if centers is None or isinstance(how, SubclassCenters):
            return blocks
        blocks = list(blocks)
        counts: Counter[Any] = Counter()
        for block in blocks:
            numbers = np.bincount(block.codes, minlength=len(block.classes)).tolist()
            counts.update(dict(zip(block.classes.tolist(), numbers, strict=True)))
        if any(label not in centers for label, n in counts.items() if n >= how.rows_per_class):
            sampled = self._empty_sample(how.rows_per_class)
            sampled.update_blocks(blocks)
            with self.statistics_.lock:
                self.statistics_.rule = how.more_centers(sampled, self.covariance_type, self.statistics_)
        return blocks

    def draw_centers(
        self, source: Source, *, scheduler: Scheduler = None, progress: Progress = False
    ) -> SubclassCenters:
        """The centres by which `fit` would learn a source, in the first of its reads.

        With them, `accumulate`, ledgers and other machines learn states that add up.

        Parameters
        ----------
        source : Source
            As `scan_parquet` returns it.
        scheduler, progress : optional
            As for `accumulate`.

        Raises
        ------
        ValueError
            As `fit` does.
        """
        self._validate_params()
        read = source_to_learn(self, source, None, None, "raise", scheduler, progress)
        centers: SubclassCenters = self.rules_for([self], read, source)[0][0]
        return centers

    def _narrowed(self, statistics: Statistics) -> Statistics:
        if not statistics.classes.dtype.names and statistics.n_rows and getattr(self._how, "n", 0) != 1:
            raise ValueError(
                "these statistics do not keep subclasses apart: accumulate again with the centres that "
                "draw_centers returns as rule, or set subclasses to 1"
            )
        return statistics.narrowed(self.required_statistics())

    def _plain_params(self) -> dict[str, Any]:
        how = self._how
        plain = how.to_plain() if isinstance(how, Subclasses) else how.to_document()
        return {**super()._plain_params(), "subclasses": plain}

    # ------------------------------------------------------------------ fitted attributes

    pooling_ = property(pooled_shares)
    prior_rows_ = property(pooled_rows)

    @property
    @of_one_moment
    def subclasses_(self) -> list[tuple[Any, int]]:
        """The label of the class and the number of each subclass that has rows."""
        columns = label_columns(self.statistics_.classes)
        labels = self._types.of_labels(columns["label"]).tolist()
        numbers = columns["subclass"].tolist() if "subclass" in columns else [0] * len(labels)
        return list(zip(labels, numbers, strict=True))

    @property
    def subclass_centers_(self) -> SubclassCenters | None:
        """The centres that divide the rows of a class among subclasses, and their covariance."""
        return centers_in(self.statistics_)

    @property
    def subclass_means_(self) -> Array:
        """The mean of the rows of each subclass."""
        return self.statistics_.means

    @property
    @of_one_moment
    def subclass_weights_(self) -> Array:
        """The share of each subclass in the rows of its class."""
        return shares_of(whole_classes(self.statistics_.classes)[1], self.statistics_.weights)

    @property
    @of_one_moment
    def means_(self) -> Array:
        """Means of the classes."""
        return self._among_announced(self.class_statistics().means)

    def class_statistics(self) -> Statistics:
        """The statistics of the classes, as `QuadraticDiscriminantAnalysis` learns them."""
        return self.statistics_.by_label()

    # ------------------------------------------------------------------ what mixtures lack

    @property
    def log_likelihood_(self) -> NoReturn:
        """Not there: the statistics of subclasses do not give the likelihood of mixtures."""
        raise AttributeError(
            "the likelihood of mixtures needs the rows, which are not kept: score_samples gives that of any, "
            "and cross_validate that of rows which were not learnt"
        )
