"""What pictures of models show: their regions, ellipses, rows, labels and legends."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.plotting import DecisionRegionsDisplay, LinearProjectionDisplay
from tests.strategies import MODELS

KINDS = np.array(["setosa", "versicolor", "virginica"])
PAIRS = [(0, 1), (3, 0), ("petal width (cm)", "sepal width (cm)")]

every_model = pytest.mark.parametrize("model", MODELS)


def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, KINDS[y]


def positions(X, features):
    return [f if isinstance(f, int) else X.columns.get_loc(f) for f in features]


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


# ---------------------------------------------------------------------- decision regions


FIXED = [
    ({}, (2, 3)),
    ({0: 5.8, 1: 3.0}, (2, 3)),
    ({"petal width (cm)": 1.5, "sepal length (cm)": 6.5}, ("petal length (cm)", 1)),
    ({-1: 0.2}, (2, 0)),
]


@pytest.mark.slow_cases("fixed1", "fixed2")
@pytest.mark.slow_cases(*(f"features{n}-{name}" for n in [3, 4, 5, 6] for name in ["G", "L"]))
@every_model
@pytest.mark.parametrize(("fixed", "features"), [*FIXED, *(({}, pair) for pair in PAIRS)])
def test_regions_are_what_is_predicted_of_rows_with_the_fixed_values_alone(model, fixed, features):
    X, y = iris()
    fitted = model(priors=[0.2, 0.3, 0.5]).fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(
        fitted, features=features, fixed=fixed, grid_resolution=40
    )
    rows = X.iloc[:1].loc[[0] * 1600] * np.nan
    rows.iloc[:, positions(X, features)] = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    for feature, value in fixed.items():
        rows.iloc[:, positions(X, [feature])] = value
    expected = model(priors=[0.2, 0.3, 0.5], missing="marginal").fit(X, y).predict(rows)
    assert (KINDS[display.response.ravel()] == expected).all()
    drawn = display.ax_.collections[0]
    assert isinstance(drawn, mpl.collections.QuadMesh)
    assert (drawn.get_array() == display.response).all()


@pytest.mark.slow_cases("fixed1", "fixed2")
@pytest.mark.slow_cases(*(f"features{n}-{name}" for n in [1, 2, 3] for name in ["G", "L"]))
@every_model
@pytest.mark.parametrize(("fixed", "features"), FIXED)
def test_ellipses_are_those_of_the_rows_of_a_class_with_the_fixed_values(model, fixed, features):
    """From the precision of all these features: Σ = P₁₁⁻¹, μ = μ₁ − P₁₁⁻¹ P₁₂ (x₂ − μ₂)."""
    X, y = iris()
    fitted = model(var_smoothing=0).fit(X, y) if model is GaussianNB else model().fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(fitted, features=features, fixed=fixed)
    shown, held = positions(X, features), [at % 4 for at in positions(X, fixed)]
    for k, label in enumerate(KINDS):
        covariance = fitted.statistics_.covariance()
        if model is GaussianNB:
            covariance = np.diag(fitted.var_[k])
        elif model is QuadraticDiscriminantAnalysis:
            covariance = covariance[k]
        precision = np.linalg.inv(covariance[np.ix_([*shown, *held], [*shown, *held])])
        conditional = np.linalg.inv(precision[:2, :2])
        gap = np.array(list(fixed.values())) - X[y == label].mean().to_numpy()[held]
        mean = X[y == label].mean().to_numpy()[shown] - conditional @ precision[:2, 2:] @ gap
        np.testing.assert_allclose(display.means[k], mean)
        np.testing.assert_allclose(display.covariances[k], conditional, atol=1e-12)
        assert display.ellipses_[k][0].center == pytest.approx(mean)


def few_rows():
    """So few rows of three classes that a Student t density is far from a normal one."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], [7, 9, 14])
    return rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3)) + 2 * y[:, None], y


def student_of(model, k):
    """The density of class k as SciPy has it, of some features: a function of their values and positions."""
    X, y = few_rows()
    rows, n = X[y == k], (y == k).sum()
    scatters = [np.cov(X[y == j].T, bias=True) * (y == j).sum() for j in range(3)]
    if model is GaussianNB:
        shape = np.diag(scatters[k]) / (n - 1) * (1 + 1 / n)
        return lambda x, at: stats.t.pdf(x, n - 1, rows.mean(axis=0)[at], np.sqrt(shape[at])).prod(axis=-1)
    linear = model is LinearDiscriminantAnalysis
    scatter, degrees = (sum(scatters), 30 - 3 - 2) if linear else (scatters[k], n - 1 - 2)
    shape = scatter / degrees * (1 + 1 / n)
    return lambda x, at: stats.multivariate_t.pdf(x, rows.mean(axis=0)[at], shape[np.ix_(at, at)], degrees)


def mass_within(ellipse, density):
    """The integral of a density (n, 2) -> (n,) over an ellipse, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    radii, angles = (nodes + 1) / 2, np.pi * (np.arange(240) + 0.5) / 120
    circle = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    points = ellipse.get_patch_transform().transform(circle.reshape(-1, 2))
    area = np.pi * ellipse.width * ellipse.height / 4
    values = density(points).reshape(120, 240).mean(axis=1)
    return area * float(weights / 2 @ (values * 2 * radii))


@pytest.mark.slow_cases("fixed1-G", "fixed1-L", "fixed0-Q")
@every_model
@pytest.mark.parametrize("fixed", [{}, {0: 2.5}])
def test_an_ellipse_of_student_t_densities_holds_its_share(model, fixed):
    shares, at = (0.5, 0.95), [2, 1]
    options = {"var_smoothing": 0} if model is GaussianNB else {}
    fitted = model(predictive="student", **options).fit(*few_rows())
    display = DecisionRegionsDisplay.from_estimator(
        fitted, features=at, fixed=fixed, probabilities=shares, grid_resolution=5
    )
    for k, ellipses in enumerate(display.ellipses_):
        density = student_of(model, k)
        known = list(fixed.values())
        total = density(np.array([known]), list(fixed)) if fixed else 1.0

        def given(x, density=density, known=known, total=total):
            return (
                density(np.column_stack([x, *(np.full(len(x), value) for value in known)]), [*at, *fixed])
                / total
            )

        for share, ellipse in zip(shares, ellipses, strict=True):
            assert mass_within(ellipse, given) == pytest.approx(share, abs=1e-6)


def test_the_title_says_what_holds_of_the_other_features():
    X, y = iris()
    model = GaussianNB().fit(X, y)

    def title(model=model, **options):
        return DecisionRegionsDisplay.from_estimator(model, grid_resolution=5, **options).ax_.get_title()

    assert title() == "2 other features marginalised"
    assert title(fixed={3: 0.25}) == "petal width (cm) = 0.25, 1 other feature marginalised"
    assert title(fixed={3: 0.25, 2: 5}) == "petal length (cm) = 5, petal width (cm) = 0.25"
    assert title(GaussianNB().fit(X.iloc[:, :2], y)) == ""
    many = GaussianNB().fit(np.hstack([X, X]), y)
    assert (
        title(many, fixed=dict.fromkeys(range(2, 7), 1.0)) == "5 features fixed, 1 other feature marginalised"
    )


def test_an_ellipse_holds_its_share_of_the_rows_of_its_class(model):
    X, y = iris()
    fitted, features = model().fit(X, y), PAIRS[-1]
    shares = (0.3, 0.9, 0.99)
    display = DecisionRegionsDisplay.from_estimator(fitted, features=features, probabilities=shares)
    assert len(display.ax_.patches) == 9
    for label, of_class in zip(KINDS, display.ellipses_, strict=True):
        rows = fitted.sample(20_000, label, random_state=0)[0][:, positions(X, features)]
        for share, ellipse in zip(shares, of_class, strict=True):
            assert ellipse in display.ax_.patches
            in_unit_circle = ellipse.get_patch_transform().inverted().transform(rows)
            held = (np.linalg.norm(in_unit_circle, axis=1) < 1).sum()
            assert stats.binomtest(int(held), len(rows), share).pvalue > 0.0005


def test_a_class_has_one_colour(model):
    X, y = iris()
    display = DecisionRegionsDisplay.from_estimator(model().fit(X, y), X, y, features=[2, 3])
    mesh = display.regions_.surface_
    for k in range(3):
        colour = mesh.cmap(mesh.norm(k))[:3]
        assert display.ellipses_[k][0].get_edgecolor()[:3] == pytest.approx(colour)
        assert display.points_[k].get_facecolor()[0, :3] == pytest.approx(colour)
    assert len({ellipses[0].get_edgecolor() for ellipses in display.ellipses_}) == 3


@pytest.mark.parametrize("n_classes", [2, 10, 25])
def test_any_number_of_classes(n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(40 * n_classes) % n_classes
    model = GaussianNB().fit(rng.normal(size=(len(y), 3)) + rng.normal(size=(n_classes, 3))[y] * 5, y)
    display = DecisionRegionsDisplay.from_estimator(model, grid_resolution=50)
    mesh = display.regions_.surface_
    colours = np.array([ellipses[0].get_edgecolor() for ellipses in display.ellipses_])
    np.testing.assert_allclose(mesh.cmap(mesh.norm(np.arange(n_classes))), colours)
    assert len(np.unique(colours, axis=0)) == n_classes
    assert texts(display.ax_.get_legend()) == [str(k) for k in range(n_classes)]


@pytest.mark.slow_cases("26", "7")
@pytest.mark.parametrize("n_classes", [3, 7, 26, 70])
def test_many_classes_are_named_beside_the_axes_and_in_their_ellipses(n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(40 * n_classes) % n_classes
    X = rng.normal(size=(len(y), 3)) + rng.normal(size=(n_classes, 3))[y] * 5
    model = LinearDiscriminantAnalysis().fit(X, y)
    for display in (
        DecisionRegionsDisplay.from_estimator(model, grid_resolution=20),
        LinearProjectionDisplay.from_estimator(model),
    ):
        display.figure_.draw_without_rendering()
        legend, axes = display.ax_.get_legend(), display.ax_.get_window_extent()
        assert len(texts(legend)) == (0 if n_classes == 70 else n_classes)
        assert legend.get_window_extent().x0 >= axes.x1 or n_classes == 70
        assert legend.get_title().get_text().endswith(": 50 % and 95 % of a class")
        assert axes.width > 0.4 * display.figure_.bbox.width
        named = [text.get_text() for text in display.ax_.texts]
        assert named == ([] if n_classes < 11 else [str(k) for k in range(n_classes)])


def test_the_legend_says_which_share_of_a_class_an_ellipse_holds():
    model = GaussianNB().fit(*iris())
    for probabilities, said in (
        ([0.5], "50 % of a class"),
        ([0.999, 0.5, 0.9], "50 %, 90 % and 99.9 % of a class"),
    ):
        display = DecisionRegionsDisplay.from_estimator(model, probabilities=probabilities, grid_resolution=5)
        assert display.ax_.get_legend().get_title().get_text() == f"ellipses: {said}"


def test_displays_to_be_compared_have_the_ranges_given(model):
    display = DecisionRegionsDisplay.from_estimator(
        model().fit(*iris()), xlim=(4, 9), ylim=(1.5, 5), grid_resolution=5
    )
    assert display.ax_.get_xlim() == (4, 9)
    assert display.ax_.get_ylim() == (1.5, 5)
    assert (display.xx0.max(), display.xx1.min()) == (9, 1.5)


def test_axes_and_legend_are_labelled():
    X, y = iris()
    named = DecisionRegionsDisplay.from_estimator(GaussianNB().fit(X, y), features=[3, 1])
    assert named.ax_.get_xlabel() == "petal width (cm)"
    assert named.ax_.get_ylabel() == "sepal width (cm)"
    assert texts(named.ax_.get_legend()) == KINDS.tolist()
    plain = DecisionRegionsDisplay.from_estimator(GaussianNB().fit(X.to_numpy(), y), features=[-1, 0])
    assert (plain.ax_.get_xlabel(), plain.ax_.get_ylabel()) == ("feature 3", "feature 0")


def test_ellipses_and_rows_fit_into_the_axes():
    X, y = iris()
    X.loc[0, "sepal length (cm)"] = 30.0
    display = DecisionRegionsDisplay.from_estimator(QuadraticDiscriminantAnalysis().fit(X, y), X, y)
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    assert right > 30
    for ellipses in display.ellipses_:
        for ellipse in ellipses:
            extent = ellipse.get_path().get_extents(ellipse.get_patch_transform())
            assert left < extent.x0
            assert extent.x1 < right
            assert bottom < extent.y0
            assert extent.y1 < top


def test_the_rows_drawn_are_those_given():
    X, y = iris()
    model = LinearDiscriminantAnalysis().fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(model, X, y, features=[3, 2])
    for label, points in zip(KINDS, display.points_, strict=True):
        np.testing.assert_allclose(points.get_offsets(), X[y == label].iloc[:, [3, 2]])
    unlabelled = DecisionRegionsDisplay.from_estimator(model, X)
    assert len(unlabelled.points_) == 1
    assert len(unlabelled.points_[0].get_offsets()) == 150
    assert DecisionRegionsDisplay.from_estimator(model).points_ == []


def test_a_display_is_drawn_where_it_is_told_to_and_again_elsewhere():
    X, y = iris()
    figure, (left, right) = plt.subplots(1, 2)
    display = DecisionRegionsDisplay.from_estimator(GaussianNB().fit(X, y), ax=left)
    assert display.ax_ is left
    assert display.figure_ is figure
    assert not right.patches
    assert display.plot(right) is display
    assert len(right.patches) == 6
    assert display.plot().figure_ is not figure


def test_two_features_of_a_singular_model():
    X, y = iris()
    X["again"] = X["petal width (cm)"]
    with pytest.warns(UserWarning, match="rank 4 of 5"):
        model = LinearDiscriminantAnalysis().fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(model, features=["petal width (cm)", "again"])
    assert min(ellipse.height for (ellipse, _) in display.ellipses_) == pytest.approx(0, abs=1e-6)
    assert set(display.response.ravel()) == {0, 1, 2}
    slice_ = DecisionRegionsDisplay.from_estimator(model, features=[0, "again"], fixed={3: 1.0})
    assert slice_.covariances[:, 1, 1] == pytest.approx(0, abs=1e-9)  # it is what the fixed one is
    assert slice_.means[:, 1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": [0]}, "two different features are needed"),
        ({"features": "ab"}, "two different features are needed; got 'ab'"),
        ({"features": 0}, "two different features are needed; got 0"),
        ({"features": [1, 1]}, "two different features are needed"),
        ({"features": [3, -1]}, "two different features are needed"),
        ({"features": [0, 4]}, "there is no feature 4 among 4"),
        ({"features": ["petal", 1]}, "no feature 'petal'; the features are 'sepal length"),
        ({"fixed": {0: 1.0}}, r"shown or fixed, and once; got fixed=\{0: 1.0\}"),
        ({"fixed": {3: 1.0, "petal width (cm)": 2.0}}, "shown or fixed, and once"),
        ({"fixed": {"petal": 1.0}}, "no feature 'petal'"),
        ({"fixed": {2: np.nan}}, "fixed at finite values only"),
        ({"probabilities": [0.5, 1.0]}, "between 0 and 1"),
        ({"probabilities": []}, "between 0 and 1"),
        ({"xlim": (4, 4)}, r"xlim must be a lower and a higher number; got \(4, 4\)"),
        ({"ylim": (4, np.nan)}, "ylim must be a lower and a higher number"),
    ],
)
def test_what_cannot_be_shown(options, message):
    with pytest.raises(ValueError, match=message):
        DecisionRegionsDisplay.from_estimator(GaussianNB().fit(*iris()), **options)
    assert not plt.get_fignums()


def test_a_model_of_one_feature_has_no_regions():
    model = GaussianNB().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    for options in ({}, {"features": [0]}, {"features": [0, 1]}):
        with pytest.raises(ValueError, match=r"no feature 1 among 1|two different .* got \[0\]"):
            DecisionRegionsDisplay.from_estimator(model, **options)


def test_without_matplotlib_what_to_install_is_named(monkeypatch):
    model = GaussianNB().fit(*iris())
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        DecisionRegionsDisplay.from_estimator(model)


# ---------------------------------------------------------------------- projection


def test_classes_are_circles_where_they_are_projected():
    X, y = iris()
    model = LinearDiscriminantAnalysis().fit(X, y)
    display = LinearProjectionDisplay.from_estimator(model, X, y, probabilities=[0.5, 0.95])
    projected = model.transform(X)
    for label, circles, points in zip(KINDS, display.ellipses_, display.points_, strict=True):
        centre = projected[y == label].mean(axis=0)
        for share, circle in zip((0.5, 0.95), circles, strict=True):
            assert circle.center == pytest.approx(centre)
            radius = np.sqrt(stats.chi2.ppf(share, 2))
            assert (circle.width / 2, circle.height / 2) == pytest.approx((radius, radius))
        np.testing.assert_allclose(points.get_offsets(), projected[y == label])
    assert display.ax_.get_xlabel() == "component 1 (99 % of the variance between classes)"
    assert display.ax_.get_ylabel() == "component 2 (0.88 % of the variance between classes)"
    assert display.ax_.get_aspect() == 1
    assert texts(display.ax_.get_legend()) == KINDS.tolist()


def test_a_share_above_one_is_not_written_as_less():
    rng = np.random.default_rng(8)  # shrinkage of both covariances makes other eigenvalues negative
    X, y = rng.normal(size=(30, 4)) * 10.0 ** rng.integers(-4, 5, 4), np.arange(30) % 2
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)
    display = LinearProjectionDisplay.from_estimator(model)
    share = 100 * model.explained_variance_ratio_[0]
    assert share > 101
    assert display.ax_.get_xlabel() == f"component 1 ({share:.4g} % of the variance between classes)"


@pytest.mark.parametrize("components", [None, [0]])
def test_one_component_is_drawn_as_densities(components):
    X, y = iris()
    two = y != "setosa" if components is None else np.full(len(y), True)
    model = LinearDiscriminantAnalysis().fit(X[two], y[two])
    display = LinearProjectionDisplay.from_estimator(model, X[two], y[two], components=components)
    assert len(display.lines_) == len(model.classes_)
    for line, mean in zip(display.lines_, (model.means_ - model.xbar_) @ model.scalings_[:, 0], strict=True):
        x, density = line.get_data()
        np.testing.assert_allclose(density, stats.norm(mean).pdf(x))
    assert display.ax_.get_ylabel() == "density"
    share = "100 %" if components is None else "99 %"
    assert display.ax_.get_xlabel() == f"component 1 ({share} of the variance between classes)"
    assert len(display.points_) == len(model.classes_)
    for bars in display.points_:
        assert sum(bar.get_height() * bar.get_width() for bar in bars) == pytest.approx(1)
    assert texts(display.ax_.get_legend()) == model.classes_.tolist()


def test_components_in_the_order_asked_for():
    model = LinearDiscriminantAnalysis().fit(*iris())
    straight = LinearProjectionDisplay.from_estimator(model)
    turned = LinearProjectionDisplay.from_estimator(model, components=[1, 0])
    np.testing.assert_array_equal(turned.means, straight.means[:, ::-1])
    assert turned.ax_.get_xlabel() == straight.ax_.get_ylabel()


def test_what_cannot_be_projected():
    X, y = iris()
    with pytest.raises(TypeError, match="only LinearDiscriminantAnalysis projects rows; got GaussianNB"):
        LinearProjectionDisplay.from_estimator(GaussianNB().fit(X, y))
    model = LinearDiscriminantAnalysis().fit(X, y)
    for components in ([2], [0, 1, 1], []):
        with pytest.raises(ValueError, match="one or two of the components 0 to 1"):
            LinearProjectionDisplay.from_estimator(model, components=components)
