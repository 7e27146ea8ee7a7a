"""The Gaussian mechanism: the least noise for (epsilon, delta), and its release on a grid of integers."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

_LARGEST = 2.0**57  # deviations of noise: OpenDP's integers end 64 of them away


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The deviation σ of Gaussian noise that makes a sum of sensitivity 1 (ε, δ)-private.

    Gaussian noise is (ε, δ)-private if and only if Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ) ≤ δ. The least such σ is
    the root, which is exact for every ε; the classical bound holds for ε ≤ 1 alone and is larger.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        Above 0 and below 1.

    References
    ----------
    Balle & Wang (2018), "Improving the Gaussian mechanism for differential privacy", theorem 8.

    Examples
    --------
    >>> round(noise_multiplier(1.0, 1e-5), 4)
    3.7306
    """

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        near, far = epsilon * sigma - 0.5 / sigma, epsilon * sigma + 0.5 / sigma
        # erfcx(t/√2) / 2 is Φ of the negative t times e^(t²/2), and far² is near² + 2ε: so e^ε drops out
        below = erfcx(far / math.sqrt(2)) / 2
        if near < 0:  # where erfcx overflows
            return math.log(ndtr(-near) - below * math.exp(-near * near / 2)) - math.log(delta)
        return math.log(erfcx(near / math.sqrt(2)) / 2 - below) - near * near / 2 - math.log(delta)

    low = high = 0.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))


def noise(size: int, scale: float, random_state: int | None) -> list[int]:
    """Discrete Gaussian noise of a deviation: from OpenDP, or for tests from NumPy.

    It is drawn by itself and added to Python's integers, as OpenDP refuses sums beyond 64 bits by an error
    that quotes them.

    Raises
    ------
    ValueError
        If the noise may not fit 64 bits.
    ImportError
        If OpenDP is not installed.

    References
    ----------
    Canonne, Kamath & Steinke (2020), "The discrete Gaussian for differential privacy".
    """
    if scale > _LARGEST:
        raise ValueError("so much noise leaves nothing of any rows; take a larger epsilon or delta")
    if random_state is not None:
        drawn = np.random.default_rng(random_state).normal(scale=scale, size=size)
        return [int(one) for one in np.rint(drawn)]
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise ImportError('private_statistics needs OpenDP: pip install "streamgda[private]"') from error

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return [int(one) for one in dp.m.make_gaussian(*space, scale=scale)([0] * size)]
