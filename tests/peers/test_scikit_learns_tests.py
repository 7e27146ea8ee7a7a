"""scikit-learn's own tests of the three estimators, run against ours."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sklearn

ROOT = Path(__file__).parents[2]
FILES = ("test_discriminant_analysis.py", "test_naive_bayes.py")
DIFFERENT_ON_PURPOSE = {
    "test_lda_predict": "shrinkage works with solver='svd' too",
    "test_qda_covariance_estimator": "shrinkage works with solver='svd' too",
    "test_qda_regularization[42-svd]": "reg_param works for classes of few rows, whatever the solver",
    "test_gnb_sample_weight[42]": "rows of weight zero are no rows, and one class is an error",
    "test_gnb_check_update_with_no_data": "it calls a private method",
    "test_NB_partial_fit_no_first_classes[42-GaussianNB]": "classes need not be announced",
}


def outcomes(report):
    """The name of each test that ran, and whether it passed."""
    cases = ElementTree.parse(report).iter("testcase")
    ran = {case.get("name"): {part.tag for part in case} for case in cases}
    return {name: not tags & {"failure", "error"} for name, tags in ran.items() if "skipped" not in tags}


@pytest.mark.slow
def test_they_pass_but_for_those_that_differ_on_purpose(tmp_path):
    tests = [Path(sklearn.__file__).parent / "tests" / name for name in FILES]
    options = ["-p", "tests.peers.replaced_peers", "-p", "no:cacheprovider", "-q", f"--rootdir={tmp_path}"]
    options += ["--assert=plain", "--tb=line"]  # what fails is known by its name
    command = [sys.executable, "-m", "pytest", *options, "-c", "/dev/null", "--junitxml=report.xml", *tests]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SKLEARN_TESTS_GLOBAL_RANDOM_SEED": "42"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    run = subprocess.run(
        [*map(str, command)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    passed = outcomes(tmp_path / "report.xml")
    assert sum(name.startswith(("test_lda", "test_qda", "test_gnb")) for name in passed) > 60
    assert {name for name, well in passed.items() if not well} == set(DIFFERENT_ON_PURPOSE), run.stdout
