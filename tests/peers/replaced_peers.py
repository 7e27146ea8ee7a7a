"""A pytest plugin: scikit-learn's three estimators are replaced by ours before its tests are collected."""

from sklearn import discriminant_analysis, naive_bayes

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis


def pytest_configure():
    discriminant_analysis.LinearDiscriminantAnalysis = LinearDiscriminantAnalysis
    discriminant_analysis.QuadraticDiscriminantAnalysis = QuadraticDiscriminantAnalysis
    naive_bayes.GaussianNB = GaussianNB
