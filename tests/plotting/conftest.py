"""Pictures are closed after each test."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")
