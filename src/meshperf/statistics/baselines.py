"""What two deployments of the same thing differ by: the noise floor of a cell, and the A/A gate of a campaign.

The two baselines of a block are the same system deployed twice, so every difference between them is noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL, t_quantile
from meshperf.statistics.effect import log_ratio_interval
from meshperf.statistics.permutation import sign_flips
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning

#: Share of A/A differences that the noise floor leaves below it.
NOISE_PERCENTILE = 0.95
_TIE = 1e-12


@dataclass(frozen=True)
class NoiseFloor:
    """How far two deployments of the same baseline are apart in one cell.

    Attributes
    ----------
    limit : float
        95th percentile of |log ratio| of the two baselines of a block; NaN without a finite block. An effect
        smaller than this is not told from noise (``noise_limit`` of :func:`~meshperf.statistics.effect.verdict`).
    ratio : Interval
        Typical ratio of the second baseline to the first; its ``sd`` is s_AA.
    expected_se : float
        √(1.5/2) · s_AA/√r, the standard error that a log ratio of an arm to the mean of the two baselines has
        when the arm's runs spread like the baseline's; NaN without s_AA.
    n : int
        Blocks with a number.
    method : str
    warnings : tuple of StatisticsWarning
    """

    limit: float
    ratio: Interval
    expected_se: float
    n: int
    method: str
    warnings: tuple[StatisticsWarning, ...] = ()

    @property
    def confidence(self) -> float:
        """Nominal coverage of `ratio`."""
        return self.ratio.confidence


def noise_floor(
    d: ArrayLike, *, percentile: float = NOISE_PERCENTILE, confidence: float = 0.95
) -> NoiseFloor:
    """Noise floor of a cell from its A/A log ratios.

    Parameters
    ----------
    d : array_like, shape (r,)
        Log ratio of the two baselines in each block; blocks without a number (NaN) are left out.
    percentile : float
        In (0, 1).
    confidence : float
        Of the interval of the ratio.

    Notes
    -----
    The percentile interpolates linearly between order statistics (Hyndman & Fan 1996, definition 7), and has few to
    go by: with 6 blocks it lies between the two largest. It does not shrink with more blocks, because it is the
    spread of single deployments and not the error of a mean: statistically firm effects below it are real, but no
    larger than what deploying the same thing again does. SE: an arm has variance σ², the mean of two baselines
    σ²/2, and d_AA has 2σ², so SE² = 1.5 σ²/r = (1.5/2) s_AA²/r.
    """
    if not 0 < percentile < 1:
        raise StatisticsError(f"a percentile is between 0 and 1, got {percentile}")
    d = _vector(d)
    known = d[np.isfinite(d)]
    method = f"{100 * percentile:g}th percentile of |log ratio| of the two baselines of a block"
    incomplete = (StatisticsWarning.BlockIncomplete,) if known.size < d.size else ()
    if not known.size:
        nan = float("nan")
        empty = Interval(nan, nan, nan, nan, 0, confidence, method, nan, (StatisticsWarning.TooFewBlocks,))
        return NoiseFloor(nan, empty, nan, 0, method, (StatisticsWarning.TooFewBlocks, *incomplete))
    ratio = log_ratio_interval(known, confidence=confidence)
    limit = float(np.quantile(np.abs(known), percentile))
    expected_se = float(np.sqrt(1.5 / 2) * ratio.sd / np.sqrt(known.size))
    return NoiseFloor(limit, ratio, expected_se, known.size, method, (*incomplete, *ratio.warnings))


@dataclass(frozen=True)
class AAGate:
    """Whether the two baselines of a campaign are exchangeable, by all of its A/A comparisons together.

    Attributes
    ----------
    passed : bool or None
        False: the baselines differ more than chance allows, and no verdict of the campaign stands. None: the
        design cannot reach the level (fewer than 6 blocks), or there is nothing to test.
    p_value : float
        Share of the sign flips of whole blocks that are at least as extreme; in (0, 1], NaN without a test.
    p_min : float
        Smallest p-value that this design can give.
    statistic : float
        Mean over the tests of r d̄²/Σd², in [0, 1].
    rejected, tests : int
        A/A paired t tests with p at most `alpha`, and all of them.
    share, share_low, share_high : float
        rejected/tests with the interval of Clopper & Pearson (1934), which holds for independent tests only:
        shown, not decisive.
    alpha : float
        Level of each test and of the gate.
    n : int
        Blocks.
    n_relabellings : int
    exact : bool
        Whether all sign flips were listed.
    confidence : float
        Of the interval of the share.
    method : str
    warnings : tuple of StatisticsWarning
    """

    passed: bool | None
    p_value: float
    p_min: float
    statistic: float
    rejected: int
    tests: int
    share: float
    share_low: float
    share_high: float
    alpha: float
    n: int
    n_relabellings: int
    exact: bool
    confidence: float
    method: str
    warnings: tuple[StatisticsWarning, ...] = ()


def aa_gate(
    d: ArrayLike,
    *,
    alpha: float = 0.05,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> AAGate:
    """Test all A/A comparisons of a campaign at once.

    Parameters
    ----------
    d : array_like, shape (r, tests)
        Log ratio of the second baseline to the first in each block; a column per target RPS and quantile, NaN
        where a block has none. Signed by the drawn numbers of the deployments this checks that the design was
        kept (a drift within blocks hits either sign alike); signed by the order of measurement, the later against
        the earlier, it finds drift and carry-over within blocks.
    alpha : float
        Level.
    confidence : float
        Of the interval of the share of rejections.
    n_resamples, rng
        Random sign flips and their generator, from 17 blocks on.

    Returns
    -------
    AAGate

    Notes
    -----
    All target RPS of a deployment share its effect, and all quantiles of a run its requests, so the tests are not
    independent and a binomial interval for the share that rejects is too narrow. The unit is the block. If its two
    baselines are exchangeable, exchanging them *in all cells at once* changes nothing, so the reference is the
    2^r sign flips of whole rows of `d` (2^(r−1) different ones, because the statistic is even), which keeps every
    dependence between cells: exact at any r (Fisher 1935; for several endpoints at once Westfall & Young 1993).

    Statistic: mean over columns of r d̄²/Σd² = t²/(t² + r − 1), the share of a cell's A/A sum of squares that a
    constant difference explains. It grows with |t| in every cell and is bounded, so that no cell decides alone.
    The smallest p is 2/2^r: five blocks (0.0625) can never fail at 5 %, and the gate then says so.
    """
    values = np.asarray(d, dtype=float)
    if values.ndim != 2 or values.shape[0] == 0 or np.isinf(values).any():
        raise StatisticsError(f"one row of log ratios per block is needed, got shape {values.shape}")
    if not 0 < alpha < 1:
        raise StatisticsError(f"a level is between 0 and 1, got {alpha}")
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    squares, sizes = (filled**2).sum(axis=0), known.sum(axis=0)
    means = np.divide(filled.sum(axis=0), sizes, out=np.zeros_like(squares), where=sizes > 0)
    # A cell whose blocks are all equal has no spread to test against.
    spread = (np.where(known, values - means, 0.0) ** 2).sum(axis=0)
    usable = (sizes >= MIN_BLOCKS_INTERVAL) & (spread > 1e-24 * np.maximum(squares, 1.0))
    incomplete = () if known.all() else (StatisticsWarning.BlockIncomplete,)
    r, tests = values.shape[0], int(usable.sum())
    method = f"sign flips of whole blocks, {tests} A/A comparisons together"
    nan = float("nan")
    if not tests:
        return AAGate(
            None, nan, nan, nan, 0, 0, nan, nan, nan, alpha, r, 0, True, confidence, method,
            (StatisticsWarning.TooFewBlocks, *incomplete),
        )  # fmt: skip
    filled, squares, sizes = filled[:, usable], squares[usable], sizes[usable]
    signs, exact = sign_flips(r, n_resamples, rng)
    explained = (signs @ filled) ** 2 / (squares * sizes)
    statistics = explained.mean(axis=1)
    p_value = float((statistics >= statistics[0] - _TIE).mean())
    p_min = 2.0 ** (1 - r) if exact else 1 / len(signs)
    critical = np.array([t_quantile(1 - alpha, int(size)) for size in sizes]) ** 2
    rejected = int((explained[0] >= critical / (critical + sizes - 1)).sum())
    low, high = clopper_pearson(rejected, tests, confidence=confidence)
    warnings = incomplete
    passed: bool | None = p_value > alpha
    if p_min > alpha:
        passed, warnings = None, (StatisticsWarning.PMinAboveAlpha, *warnings)
    elif not passed:
        warnings = (StatisticsWarning.AAGateFailed, *warnings)
    return AAGate(
        passed=passed,
        p_value=p_value,
        p_min=p_min,
        statistic=float(statistics[0]),
        rejected=rejected,
        tests=tests,
        share=rejected / tests,
        share_low=low,
        share_high=high,
        alpha=alpha,
        n=r,
        n_relabellings=len(signs),
        exact=exact,
        confidence=confidence,
        method=method,
        warnings=warnings,
    )


def clopper_pearson(hits: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval of a share of `hits` in `n` independent trials (Clopper & Pearson 1934).

    Returns
    -------
    low, high : float
        Quantiles (1 − c)/2 of Beta(k, n − k + 1) and (1 + c)/2 of Beta(k + 1, n − k); 0 and 1 at the ends.
    """
    if not 0 <= hits <= n or n < 1:
        raise StatisticsError(f"{hits} of {n} is not a share")
    if not 0 < confidence < 1:
        raise StatisticsError(f"a confidence is between 0 and 1, got {confidence}")
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def _vector(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size == 0 or np.isinf(array).any():
        raise StatisticsError(f"one log ratio per block is needed, got shape {array.shape}")
    return array
