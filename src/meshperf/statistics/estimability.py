"""Which quantiles the data can support, and what requests that were never sent could have hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.quantiles import best_log_quantile, quantile_bounds
from meshperf.statistics.results import StatisticsError, StatisticsWarning

#: Effective runs behind a tail that are needed to print it with a dagger, and to print it plainly.
EFFECTIVE_RUNS = (2.0, 3.0)
# Kish's number reaches the number of runs only when all runs are alike, so three real runs give 2.9.
_KISH_TOLERANCE = 0.95


@dataclass(frozen=True)
class Estimability:
    """Whether a quantile may be printed.

    Attributes
    ----------
    label : {"ok", "dagger", "n.e."}
        Print it, print it with a dagger, or print "n.e." instead.
    exceedances : float
        Expected requests beyond the quantile, n(1 − q).
    design_effect : float
        Variance of the runs' exceedances over what independent requests would give, at least 1.
    effective_runs : float
        Kish's number of runs that share the exceedances, (Σe)²/Σe².
    n : int
        Number of runs.
    reason : str
        Empty for "ok", else one sentence.
    warnings : tuple of StatisticsWarning
    """

    label: str
    exceedances: float
    design_effect: float
    effective_runs: float
    n: int
    reason: str
    warnings: tuple[StatisticsWarning, ...] = ()


def exceedances(cdf: ArrayLike, edges_s: ArrayLike, totals: ArrayLike, q: float) -> NDArray[np.float64]:
    """Count the requests of each run beyond the merged q-quantile.

    Parameters
    ----------
    cdf : array_like, shape (n_runs, n_bins)
        Run CDFs at right edges.
    edges_s : array_like, shape (n_bins + 1,)
    totals : array_like, shape (n_runs,)
        Requests of each run.
    q : float
        In (0, 1).

    Returns
    -------
    ndarray, shape (n_runs,)
        Not whole: inside the quantile's bin each run is interpolated at the same place, linearly in log
        latency.
    """
    cdf = np.asarray(cdf, dtype=float)
    edges = np.asarray(edges_s, dtype=float)
    merged = cdf.mean(axis=0)
    index = min(int((merged < q - 1e-12).sum()), merged.size - 1)
    below = merged[index - 1] if index else 0.0
    mass = merged[index] - below
    share = np.clip((q - below) / mass, 0.0, 1.0) if mass > 0 else 1.0
    run_below = cdf[:, index - 1] if index else np.zeros(cdf.shape[0])
    at = run_below + share * (cdf[:, index] - run_below)
    if edges.size != merged.size + 1:
        raise StatisticsError(f"{merged.size} bins need {merged.size + 1} edges, got {edges.size}")
    return (1.0 - at) * np.asarray(totals, dtype=float)


def tail_dispersion(exceeding: ArrayLike) -> float:
    """Index of dispersion of the runs' exceedances, s²/mean, at least 1; infinite for fewer than two runs.

    It estimates the design effect of requests beyond a quantile, the differences between runs included.
    """
    exceeding = np.asarray(exceeding, dtype=float)
    if exceeding.size < 2:
        return float("inf")
    mean = exceeding.mean()
    return max(1.0, float(exceeding.var(ddof=1) / mean)) if mean > 0 else 1.0


def estimability(
    exceeding: ArrayLike,
    n_requests: float,
    q: float,
    *,
    limits: tuple[float, float] = (10.0, 30.0),
    design_effect: float | None = None,
) -> Estimability:
    """Decide whether the q-quantile of merged runs may be printed.

    Parameters
    ----------
    exceeding : array_like, shape (n_runs,)
        Requests of each run beyond the merged quantile (:func:`exceedances`).
    n_requests : float
        Requests of all runs.
    q : float
        In (0, 1).
    limits : tuple of float
        Effective exceedances n(1 − q)/φ needed for a dagger, and to print the quantile plainly.
    design_effect : float, optional
        φ; left out, it is estimated by :func:`tail_dispersion`.

    Notes
    -----
    The second condition keeps one bad run from being the tail: the exceedances must come from at least 3
    effective runs (2 for a dagger) by Kish (1965), met to within 5 % because equality needs identical runs.
    With fewer than 3 runs neither φ nor Kish's number says anything; then n(1 − q) alone must reach the
    limit, and the label is a dagger at best.
    """
    exceeding = np.asarray(exceeding, dtype=float)
    if not 0 < q < 1:
        raise StatisticsError(f"a quantile is between 0 and 1, got {q}")
    if not np.isfinite(exceeding).all() or (exceeding < 0).any() or not np.isfinite(n_requests):
        raise StatisticsError("exceedances must be finite and not negative")
    expected = float(n_requests) * (1.0 - q)
    phi = tail_dispersion(exceeding) if design_effect is None else float(design_effect)
    squares = float((exceeding**2).sum())
    kish = float(exceeding.sum() ** 2 / squares) if squares > 0 else 0.0
    effective = expected / phi
    few_runs = StatisticsWarning.SingleRunTail
    if exceeding.size < EFFECTIVE_RUNS[1] and expected >= limits[0]:
        reason = f"{exceeding.size} runs cannot show how much requests depend on each other"
        return Estimability("dagger", expected, phi, kish, exceeding.size, reason, (few_runs,))
    for label, limit, runs in zip(("ok", "dagger"), limits[::-1], EFFECTIVE_RUNS[::-1], strict=True):
        if effective >= limit and kish >= _KISH_TOLERANCE * runs:
            warnings = () if kish >= _KISH_TOLERANCE * EFFECTIVE_RUNS[1] else (few_runs,)
            reason = "" if label == "ok" else f"{effective:.0f} effective requests beyond it, {kish:.1f} runs"
            return Estimability(label, expected, phi, kish, exceeding.size, reason, warnings)
    warnings = (StatisticsWarning.NotEstimable,)
    if effective >= limits[0]:
        reason = (
            f"the requests beyond it come from {kish:.1f} effective runs, {EFFECTIVE_RUNS[0]:g} are needed"
        )
        warnings += (few_runs,)
    else:
        known = exceeding.size >= EFFECTIVE_RUNS[1]
        count = f"{effective:.1f} effective" if known else f"{expected:.1f}"
        reason = f"{count} requests beyond it, {limits[0]:g} are needed"
    return Estimability("n.e.", expected, phi, kish, exceeding.size, reason, warnings)


def omission_bounds(
    cdf: ArrayLike, edges_s: ArrayLike, q: float, missing_fraction: float
) -> tuple[float, float]:
    """Limits of the q-quantile in seconds, whatever the requests that were never sent would have shown.

    Parameters
    ----------
    cdf : array_like, shape (n_bins,)
        Cumulative shares of the requests that were sent.
    edges_s : array_like, shape (n_bins + 1,)
    q : float
        In (0, 1).
    missing_fraction : float
        Share m of the schedule that was never sent, in [0, 1].

    Returns
    -------
    low_s, high_s : float
        F⁻¹((q − m)/(1 − m)) and F⁻¹(q/(1 − m)), worst-case bounds in the sense of Manski; 0 when q <= m and
        infinite when m >= 1 − q. Without missing requests both are the quantile itself.

    Notes
    -----
    Valid for a generator that does not catch up, where every skipped request is missing from the count.
    """
    if not 0 <= missing_fraction <= 1:
        raise StatisticsError(f"a missing fraction is between 0 and 1, got {missing_fraction}")
    if not 0 < q < 1:
        raise StatisticsError(f"a quantile is between 0 and 1, got {q}")
    sent = 1 - missing_fraction
    low, high = 0.0, float("inf")
    if q > missing_fraction and (q - missing_fraction) / sent > 0:
        low = _quantile_s(cdf, edges_s, (q - missing_fraction) / sent)
    if q < sent and q / sent < 1:
        high = _quantile_s(cdf, edges_s, q / sent)
    return low, high


def _quantile_s(cdf: ArrayLike, edges_s: ArrayLike, q: float) -> float:
    value = float(np.exp(best_log_quantile(cdf, edges_s, q)))
    if np.isnan(value):
        low, high = quantile_bounds(cdf, edges_s, q)
        return float(low if np.isinf(high) else high)
    return value


def co_corrected(counts: ArrayLike, edges_s: ArrayLike, expected_interval_s: float) -> NDArray[np.float64]:
    """Add the requests that a blocked connection would have sent meanwhile: a sensitivity column only.

    Parameters
    ----------
    counts : array_like, shape (n_bins,)
        Requests per bin of one run.
    edges_s : array_like, shape (n_bins + 1,)
        Seconds, ascending; an overflow bin without an end counts at its start.
    expected_interval_s : float
        Seconds between two requests of one connection, connections / target RPS, above 0.

    Returns
    -------
    ndarray, shape (n_bins,)
        At least the counts given. For every latency v above the interval I one further request at each of
        v − I, v − 2I, ... that is not below I.

    Notes
    -----
    The rule of HdrHistogram's ``recordValueWithExpectedInterval`` and ``copyCorrectedForCoordinatedOmission`` (Tene),
    with the geometric middle of a bin for its latencies. It assumes that every long latency is one stall of its own
    connection: with a server stopped for 0.5 s in every 5 s it finds p99 and is out by up to a factor 30 at p90. Never
    the main number; intended start times from an access log, where there is one, or :func:`omission_bounds` are better.
    """
    array, edges = np.asarray(counts, dtype=float), np.asarray(edges_s, dtype=float)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any():
        raise StatisticsError(f"one run is a list of counts, none negative, got shape {array.shape}")
    if edges.size != array.size + 1:
        raise StatisticsError(f"{array.size} bins need {array.size + 1} edges, got {edges.size}")
    if not expected_interval_s > 0 or not np.isfinite(expected_interval_s):
        raise StatisticsError(f"an interval between requests is above 0 s, got {expected_interval_s}")
    left, right = edges[:-1], edges[1:]
    middle = np.where(np.isinf(right), left, np.where(left > 0, np.sqrt(left * right), right / 2))
    long = np.flatnonzero((array > 0) & (middle >= 2 * expected_interval_s))
    missed = np.floor(middle[long] / expected_interval_s + 1e-9).astype(int) - 1
    source = np.repeat(long, missed)
    step = np.arange(source.size) - np.repeat(np.cumsum(missed) - missed, missed) + 1
    latencies = middle[source] - step * expected_interval_s
    bins = np.clip(np.searchsorted(edges, latencies, side="left") - 1, 0, array.size - 1)
    return array + np.bincount(bins, weights=array[source], minlength=array.size)
