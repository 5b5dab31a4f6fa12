"""Permutation inside blocks: p-values of a blocked design, exact whenever all relabellings can be listed.

Under "no difference" the runs of a block are exchangeable, runs of different blocks are not. So the label
"arm" moves inside blocks only: with two baselines a block has three choices and r blocks have 3^r, with one
baseline 2^r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import block_values, cdf_matrix
from meshperf.statistics.results import StatisticsError, StatisticsWarning

#: All relabellings are listed up to this many (3^10), else drawn at random.
MAX_EXACT = 60_000
#: The tail statistic looks where the pooled CCDF is between these: the visible part of a CCDF figure.
TAIL_REGION = (0.002, 0.05)
_CHUNK = 512
_TIE = 1e-12


@dataclass(frozen=True)
class PermutationTest:
    """Result of a test by relabelling inside blocks.

    Attributes
    ----------
    statistic : float
        Of the labels as they are.
    p_value : float
        In (0, 1]; NaN when there is no statistic.
    p_min : float
        Smallest p-value that this design can give.
    n : int
        Number of blocks.
    n_relabellings : int
    exact : bool
        Whether all relabellings were listed.
    method : str
    warnings : tuple of StatisticsWarning
    """

    statistic: float
    p_value: float
    p_min: float
    n: int
    n_relabellings: int
    exact: bool
    method: str
    warnings: tuple[StatisticsWarning, ...] = ()


@dataclass(frozen=True)
class BodyTailTest:
    """Body (Kolmogorov–Smirnov D), tail (T) and their combination, by the same relabellings.

    Attributes
    ----------
    body, tail, combined : PermutationTest
        `combined` has the smaller of the two p-values as its statistic, and an exact p-value for having
        looked twice.
    """

    body: PermutationTest
    tail: PermutationTest
    combined: PermutationTest


def p_min(n_blocks: int, *, baselines_per_block: int = 2) -> float:
    """Smallest p-value that relabelling inside blocks can give.

    Parameters
    ----------
    n_blocks : int
        r, at least 1.
    baselines_per_block : int
        2 (which of three runs was the mesh, 3^r relabellings) or 1 (which of two, 2^r, of which each and its
        mirror image are equally extreme).

    Returns
    -------
    float
        1/3^r or 2/2^r, in (0, 1].
    """
    if n_blocks < 1 or baselines_per_block not in (1, 2):
        raise StatisticsError(
            f"there is no design with {n_blocks} blocks and {baselines_per_block} baselines"
        )
    return 3.0**-n_blocks if baselines_per_block == 2 else 2.0 ** (1 - n_blocks)


def block_permutation_body_tail(
    cdf: ArrayLike,
    baseline_cdfs: ArrayLike,
    *,
    alpha: float = 0.05,
    tail_region: tuple[float, float] = TAIL_REGION,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> BodyTailTest:
    """Test whether an arm has the baseline's latency distribution.

    Parameters
    ----------
    cdf : array_like, shape (r, n_bins)
        The arm's run in each block.
    baseline_cdfs : array_like, shape (r, b, n_bins)
        The b = 1 or 2 baseline runs of each block.
    alpha : float
        Level; a design that cannot reach it is warned about.
    tail_region : tuple of float
        Range of the pooled CCDF in which the tail is compared.
    n_resamples, rng
        Random relabellings and their generator, when there are too many to list.

    Returns
    -------
    BodyTailTest

    Notes
    -----
    D = sup |F̄₁ − F̄₀|; T = sup |log(S̄₁/S̄₀)| over bins of the tail region, S = 1 − F: D is nearly blind to changes of
    the tail alone (Mason & Schuenemeyer 1983). p = #{relabelling at least as extreme}/#, the labels as they are
    included, which for random relabellings is (hits + 1)/(B + 1) (Phipson & Smyth 2010). The combined test
    ranks min(p_D, p_T) among the same quantity of all relabellings (Westfall & Young 1993), so looking twice
    costs nothing. Exact for identical distributions; claims about a quantile rest on its interval.
    """
    members = _members(cdf, baseline_cdfs)
    r, size, _ = members.shape
    choices, exact = _relabellings(r, size, n_resamples, rng)
    pooled = members.mean(axis=(0, 1))
    region = (1 - pooled >= tail_region[0]) & (1 - pooled <= tail_region[1])
    has_tail = bool(region.any())
    # Where all runs agree there is no difference under any label; most of a grid is beyond all latencies.
    telling = np.ptp(members, axis=(0, 1)) > 0
    members, pooled, region = members[:, :, telling], pooled[telling], region[telling]
    total = size * pooled
    rows = members.reshape(r * size, -1)
    body, tail = np.empty(len(choices)), np.empty(len(choices))
    for start in range(0, len(choices), _CHUNK):
        part = choices[start : start + _CHUNK]
        picked = np.zeros((len(part), r * size))
        picked[np.arange(len(part))[:, None], np.arange(r) * size + part] = 1 / r
        arm = picked @ rows
        # control = (total - arm) / (size - 1), and arm - control without another array of that size.
        body[start : start + _CHUNK] = np.abs(arm - pooled).max(axis=1, initial=0.0) * size / (size - 1)
        # A floor keeps an empty tail comparable: it is as far away as the floor allows, in every relabelling
        # alike.
        own = np.maximum(1 - arm[:, region], 1e-9)
        other = np.maximum(1 - (total[region] - arm[:, region]) / (size - 1), 1e-9)
        ratios = own / other
        largest, smallest_ratio = ratios.max(axis=1, initial=1.0), ratios.min(axis=1, initial=1.0)
        tail[start : start + _CHUNK] = np.log(np.maximum(largest, 1 / smallest_ratio))
    smallest = p_min(r, baselines_per_block=size - 1) if exact else 1 / len(choices)
    warnings = (StatisticsWarning.PMinAboveAlpha,) if smallest > alpha else ()
    method = f"{len(choices)} {'' if exact else 'random '}relabellings inside {r} blocks"

    def test(values: NDArray, statistic: float, known: bool = True) -> PermutationTest:
        p = float((values >= values[0] - _TIE).mean()) if known else float("nan")
        extra = () if known else (StatisticsWarning.NotEstimable,)
        if not known:
            statistic = float("nan")
        return PermutationTest(statistic, p, smallest, r, len(choices), exact, method, warnings + extra)

    # The smaller p-value is the larger evidence: ranks are taken of its negative.
    least = np.minimum(_p_of_each(body), _p_of_each(tail)) if has_tail else _p_of_each(body)
    return BodyTailTest(
        body=test(body, float(body[0])),
        tail=test(tail, float(tail[0]), has_tail),
        combined=test(-least, float(least[0]), has_tail),
    )


def block_permutation_ks(
    cdf: ArrayLike,
    baseline_cdfs: ArrayLike,
    *,
    alpha: float = 0.05,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> PermutationTest:
    """Kolmogorov–Smirnov test by relabelling inside blocks; see :func:`block_permutation_body_tail`."""
    return block_permutation_body_tail(cdf, baseline_cdfs, alpha=alpha, n_resamples=n_resamples, rng=rng).body


def sign_flip_test(
    d: ArrayLike, *, alpha: float = 0.05, n_resamples: int = 10_000, rng: np.random.Generator | None = None
) -> PermutationTest:
    """Test whether the mean log ratio is 0, without assuming a normal distribution.

    Parameters
    ----------
    d : array_like, shape (r,)
        Log ratio of each block.
    alpha : float
        Level; a design that cannot reach it (fewer than 6 blocks at 0.05) is warned about.
    n_resamples, rng
        Random sign flips and their generator, from 17 blocks on.

    Returns
    -------
    PermutationTest
        Statistic |mean d|; p = share of the 2^r sign flips at least as extreme (Fisher 1935, section 21).
    """
    d = block_values(d)
    flips, exact = sign_flips(d.size, n_resamples, rng)
    values = np.abs(flips @ d) / d.size
    smallest = p_min(d.size, baselines_per_block=1) if exact else 1 / len(flips)
    return PermutationTest(
        statistic=float(values[0]),
        p_value=float((values >= values[0] - _TIE).mean()),
        p_min=smallest,
        n=d.size,
        n_relabellings=len(flips),
        exact=exact,
        method=f"{len(flips)} {'' if exact else 'random '}sign flips of blocks",
        warnings=(StatisticsWarning.PMinAboveAlpha,) if smallest > alpha else (),
    )


def sign_flips(
    n_blocks: int, n_resamples: int = 10_000, rng: np.random.Generator | None = None
) -> tuple[NDArray[np.float64], bool]:
    """Signs of the blocks under exchange of their two runs, for statistics that are the same for a mirror image.

    Parameters
    ----------
    n_blocks : int
        r, at least 1.
    n_resamples, rng
        For random sign flips, when there are too many to list.

    Returns
    -------
    flips : ndarray, shape (m, r)
        1 and −1; row 0 is how it was. When listed, the first block keeps its sign: the 2^(r−1) other rows are mirror
        images of these and would count everything twice.
    exact : bool
        Whether all were listed.
    """
    if n_blocks < 1:
        raise StatisticsError(f"there must be at least 1 block, got {n_blocks}")
    if 2 ** (n_blocks - 1) <= MAX_EXACT:
        rest = np.array(list(product((1.0, -1.0), repeat=n_blocks - 1))).reshape(-1, n_blocks - 1)
        return np.concatenate([np.ones((len(rest), 1)), rest], axis=1), True
    if rng is None:
        raise StatisticsError(f"2^{n_blocks} sign flips are too many to list: pass a seeded generator")
    drawn = rng.choice((1.0, -1.0), size=(n_resamples, n_blocks))
    return np.concatenate([np.ones((1, n_blocks)), drawn]), False


def _members(cdf: ArrayLike, baseline_cdfs: ArrayLike) -> NDArray[np.float64]:
    """All runs of each block, the arm first; shape (r, 1 + b, n_bins)."""
    arm = cdf_matrix(cdf)
    baselines = np.asarray(baseline_cdfs, dtype=float)
    if baselines.ndim != 3 or baselines.shape[0] != arm.shape[0] or baselines.shape[2] != arm.shape[1]:
        raise StatisticsError(f"baselines must be (blocks, runs, bins) like the arm, got {baselines.shape}")
    if baselines.shape[1] not in (1, 2) or not np.isfinite(baselines).all():
        raise StatisticsError("a block has one or two finite baseline runs")
    return np.concatenate([arm[:, None, :], baselines], axis=1)


def _relabellings(
    r: int, size: int, n_resamples: int, rng: np.random.Generator | None
) -> tuple[NDArray[np.intp], bool]:
    """Which run of each block is called the arm, shape (m, r); row 0 is how it was."""
    if size**r <= MAX_EXACT:
        return _all_relabellings(r, size), True
    if rng is None:
        raise StatisticsError(f"{size}^{r} relabellings are too many to list: pass a seeded generator")
    drawn = rng.integers(0, size, size=(n_resamples, r))
    return np.concatenate([np.zeros((1, r), dtype=drawn.dtype), drawn]), False


@lru_cache(maxsize=8)
def _all_relabellings(r: int, size: int) -> NDArray[np.intp]:
    choices = np.array(list(product(range(size), repeat=r)))
    choices.flags.writeable = False
    return choices


def _p_of_each(values: NDArray) -> NDArray[np.float64]:
    """Share of relabellings at least as extreme as each one, ties included."""
    ordered = np.sort(values)
    return 1 - np.searchsorted(ordered, values - _TIE, side="left") / len(values)
