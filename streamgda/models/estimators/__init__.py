"""The scikit-learn estimators. They differ in how statistics become densities, and share all the rest.

An estimator is one file and two lines:

1. A module with a subclass of `streamgda.models.estimators.generative.GenerativeClassifier`, a dataclass
   whose fields are its parameters besides those of all classifiers. It defines: `_covariance_type`, the kind
   of covariance that it needs; `_finalise`, which computes densities
   (`streamgda.models.gaussians.base.Gaussians`) from statistics: `SeparateGaussians`, say, takes the means
   and a `Whitening.of` each covariance. Its `_parameter_constraints` add to those of
   the base class the values that its own parameters may have, as scikit-learn declares them. `to_sklearn`
   gives a model of scikit-learn where it has such.
2. Its entry in `ESTIMATORS`.
3. Its name beside ``lda`` in the import contract ``estimators`` of ``pyproject.toml``.

The estimator can then be imported from `streamgda`. It is saved and loaded, learns from every source,
predicts and is evaluated out of core, and the command line offers it as ``--model``. ``streamgda search``
takes parameters of its own as ``--try "NAME parameter=1,2"``; ``python -m tests.cli.table`` makes them
options of the other commands. Editors complete its name once
`streamgda/__init__.pyi` imports it too.

The modules, from the top down:

- `saved`: `load`. `pipeline`: pipelines that end in a model, which are saved too.
- `lda`, `qda`, `naive_bayes`: the estimators. `streamgda.extensions.edda` and
  `streamgda.extensions.subclasses` have others.
- `discriminant`: what LDA and QDA share.
- `generative`: samples, imputed values, outliers, boundaries and criteria, and the parameter `pooling` of
  QDA and naive Bayes. `likelihood`: the log-likelihood of rows by their statistics. `contributions`: why a
  row is predicted so.
- `exchange`: checks and parameters for models of scikit-learn. `shrinkage`: shrunk covariances.
- `sql`: models as SQL. `formula`: the scores of a model as a few arrays, for SQL and ONNX.
- `classifier`: predictions. `scores`: densities computed from statistics, and the scores of rows by them.
- `learning`: from rows to statistics. `reading`: how rows are checked and read. `forgetting`: how they age.
- `traps`: warnings of models that are of little use.
- `moment`: how a model is read at one moment while other threads learn.
- `singular`: the covariance of each class of QDA is whitened; or why the class has no density.
- `view`: what a model reads of its statistics, and the steps from normal densities to those of rows.
- `lazy`: methods that also take Dask collections, and arrays on a device.
- `options`: parameters that hold several, and what replaced those of older versions.
- `priors`, `dtypes`: prior probabilities, types. `libraries`: arrays of other libraries.
"""

from importlib import import_module
from typing import Any, NamedTuple

DOCUMENTATION = "https://github.com/streamgda/streamgda/blob/main/examples/guides/getting-started.md"


class Entry(NamedTuple):
    """The module of an estimator, and the value of ``--model`` that selects it."""

    module: str
    option: str


ESTIMATORS: dict[str, Entry] = {
    "QuadraticDiscriminantAnalysis": Entry("streamgda.models.estimators.qda", "qda"),
    "LinearDiscriminantAnalysis": Entry("streamgda.models.estimators.lda", "lda"),
    "GaussianNB": Entry("streamgda.models.estimators.naive_bayes", "nb"),
    "GaussianDiscriminantAnalysis": Entry("streamgda.extensions.edda.estimator", "edda"),
    "MixtureDiscriminantAnalysis": Entry("streamgda.extensions.subclasses.mda", "mda"),
    "RidgeClassifier": Entry("streamgda.extensions.ridge.classifier", "ridge"),
    "LeafClassifier": Entry("streamgda.extensions.leaves.classifier", "leaves"),
    "RandomFeatureClassifier": Entry("streamgda.extensions.ridge.random", "random-features"),
}
"""The estimators, by the names of their classes."""

STUDENT = "streamgda.extensions.students.predictive:predictive"
"""The step from normal densities to Student t densities."""

JOBS = {
    "read": "streamgda.jobs.passes.accumulate:read_into",
    "calibrate": "streamgda.jobs.selection.calibration:calibrate",
}
"""What runs over whole datasets and stands above the models."""

DEVICES = {
    "learn": "streamgda.extensions.devices.rows:rows_to_learn",
    "answer": "streamgda.extensions.devices.scores:answer",
}
"""What learns and scores rows on a device, within scikit-learn's ``array_api_dispatch``."""

SKOPS_TYPES = [
    "streamgda.extensions.categories.columns.Categories",
    "streamgda.extensions.categories.reading.Categorical",
    "streamgda.data.blocks.schema.Columns",
    *(f"{entry.module}.{name}" for name, entry in ESTIMATORS.items()),
    "streamgda.models.estimators.dtypes.FittedTypes",
    "streamgda.models.estimators.pipeline.ModelPipeline",
    "streamgda.data.sources.computed.ComputedColumns",
    "streamgda.data.sources.maps.rows.StoredRows",
    "streamgda.data.sources.maps.rows.StoredSchema",
    *(f"streamgda.statistics.covariances.{kind}" for kind in ("Diagonal", "Full", "Tied")),
    "streamgda.statistics.floating.fourth_moments.FourthMoments",
    "streamgda.statistics.floating.moments.Moments",
    "streamgda.statistics.floating.state.ClassStatistics",
    "streamgda.extensions.exact.numbers.ExactArray",
    "streamgda.extensions.exact.numbers.ExactMoments",
    "streamgda.extensions.exact.state.ExactClassStatistics",
    "streamgda.extensions.exact.sums.Sums",
    "streamgda.extensions.incomplete.policy.Marginal",
    "streamgda.statistics.labelled.Labelled",
    *(
        f"streamgda.extensions.ridge.{name}"
        for name in ("features.RandomFeatures", "rule.MappedRows", "sampled.RowSample")
    ),
    *(
        f"streamgda.extensions.leaves.{name}"
        for name in (
            *("classifier.UnseenSample", "counts.LeafCounts", "features.LeafFeatures", "rule.LeafRows"),
            "state.LeafStatistics",
        )
    ),
    "streamgda.extensions.subclasses.centers.SubclassCenters",
    "streamgda.extensions.subclasses.sampled.Sample",
    "scipy.sparse._csr.csr_array",
]
"""The types that `skops.io.load` must trust to load an estimator that has learnt from complete rows."""


def estimator_named(name: str) -> type[Any]:
    """The class of an estimator, by its name.

    Raises
    ------
    KeyError
        If there is no estimator of this name.
    """
    kind: type[Any] = getattr(import_module(ESTIMATORS[name].module), name)
    return kind
