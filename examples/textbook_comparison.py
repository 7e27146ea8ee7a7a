"""QDA, LDA and naive Bayes side by side, on two features of tumours, benign or malignant.

The three models differ in one thing, the shape of the ellipses: one for each class, one for all, or one
without tilt. From that follow their boundaries (a conic, a straight line, a conic along the axes), drawn here
for the breast cancer data that come with scikit-learn, with the ROC and precision-recall curves on the half
that the models have not seen.

Run as ``python textbook_comparison.py [folder]``; it writes textbook_comparison.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, evaluate
from streamgda.plotting import DecisionRegionsDisplay, PrecisionRecallDisplay, RocCurveDisplay

MODELS = {
    "QDA": QuadraticDiscriminantAnalysis,
    "LDA": LinearDiscriminantAnalysis,
    "naive Bayes": GaussianNB,
}
FEATURES = ["mean radius", "mean concave points"]


def main(folder: Path) -> None:
    """Fit, judge, print, draw."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    kinds = np.where(y == 1, "benign", "malignant")
    X_train, X_test, y_train, y_test = train_test_split(
        X[FEATURES], kinds, test_size=0.5, stratify=kinds, random_state=0
    )
    figure, axes = plt.subplot_mosaic(
        [[*MODELS], ["roc", "pr", "pr"]], figsize=(11, 7.5), layout="constrained"
    )
    print(f"{'':<12} accuracy  log loss  ROC area  average precision")
    for name, estimator in MODELS.items():
        model = estimator().fit(X_train, y_train)
        display = DecisionRegionsDisplay.from_estimator(model, X_test, y_test, ax=axes[name])
        display.ax_.set_title(name)
        judged = evaluate(model, X_test, y_test)
        line = {"label": f"{name} (area {judged.roc_auc[1]:.3f})"}
        RocCurveDisplay.from_evaluation(judged, ax=axes["roc"], curve_kwargs=line)
        line = {"label": f"{name} (average precision {judged.average_precision[1]:.3f})"}
        PrecisionRecallDisplay.from_evaluation(judged, ax=axes["pr"], curve_kwargs=line)
        print(
            f"{name:<12} {judged.accuracy:8.1%} {judged.log_loss:9.3f} {judged.roc_auc[1]:9.3f} "
            f"{judged.average_precision[1]:18.3f}"
        )
    axes["roc"].set_title("malignant, against benign")
    axes["pr"].set(title="malignant, against benign", aspect="auto")
    figure.savefig(folder / "textbook_comparison.png", dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
