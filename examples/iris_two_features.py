"""Iris with two features: the parameters of QDA, the boundary of two classes, an imputed value, an outlier.

Run as ``python iris_two_features.py [folder]``; it writes iris_two_features.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

from streamgda import QuadraticDiscriminantAnalysis
from streamgda.plotting import DecisionRegionsDisplay

FEATURES = ["petal length (cm)", "petal width (cm)"]


def main(folder: Path) -> None:
    """Fit, print the parameters and a boundary, impute a value, find an outlier, draw."""
    iris = load_iris(as_frame=True)
    X, kinds = iris.data[FEATURES], iris.target_names[iris.target]
    model = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, kinds)
    for kind, mean, covariance in zip(model.classes_, model.means_, model.covariance_, strict=True):
        print(f"{kind:<10} mean {mean.round(3)}  covariance {covariance.round(3).tolist()}")
    print(f"accuracy {model.score(X, kinds):.1%}")

    boundary = model.boundary("virginica", "versicolor")
    (a, b), (_, d) = boundary.A
    e, f = boundary.b
    print("\nvirginica is likelier than versicolor where, of length x and width y,")
    print(f"{a:.2f} x² {2 * b:+.2f} xy {d:+.2f} y² {e:+.2f} x {f:+.2f} y {boundary.c:+.2f} > 0")

    flowers = np.array([[4.5, np.nan], [4.5, 1.5], [9.0, 0.2]])
    named = X.iloc[:3].copy()
    named.iloc[:] = flowers
    print("\na petal 4.5 cm long is expected to be", f"{model.impute(named)[0, 1]:.2f} cm wide")
    for (length, width), p_value in zip(flowers[1:], model.p_values(named[1:]).max(axis=1), strict=True):
        verdict = "an outlier" if p_value < 0.001 else "nothing special"
        print(f"{length} × {width} cm: {verdict} (p = {p_value:.2g})")

    display = DecisionRegionsDisplay.from_estimator(model, X, kinds, probabilities=[0.5, 0.9, 0.99])
    display.figure_.savefig(folder / "iris_two_features.png", dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
