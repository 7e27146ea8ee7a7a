"""Each row scored by the model of all the other rows, in closed form.

Without a row x of weight w, its class k has the mean m_k − w δ / (n_k − w) and the scatter W_k − β δ δᵀ,
where δ = x − m_k and β = w n_k / (n_k − w). So each covariance loses a matrix of rank one, and distances and
determinants follow from those of all the rows (Sherman & Morrison 1950; the matrix determinant lemma).
"""

from __future__ import annotations

from typing import Any

from streamgda.blocks.wording import Message
from streamgda.estimators.classifier import GaussianClassifier
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.estimators.naive_bayes import GaussianNB
from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
from streamgda.selection.diagonal_downdate import DiagonalDowndate
from streamgda.selection.discriminant_downdate import DiscriminantDowndate
from streamgda.selection.downdate import Downdate
from streamgda.statistics.base import Statistics


def check_closed_form(estimator: GaussianClassifier[Any]) -> None:
    """Raise ValueError for an estimator whose rows cannot be left out in closed form."""
    kinds = (LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianNB)
    estimated = [
        f"⟨{name}={getattr(estimator, name)!r}⟩"
        for name in ("shrinkage", "pooling")
        if isinstance(getattr(estimator, name, None), str)
    ]
    if getattr(estimator, "covariance_estimator", None) is not None:
        estimated.append("a covariance_estimator")
    if getattr(estimator, "predictive", "plugin") != "plugin":
        estimated.append(f"⟨predictive={getattr(estimator, 'predictive', None)!r}⟩")
    if type(estimator) not in kinds or estimated:
        why = f"with {', '.join(estimated)}" if estimated else "of this kind"
        raise ValueError(
            Message(
                f"⟨cv='loo'⟩ has no closed form for {type(estimator).__name__} {why}: each row would need "
                "another fit. It has one for LDA, QDA and GaussianNB with numbers for parameters; else set "
                "⟨cv⟩ to a number"
            )
        )


def downdate_of(estimator: GaussianClassifier[Any], statistics: Statistics) -> Downdate:
    """What leaves rows out of the model of an estimator; see `Downdate`.

    Raises
    ------
    ValueError
        If there is no closed form, or all rows but one do not determine the model.
    """
    check_closed_form(estimator)
    estimator._validate_params()
    statistics = statistics.ordinary()
    if statistics.keeps_patterns:
        raise ValueError(
            Message(
                "⟨cv='loo'⟩ has a closed form for complete rows alone, and here features are missing; set "
                "⟨cv⟩ to a number, or leave such rows out, with ⟨missing='drop'⟩"
            )
        )
    statistics = statistics.to_covariance_type(**estimator.required_statistics())
    kind = DiagonalDowndate if isinstance(estimator, GaussianNB) else DiscriminantDowndate
    return kind(estimator, statistics)
