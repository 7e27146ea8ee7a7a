"""Peers are compared with as they are today: older ones have other parameters and other answers."""

import sklearn
from sklearn.utils.fixes import parse_version

if parse_version(sklearn.__version__) < parse_version("1.9"):
    collect_ignore_glob = ["test_*.py"]
