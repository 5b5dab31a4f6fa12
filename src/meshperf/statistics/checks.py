"""What stands beside a comparison: an interval without assumptions, and what a repetition will show."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL, block_values, far_blocks, t_quantile
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning


def robust_interval(d: ArrayLike) -> Interval:
    """Interval of the median ratio from the smallest to the largest block, whatever the distribution.

    Parameters
    ----------
    d : array_like, shape (r,)
        Log ratio of each block, independent between blocks.

    Returns
    -------
    Interval
        Median ratio between exp(min d) and exp(max d). ``confidence`` is what it has and cannot be chosen:
        1 − 2^(1−r), 0.9375 at r = 5 and 0.96875 at 6; too wide to be of use from some ten blocks on. Without ends
        below 3 blocks.

    Notes
    -----
    The median is outside only when all blocks fall on one side of it, with probability 2 · 2^(−r): the sign test
    turned round (Thompson 1936; Hahn & Meeker 1991, chapter 5). Exact for continuous distributions.
    """
    d = block_values(d)
    r, nan = d.size, float("nan")
    confidence = 1 - 2.0 ** (1 - r)
    estimate, method = float(np.exp(np.median(d))), "smallest to largest block ratio, for the median"
    if r < MIN_BLOCKS_INTERVAL:
        return Interval(
            estimate, nan, nan, nan, r, confidence, method, warnings=(StatisticsWarning.TooFewBlocks,)
        )
    if np.ptp(d) <= 1e-12 * max(1.0, float(np.abs(d).max())):
        return Interval(
            estimate, nan, nan, nan, r, confidence, method, warnings=(StatisticsWarning.NotEstimable,)
        )
    return Interval(
        estimate,
        float(np.exp(d.min())),
        float(np.exp(d.max())),
        nan,
        r,
        confidence,
        method,
        warnings=_bimodal(d),
    )


def prediction_interval(d: ArrayLike, *, n_new: int = 1, confidence: float = 0.95) -> Interval:
    """Where the typical ratio of `n_new` further blocks will lie.

    Parameters
    ----------
    d : array_like, shape (r,)
        Log ratio of each block measured.
    n_new : int
        Blocks of the repetition, at least 1; its ratio is the geometric mean over them. They have the same design
        as the blocks measured: an arm against as many baselines, on the same testbed.
    confidence : float
        Share of repetitions whose ratio lies inside.

    Returns
    -------
    Interval
        Estimate exp(d̄), ends exp(d̄ ± t(r − 1) s √(1/r + 1/n_new)); without ends as in
        :func:`~meshperf.statistics.bootstrap.mean_interval`.

    Notes
    -----
    Hahn & Meeker (1991, chapter 4): the error of the mean measured and that of the mean to come add up. An interval
    of the *mean* would contain repetitions far less often than it says. Nothing that changes between campaigns but
    not between blocks (another node, another version) is in it.
    """
    d = block_values(d)
    if n_new < 1:
        raise StatisticsError(f"a repetition has at least 1 block, got {n_new}")
    r, nan = d.size, float("nan")
    estimate = float(np.exp(d.mean()))
    method = f"t prediction for the mean log ratio of {n_new} further block{'s' if n_new > 1 else ''}"
    critical = t_quantile(confidence, max(r, 2))
    sd = float(d.std(ddof=1)) if r > 1 else nan
    if r < MIN_BLOCKS_INTERVAL or sd <= 1e-12 * max(1.0, abs(float(d.mean()))):
        few = r < MIN_BLOCKS_INTERVAL
        warning = StatisticsWarning.TooFewBlocks if few else StatisticsWarning.NotEstimable
        return Interval(estimate, nan, nan, nan, r, confidence, method, sd, (warning,))
    se = float(sd * np.sqrt(1 / r + 1 / n_new))
    low, high = (float(np.exp(d.mean() + sign * critical * se)) for sign in (-1, 1))
    return Interval(estimate, low, high, se, r, confidence, method, sd, _bimodal(d))


def _bimodal(d: NDArray[np.float64]) -> tuple[StatisticsWarning, ...]:
    return (StatisticsWarning.Bimodal,) if far_blocks(d).any() else ()
