"""What is written is run: the README's snippets, the examples, and what it says of importing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parents[1]


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, **options
    ).stdout


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # dask.dataframe on pandas 3.1
def test_the_snippets_of_the_readme_run_in_order(tmp_path, monkeypatch, capsys):
    document = Sybil([PythonCodeBlockParser()]).parse(ROOT / "README.md")
    monkeypatch.chdir(tmp_path)
    document.namespace["__name__"] = "__main__"
    examples = list(document.examples())
    assert len(examples) >= 9
    for example in examples:
        example.evaluate()
    printed = capsys.readouterr().out
    assert "['setosa' 'virginica']" in printed
    assert "ClassStatistics(covariance_type='full', classes=2, features=2, rows=10000)" in printed
    assert printed.count("True") == 4
    assert "Written(n_rows=10000, n_parts=2, n_found=0, n_dropped=0)" in printed


def test_the_quickstart_reports_three_models(tmp_path):
    printed = run(ROOT / "examples" / "quickstart.py", tmp_path)
    assert "27 features" in printed
    for name in ("QuadraticDiscriminantAnalysis", "LinearDiscriminantAnalysis", "GaussianNB"):
        line = next(line for line in printed.splitlines() if name in line)
        assert float(line.split()[-1].rstrip("%")) > 60


@pytest.mark.parametrize("name", ["__version__", "ClassStatistics", "GaussianNB", "accumulate"])
def test_dask_zarr_and_pyarrow_load_when_they_are_used(name):
    """Beyond what scikit-learn loads of them for its own estimators' sake."""
    peer = "sklearn.base" if name == "GaussianNB" else "sys"
    use = f"import streamgda; streamgda.{name}"
    code = f"import {peer}, sys; before = set(sys.modules); {use}; print(*set(sys.modules) - before)"
    loaded = set(run("-c", code, env={**os.environ, "PYTHONPATH": str(ROOT)}).split())
    assert "streamgda" in loaded
    assert not loaded & {"dask", "distributed", "zarr", "pyarrow", "tqdm"}


def test_the_public_names_are_there():
    import streamgda

    assert dir(streamgda) == [
        "ClassStatistics",
        "Evaluation",
        "GaussianNB",
        "LinearDiscriminantAnalysis",
        "QuadraticDiscriminantAnalysis",
        "accumulate",
        "evaluate",
        "predict_dataset",
        "progressive_score",
        "scan_arrow",
        "scan_dask",
        "scan_parquet",
        "scan_zarr",
    ]
    for name in streamgda.__all__:
        assert getattr(streamgda, name).__doc__
    with pytest.raises(AttributeError, match="nosuch"):
        _ = streamgda.nosuch
