"""QDA, LDA and naive Bayes side by side, on two features of tumours, benign or malignant.

The three models differ in one thing, the covariance of the classes: QDA gives each class its own, LDA gives
all classes the same, and naive Bayes gives each class one without correlations. The ellipses show the
covariances, and the boundaries follow from them: a conic, a straight line, and a conic along the axes. Below
are the ROC and precision-recall curves on the half of the data that the models have not seen.

Run as ``python textbook_comparison.py [folder]``; it writes textbook_comparison.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import PrecisionRecallDisplay, RocCurveDisplay
from sklearn.model_selection import train_test_split

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, evaluate
from streamgda.plotting import DecisionRegionsDisplay

MODELS = {
    "QDA": (QuadraticDiscriminantAnalysis, "a covariance for each class"),
    "LDA": (LinearDiscriminantAnalysis, "one covariance for all"),
    "naive Bayes": (GaussianNB, "no correlations"),
}
FEATURES = ["mean radius", "mean concave points"]
RANGES = {"xlim": (4, 28), "ylim": (-0.02, 0.2)}
PANELS = [[name for name in MODELS for _ in range(2)], ["roc"] * 3 + ["pr"] * 3]


def main(folder: Path) -> None:
    """Fit, evaluate, print, draw."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    kinds = np.where(y == 1, "benign", "malignant")
    X_train, X_test, y_train, y_test = train_test_split(
        X[FEATURES], kinds, test_size=0.5, stratify=kinds, random_state=0
    )
    figure, axes = plt.subplot_mosaic(PANELS, figsize=(12, 7.5), layout="constrained")
    print(f"{'':<12} accuracy  log loss  ROC area  average precision")
    for (name, (estimator, covariance)), colour in zip(
        MODELS.items(), ["black", "tab:orange", "tab:blue"], strict=True
    ):
        model = estimator().fit(X_train, y_train)
        DecisionRegionsDisplay.from_estimator(model, X_test, y_test, **RANGES, ax=axes[name])
        axes[name].set_title(f"{name}: {covariance}")
        evaluation = evaluate(model, X_test, y_test)
        area, precision = evaluation.roc_auc[1], evaluation.average_precision[1]
        line = {"color": colour, "label": f"{name} (area {area:.3f})"}
        fpr, tpr, _ = evaluation.roc_curve()
        RocCurveDisplay(fpr=fpr, tpr=tpr).plot(ax=axes["roc"], curve_kwargs=line)
        line = {"color": colour, "label": f"{name} (average precision {precision:.3f})"}
        precisions, recalls, _ = evaluation.precision_recall_curve()
        PrecisionRecallDisplay(precisions, recalls).plot(ax=axes["pr"], curve_kwargs=line)
        print(
            f"{name:<12} {evaluation.accuracy:8.1%} {evaluation.log_loss:9.3f} {area:9.3f} {precision:18.3f}"
        )
    axes["roc"].set(title="malignant against benign", aspect="auto")
    axes["pr"].set(title="malignant against benign", aspect="auto")
    figure.savefig(folder / "textbook_comparison.png", dpi=90)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
