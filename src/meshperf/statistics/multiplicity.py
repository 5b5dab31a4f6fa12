"""Corrections for testing more than one hypothesis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.results import StatisticsError


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values by Holm (1979): rejecting those at most α keeps the family-wise error at α.

    Parameters
    ----------
    p_values : array_like, shape (m,)
        In [0, 1]; NaN (no test was possible) stays NaN but still counts in the family.

    Returns
    -------
    ndarray, shape (m,)
        p̃_(i) = max over j <= i of min(1, (m − j + 1) p_(j)).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    factors = p.size - np.arange(p.size)
    adjusted = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return _restored(adjusted, order)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values by Benjamini & Hochberg (1995), for a false discovery rate.

    Parameters and result as in :func:`holm`; p̃_(i) = min over j >= i of min(1, m p_(j)/j).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * p.size / (1 + np.arange(p.size))
    valid = int((~np.isnan(scaled)).sum())
    scaled[:valid] = np.minimum(np.minimum.accumulate(scaled[:valid][::-1])[::-1], 1.0)
    return _restored(scaled, order)


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1 or (p < 0).any() or (p > 1).any():
        raise StatisticsError("p-values are a list of numbers between 0 and 1")
    return p


def _restored(sorted_values: NDArray, order: NDArray) -> NDArray[np.float64]:
    result = np.empty_like(sorted_values)
    result[order] = sorted_values
    return result
