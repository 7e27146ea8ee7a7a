"""How often chance alone is an alarm: the rates that are promised, beside those of simulated rows.

Run as ``python -m bench.alarms``. All rows are normal, within each class, and nothing has changed. Rows are
unweighted, of weights that vary (gamma with shape 0.5, so that 100 rows are about 33 effective ones), or from
a state that has decayed by 0.8 before each batch. A rate has its standard error behind it; one that is
further above what is promised than two of them is marked. A limit of 0 leaves what is added to the limits.

Prediction sets in streams, of which three drift, are a table of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.stats import norm

from bench import report
from bench.arguments import parser_of
from streamgda import (
    AdaptiveConformalInference,
    ClassStatistics,
    DoubtfulModelWarning,
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    drift,
    estimate_priors,
    evaluate,
    progressive_score,
)

Array = np.ndarray
ROWS = (2, 3, 5, 14, 30, 100, 1000)
SHARES = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
MODELS = {
    "LDA": LinearDiscriminantAnalysis,
    "QDA": QuadraticDiscriminantAnalysis,
    "NB": GaussianNB,
    "bayes": lambda **params: QuadraticDiscriminantAnalysis(pooling="bayes", **params),
}


def main() -> None:
    """Simulate and keep the tables."""
    parser = parser_of(__doc__, draws=400, classes=2000, most=1000)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    parts = [
        ("Drift: alarms of classes", of_drift(random, options.classes, options.most)),
        ("Drift: shares of four classes", of_shares(random, options.draws, options.most)),
        ("`estimate_priors`", of_priors(random, options.draws // 4, options.most)),
        (
            "`p_values` of rows of a class, learnt from few rows",
            of_p_values(random, options.draws, options.most),
        ),
        ("`conformal_quantile(0.9)`", of_sets(random, options.draws, options.most)),
        ("`DoubtfulModelWarning`", of_models(random, max(options.draws // 4, 5))),
    ]
    title = f"{options.draws:,} draws, {options.classes:,} classes"
    headers = ["rate", "cases", "mean, %", "largest, %", "in the case", "above the promise"]
    table = report.table(headers, [line for part in parts for line in summary(*part)])
    few = "QDA by the rows of a class", of_few_rows(random, max(options.draws // 20, 5))
    details = [f"{name}\n\n{report.table(*found)}" for name, found in (*parts, few)]
    report.publish("alarms", title, table, *details, keep=not options.print_only)
    publish_streams(min(options.draws, 10), keep=not options.print_only)


def summary(title: str, found: Table) -> Iterator[tuple[str, ...]]:
    """For each rate of a table: its cases, their mean and largest rate, and how many break the promise."""
    headers, rows = found
    rates_at = sorted({j for row in rows for j, cell in enumerate(row) if "±" in cell})
    for j in rates_at:
        cells = [
            (row[j], ", ".join(f"{headers[i]} {row[i]}" for i in range(len(row)) if i not in rates_at))
            for row in rows
            if row[j]
        ]
        rates = [float(cell.split(" ±")[0]) for cell, _ in cells]
        largest, case = cells[int(np.argmax(rates))]
        marked = sum("!" in cell for cell, _ in cells)
        yield f"{title}: {headers[j]}", str(len(cells)), f"{np.mean(rates):.2f}", largest, case, str(marked)


def rate(found: Iterable[float], promised: float) -> str:
    """A mean rate in percent, with its standard error; a mark where it breaks the promise."""
    rates = np.asarray(list(found), float)
    measured, spread = rates.mean(), rates.std()
    if not spread:
        spread = np.sqrt(promised * (1 - promised))
    error = spread / np.sqrt(len(rates))
    return f"{100 * measured:.2f} ± {100 * error:.2f}{' !' if measured - promised > 2 * error else ''}"


Table = tuple[list[str], list[tuple[str, ...]]]


# ---------------------------------------------------------------------- drift


def plain(random: np.random.Generator, y: Array, d: int, kind: str) -> Any:
    """The state of rows of weight 1."""
    return ClassStatistics(kind).update(random.normal(size=(len(y), d)), y)


def weighted(random: np.random.Generator, y: Array, d: int, kind: str) -> Any:
    """The state of rows whose weights vary."""
    weights = random.gamma(0.5, size=len(y)) + 1e-3
    return ClassStatistics(kind).update(random.normal(size=(len(y), d)), y, weights)


def decayed(random: np.random.Generator, y: Array, d: int, kind: str) -> Any:
    """The state of rows in ten batches, which decays by 0.8 before each."""
    state, batch = ClassStatistics(kind), random.integers(10, size=len(y))
    for number in range(10):
        rows = y[batch == number]
        state.decay(0.8).update(random.normal(size=(len(rows), d)), rows)
    return state


def of_drift(random: np.random.Generator, n_classes: int, most: int) -> Table:
    """Alarms in classes of old rows and fifty new ones."""
    headers = ["state", "features", "old rows of a class", "effective", "`max_shift=0`, % of 0.27 promised"]
    headers += ["`max_divergence=0`, % of 0.27"]
    rows = []
    for name, kind, make in (
        ("full", "full", plain),
        ("diag", "diag", plain),
        ("tied", "tied", plain),
        ("full, weighted", "full", weighted),
        ("full, decayed", "full", decayed),
    ):
        for d in (3, 10):
            for n in (n for n in ROWS if n <= most and n * d <= 3000):
                old, new = (np.repeat(np.arange(n_classes), m) for m in (n, 50))
                before = make(random, old, d, kind)
                found = drift(before, plain(random, new, d, kind)).drift
                shifts = [bool(np.abs(one.shift).max() > one.shift_by_chance) for one in found]
                apart = [one.divergence > one.divergence_by_chance for one in found]
                effective = f"{before.effective_counts.mean():.4g}"
                rows.append((name, str(d), str(n), effective, rate(shifts, 0.0027), rate(apart, 0.0027)))
    return headers, rows


def of_shares(random: np.random.Generator, draws: int, most: int) -> Table:
    """Shares of four classes that have not moved, in standard errors."""
    rows = []
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    for name, make in (("unweighted", plain), ("weighted", weighted), ("decayed", decayed)):
        for n in (n for n in (20, 100, 1000) if n <= most):
            moved = []
            for _ in range(draws):
                before, after = (random.choice(4, m, p=shares) for m in (n, 200))
                report_ = drift(make(random, before, 1, "diag"), plain(random, after, 1, "diag"))
                moved += [abs(one.share_shift) for one in report_.drift]
            beyond = (
                rate((size > limit for size in moved), promised)
                for limit, promised in ((2, 0.0455), (3, 0.0027))
            )
            rows.append((name, str(n), *beyond))
    return ["old rows", "in all", "`max_share_shift=2`, % of 4.55", "`max_share_shift=3`, % of 0.27"], rows


# ---------------------------------------------------------------------- models


def labelled(random: np.random.Generator, n: int, apart: float, d: int) -> tuple[Array, Array]:
    """Rows of three classes whose means lie `apart` standard deviations from the first."""
    y = np.append(np.repeat(np.arange(3), 2), random.choice(3, n - 6, p=SHARES))
    X = random.normal(size=(n, d))
    X[:, :2] += MEANS[y] * (apart / 2)
    return X, y


def of_priors(random: np.random.Generator, draws: int, most: int) -> Table:
    """p-values of the test whether shares have changed, which they have not."""
    rows = []
    for name in ("LDA", "QDA"):
        for d, apart in ((2, 1.0), (2, 3.0), (10, 2.0)):
            for n in (n for n in (200, 1000, 5000) if n <= 5 * most):
                for given in (False, True):
                    found = []
                    for _ in range(draws):
                        model = MODELS[name](priors=SHARES if given else None, temperature=1.0001)
                        model.fit(*labelled(random, n, apart, d))
                        later = labelled(random, 5 * most, apart, d)[0]
                        found.append(estimate_priors(model, later).p_value)
                    p = np.array(found)
                    cells = (name, str(d), f"{apart:g}", str(n), "given" if given else "learnt")
                    rows.append((*cells, rate(p < 0.01, 0.01), rate(p < 0.05, 0.05)))
    headers = ["model", "features", "classes apart", "rows learnt", "priors", "p < 0.01, %", "p < 0.05, %"]
    return headers, rows


def of_p_values(random: np.random.Generator, draws: int, most: int) -> Table:
    """p-values of rows of a class of few rows, beside two classes of many."""
    rows = []
    for d in (2, 10):
        for n in (n for n in (3, 5, 14, 30, 100, 1000) if n <= most):
            cells = []
            for name, predictive in (("QDA", "plugin"), ("QDA", "student"), ("bayes", "student")):
                if name == "QDA" and n < d + 2:
                    cells.append("")
                    continue
                cells.append(rate(_surprises(random, name, predictive, d, n, draws), 0.01))
            rows.append((str(d), str(n), *cells))
    headers = [
        "features",
        "rows of the class",
        "QDA, p < 0.01, %",
        "QDA, Student t",
        '`pooling="bayes"`, Student t',
    ]
    return headers, rows


def _surprises(
    random: np.random.Generator, name: str, predictive: str, d: int, n: int, n_models: int
) -> Iterator[float]:
    """The share of new rows of a class of n rows with p < 0.01. The covariances of the classes differ."""
    y = np.repeat(np.arange(3), [n, 1000, 1000])
    for _ in range(n_models):
        scales = np.exp(random.normal(0, 0.3, size=(3, d)))
        model = MODELS[name](predictive=predictive).fit(random.normal(size=(len(y), d)) * scales[y], y)
        yield (model.p_values(random.normal(size=(200, d)) * scales[0])[:, 0] < 0.01).mean()


def of_sets(random: np.random.Generator, draws: int, most: int) -> Table:
    """How many new rows have not their class in their set."""
    rows = []
    makers: dict[str, Callable[[int], Array | None]] = {
        "unweighted": lambda n: None,
        "weights of 1,000": lambda n: np.full(n, 1000.0),
        "weights that vary": lambda n: random.gamma(0.5, size=n) + 1e-3,
    }
    for name, weights in makers.items():
        for n in (n for n in (5, 10, 30, 100, 1000) if n <= most):
            missed = []
            for _ in range(5 * draws):
                odds = random.normal(size=n)
                evaluation = Evaluation().update(np.zeros(n, int), np.outer(odds, [1, 0]), [0, 1], weights(n))
                missed.append(norm.cdf(evaluation.conformal_quantile(0.9)))
            rows.append((name, str(n), rate(missed, 0.1)))
    return ["rows evaluated", "how many", "sets without the class, % of 10"], rows


# ---------------------------------------------------------------------- sets in streams

STREAMS = ("nothing drifts", "slow shift", "sudden shift", "shares of classes")
N_ROWS, FIRST, FROM, BATCH = 12_000, 1_500, 6_600, 100


def publish_streams(n_seeds: int, *, keep: bool) -> None:
    """Sets that should hold the class of 90 % of the rows of four streams, and whether they do."""
    rows, goals, fixed_size = [], [], 0.0
    for stream in STREAMS:
        ways: dict[str, list[Array]] = {"fixed quantile": [], "adaptive level": [], "`progressive_score`": []}
        for seed in range(n_seeds):
            for found, one in zip(ways.values(), in_stream(*rows_of_stream(stream, seed)), strict=True):
                found.append(one)
        for way, found in ways.items():
            coverage, size = np.concatenate(found, axis=1)
            worst = np.quantile(coverage, 0.01)
            rows.append((stream, way, f"{coverage.mean():.3f}", f"{worst:.2f}", f"{size.mean():.2f}"))
            if way == "fixed quantile":
                fixed_size = size.mean()
                continue
            case = f"{stream}, {way}"
            goals += [report.at_least(f"{case}, covered", coverage.mean(), 0.88)]
            goals += [report.at_least(f"{case}, least hundred", worst, 0.75)]
            if stream == STREAMS[0]:
                goals += [report.at_most(f"{case}, classes in a set ÷ fixed", size.mean() / fixed_size, 1.1)]
    headers = ["stream", "sets by", "covered, of 0.9", "least of a hundred rows (1 %)", "classes in a set"]
    title = f"sets in streams, LDA, 4 classes, 5 features, {n_seeds} draws"
    report.publish("alarms.streams", title, report.table(headers, rows), report.Goals(goals), keep=keep)


def rows_of_stream(stream: str, seed: int) -> tuple[Array, Array]:
    """Normal rows of four classes, whose means or shares change."""
    random, time = np.random.default_rng(seed), np.arange(N_ROWS) / N_ROWS
    centres = random.normal(size=(4, 5)) * 1.2
    shares = np.full((N_ROWS, 4), 0.25)
    if stream == "shares of classes":
        shares[time > 0.3] = 0.7, 0.1, 0.1, 0.1
    y = (random.random(N_ROWS)[:, None] > shares.cumsum(axis=1)).sum(axis=1).clip(max=3)
    moves = {"slow shift": 2 * np.clip(time - 0.3, 0, 1), "sudden shift": (time > 0.5) * 1.0}
    direction = random.normal(size=5)
    shift = moves.get(stream, np.zeros(N_ROWS))[:, None] * direction
    return centres[y] + random.normal(size=(N_ROWS, 5)) + shift, y


def in_stream(X: Array, y: Array) -> tuple[Array, Array, Array]:
    """Coverage and mean size of the sets of each later batch: by a fixed quantile, a level, and a score."""
    model = LinearDiscriminantAnalysis().fit(X[:FIRST], y[:FIRST])
    judged = evaluate(model, X[FIRST : 2 * FIRST], y[FIRST : 2 * FIRST])
    first, adaptive = judged.conformal_quantile(0.9), AdaptiveConformalInference(0.9)
    fixed, moved = [], []
    for start in range(2 * FIRST, N_ROWS, BATCH):
        rows, labels = X[start : start + BATCH], y[start : start + BATCH]
        sets = model.predict_set(rows, first), model.predict_set(rows, adaptive.quantile(judged))
        adaptive.update(labels, sets[1], model.classes_)
        judged.merge(evaluate(model, rows, labels))
        for found, one in zip((fixed, moved), sets, strict=True):
            found.append((one[np.arange(BATCH), labels].mean(), one.sum(axis=1).mean()))
    batches = ((X[start : start + BATCH], y[start : start + BATCH]) for start in range(FIRST, N_ROWS, BATCH))
    points = progressive_score(model, batches, coverage=0.9, step=BATCH)
    scored = [(point.coverage, point.mean_set_size) for point in points]
    n_last = (N_ROWS - FROM) // BATCH
    return np.array(fixed)[-n_last:].T, np.array(moved)[-n_last:].T, np.array(scored)[-n_last:].T


# ---------------------------------------------------------------------- models that are of little use


def is_doubtful(learn: Callable[..., Any], *rows: Any) -> bool:
    """Whether a model that learns some rows warns that it may be of little use, or refuses them."""
    with warnings.catch_warnings(record=True, action="ignore") as found:
        warnings.simplefilter("always", DoubtfulModelWarning)
        try:
            _ = learn(*rows).priors_
        except np.linalg.LinAlgError:  # by chance, four rows lie nearly in a plane
            return True
    return bool(found)


def healthy(random: np.random.Generator, d: int, n_classes: int, weight: str) -> tuple[Array, ...]:
    """Three effective rows or more of a class for each feature, in any units, whose means are near or far."""
    n = 3 * d * (3 if weight == "weighted" else 1) + 20
    y = np.repeat(np.arange(n_classes), n + random.integers(n, size=n_classes))
    means = random.choice([0, 1, 10, 1000]) * random.normal(size=(n_classes, d))
    X = (random.normal(size=(len(y), d)) + means[y]) * 10.0 ** random.integers(-6, 7, d)
    return (X, y, random.gamma(0.5, size=len(y)) + 1e-3) if weight == "weighted" else (X, y)


def forgetful(random: np.random.Generator, d: int, n_classes: int, weight: float) -> bool:
    """Whether a QDA is warned of whose half-life leaves a class this weight of rows."""
    n = max(round(weight / 8), 1)  # of a class, in a batch
    model = QuadraticDiscriminantAnalysis(half_life=n * n_classes * np.log(2) / -np.log1p(-n / weight))
    for _ in range(100):
        y = random.permutation(np.arange(n_classes * n) % n_classes)
        model.partial_fit(random.normal(size=(len(y), d)) + y[:, None], y)
    return is_doubtful(lambda: model)


def few(random: np.random.Generator, d: int, n: int) -> tuple[Array, Array]:
    """Hardly more rows of a class than features."""
    y = np.repeat([0, 1], n)
    return random.normal(size=(2 * n, d)) + y[:, None] / np.sqrt(d), y


def leaking(random: np.random.Generator) -> tuple[Array, Array]:
    """A feature that is the label but for 1e-9."""
    y, X = random.integers(4, size=400), random.normal(size=(400, 5))
    X[:, 2] = (y + 1e-9 * random.normal(size=400)) * 10.0 ** random.integers(-6, 7)
    return X, y


def rounded(random: np.random.Generator) -> tuple[Array, Array]:
    """A target of a regression, rounded."""
    X = random.normal(size=(5000, 2))
    return X, np.round(50 * (X[:, 0] + random.normal(size=5000)))


def of_models(random: np.random.Generator, draws: int) -> Table:
    """Warnings of models that may be of little use: of healthy ones; and of traps, where silence counts."""
    rows, qda = [], MODELS["QDA"]

    def add(state: str, d: int, n_classes: int, warned: Callable[[], bool], *, is_trap: bool) -> None:
        found = [warned() != is_trap for _ in range(draws)]
        rates = ("", rate(found, 0.05)) if is_trap else (rate(found, 0.01), "")
        rows.append((state, str(d), str(n_classes), *rates))

    for name, make in list(MODELS.items())[:3]:
        for weight in ("unweighted", "weighted"):
            for d, k in ((2, 2), (2, 50), (10, 10), (100, 2), (30, 50)):
                learn = lambda: is_doubtful(make().fit, *healthy(random, d, k, weight))  # noqa: E731, B023
                add(f"healthy {name}, {weight}", d, k, learn, is_trap=False)
        add(f"a leak, {name}", 5, 4, lambda: is_doubtful(make().fit, *leaking(random)), is_trap=True)  # noqa: B023
    for d, k in ((2, 2), (10, 10), (30, 2)):
        add("healthy QDA, half_life", d, k, lambda: forgetful(random, d, k, 4 * d), is_trap=False)  # noqa: B023
        add("QDA, half_life too short", d, k, lambda: forgetful(random, d, k, 0.8 * d), is_trap=True)  # noqa: B023
    for d, n in ((50, 60), (3, 4), (10, 14)):
        add(f"QDA, {n} rows a class", d, 2, lambda: is_doubtful(qda().fit, *few(random, d, n)), is_trap=True)  # noqa: B023
    for name in ("LDA", "NB"):
        learn = lambda: is_doubtful(MODELS[name]().fit, *rounded(random))  # noqa: E731, B023
        add(f"{name} of a rounded target", 2, 400, learn, is_trap=True)
    return ["state", "features", "classes", "warned of, % of 1", "not warned of, % of 5"], rows


def of_few_rows(random: np.random.Generator, draws: int) -> Table:
    """What QDA is worth with so many rows of a class for each feature, unless it refuses them."""
    rows = []
    for d in (3, 10, 50):
        for ratio in (1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0):
            n, right, sure = max(round(ratio * d), d + 1), [], []
            for _ in range(draws):
                y, later = np.repeat([0, 1], n), np.repeat([0, 1], 200)
                shift = 2 / np.sqrt(d)
                X = random.normal(size=(2 * n, d)) + shift * y[:, None]
                with warnings.catch_warnings(action="ignore"), suppress(np.linalg.LinAlgError):
                    model = MODELS["QDA"]().fit(X, y)
                    proba = model.predict_proba(random.normal(size=(400, d)) + shift * later[:, None])
                    right.append((proba.argmax(axis=1) == later).mean())
                    sure.append(np.median(proba.max(axis=1)))
            rows.append((str(d), f"{ratio:g}", f"{100 * np.mean(right):.1f}", f"{100 * np.mean(sure):.1f}"))
    return ["features", "rows of a class for each", "accuracy, % (84.1 at best)", "median certainty, %"], rows


if __name__ == "__main__":
    with warnings.catch_warnings(action="ignore"):  # of few rows of a class, which are meant here
        main()
