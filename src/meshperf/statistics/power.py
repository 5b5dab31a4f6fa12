"""How many blocks a study needs, and what a study at hand can detect (paired t test on log ratios)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL, t_quantile
from meshperf.statistics.results import StatisticsError, StatisticsWarning

# Midpoints in probability of χ², over which the noncentral t is integrated: SciPy's own returns NaN far out.
_MIDPOINTS = (np.arange(4000) + 0.5) / 4000


def power(sd: float, ratio: float, n_blocks: int, *, alpha: float = 0.05) -> float:
    """Probability that the paired t test rejects "no difference".

    Parameters
    ----------
    sd : float
        Standard deviation between blocks of the log ratio, above 0. With two baselines √1.5 times the
        standard deviation between runs of one cell, with one √2 times.
    ratio : float
        True ratio, above 0.
    n_blocks : int
        At least 2.
    alpha : float
        Two-sided level.

    Returns
    -------
    float
        P(|T| > t) for noncentral T with r − 1 degrees of freedom and noncentrality |log ratio| √r / sd, as
        the mean of Φ(±δ − t √(χ²/ν)) over χ².
    """
    if not sd > 0 or not ratio > 0 or n_blocks < 2:
        raise StatisticsError(
            f"sd and ratio are above 0 and blocks at least 2, got {sd}, {ratio}, {n_blocks}"
        )
    degrees = n_blocks - 1
    shift = abs(np.log(ratio)) * np.sqrt(n_blocks) / sd
    threshold = t_quantile(1 - alpha, n_blocks) * np.sqrt(chdtri(degrees, _MIDPOINTS) / degrees)
    return float((ndtr(shift - threshold) + ndtr(-shift - threshold)).mean())


def blocks_needed(
    sd: float, ratio: float, *, target_power: float = 0.8, alpha: float = 0.05, largest: int = 1000
) -> int | None:
    """Fewest blocks, at least 3, with which a true `ratio` is detected with `target_power`.

    Returns
    -------
    int or None
        None when more than `largest` blocks are needed.
    """
    if not 0 < target_power < 1:
        raise StatisticsError(f"a power is between 0 and 1, got {target_power}")
    low, high = MIN_BLOCKS_INTERVAL, largest
    if power(sd, ratio, high, alpha=alpha) < target_power:
        return None
    while low < high:
        middle = (low + high) // 2
        if power(sd, ratio, middle, alpha=alpha) >= target_power:
            high = middle
        else:
            low = middle + 1
    return low


def detectable_ratio(sd: float, n_blocks: int, *, target_power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest true ratio above 1 that `n_blocks` blocks detect with `target_power`."""
    found = brentq(
        lambda log: power(sd, float(np.exp(log)), n_blocks, alpha=alpha) - target_power, 1e-9, 100 * sd + 1
    )
    return float(np.exp(found))


def half_width(sd: float, n_blocks: int, *, confidence: float = 0.95) -> float:
    """Compute the expected upper half of the interval of a ratio of 1: exp(t sd/√r) − 1."""
    return float(np.expm1(t_quantile(confidence, n_blocks) * sd / np.sqrt(n_blocks)))


def pilot_upper_sd(log_ratios: ArrayLike, *, level: float = 0.8) -> float:
    """Upper limit of the standard deviation between blocks, from a pilot of a few blocks.

    Parameters
    ----------
    log_ratios : array_like, shape (r,)
        Of the pilot's blocks, r at least 2.
    level : float
        One-sided confidence.

    Returns
    -------
    float
        s √((r − 1)/χ²_{1 − level}): planning with s itself fails in half of all pilots.
    """
    d = np.asarray(log_ratios, dtype=float)
    if d.ndim != 1 or d.size < 2 or not np.isfinite(d).all():
        raise StatisticsError("a pilot has at least two blocks with finite log ratios")
    # chdtri is the inverse of the upper tail.
    return float(d.std(ddof=1) * np.sqrt((d.size - 1) / chdtri(d.size - 1, level)))


@dataclass(frozen=True)
class Plan:
    """What a number of blocks buys.

    Attributes
    ----------
    sd : float
        Standard deviation between blocks that was planned with.
    n_blocks : int or None
        For `ratio` with `target_power`; None when 1000 are not enough.
    ratio, target_power, alpha : float
    requests_per_cell : int
        Requests of a cell over all blocks needed to print `quantile` without a dagger.
    seconds_per_run : float
        Length of each run for that, at `target_rps`; NaN without `n_blocks`.
    quantile, target_rps, design_effect : float
    warnings : tuple of StatisticsWarning
    """

    sd: float
    n_blocks: int | None
    ratio: float
    target_power: float
    alpha: float
    requests_per_cell: int
    seconds_per_run: float
    quantile: float
    target_rps: float
    design_effect: float
    warnings: tuple[StatisticsWarning, ...] = ()


def plan(
    sd: float,
    ratio: float,
    *,
    quantile: float,
    target_rps: float,
    design_effect: float = 1.0,
    exceedances: float = 30.0,
    target_power: float = 0.8,
    alpha: float = 0.05,
) -> Plan:
    """Plan blocks for an effect and seconds for a quantile.

    Parameters
    ----------
    sd, ratio, target_power, alpha
        As in :func:`blocks_needed`.
    quantile : float
        Highest quantile to be printed.
    target_rps : float
        Lowest target rate.
    design_effect : float
        φ of requests beyond the quantile.
    exceedances : float
        Effective exceedances to be had.

    Notes
    -----
    n(1 − q)/φ >= 30 requests beyond the quantile, spread evenly over the blocks.
    """
    if not 0 < quantile < 1 or not target_rps > 0 or not design_effect >= 1:
        raise StatisticsError(
            f"cannot plan for quantile {quantile}, {target_rps} RPS, effect {design_effect}"
        )
    n_blocks = blocks_needed(sd, ratio, target_power=target_power, alpha=alpha)
    requests = int(np.ceil(exceedances * design_effect / (1 - quantile) - 1e-6))
    seconds = requests / (n_blocks * target_rps) if n_blocks else float("nan")
    few = n_blocks is not None and n_blocks < 6
    return Plan(
        sd,
        n_blocks,
        ratio,
        target_power,
        alpha,
        requests,
        seconds,
        quantile,
        target_rps,
        design_effect,
        (StatisticsWarning.TooFewBlocks,) if few else (),
    )
