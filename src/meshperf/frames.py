"""The raw data of a campaign as tables: a row per run, per run and histogram bin, or per run and container.

Each reads every run of a campaign, whatever its verdict: what to leave out is for the analysis to say.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf import campaign, runs
from meshperf.design import Arm, RunKey
from meshperf.errors import MeshperfError
from meshperf.histogram import LOG_GRID, Histogram, on_one_grid
from meshperf.loadgen.recognise import read_run
from meshperf.loadgen.result import LoadResult
from meshperf.statistics.quantiles import best_log_quantile, run_cdfs
from meshperf.statistics.steady import Steadiness, steadiness

#: What tells one run from another, the first columns of every table.
IDENTITY = ("campaign", "mesh", "configuration", "target_rps", "block", "deployment")
#: Quantiles in columns of their own in ``runs_df``.
_QUANTILES = {"p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99, "p999_s": 0.999}

RUNS_COLUMNS = (
    *IDENTITY,
    "order",
    "connections",
    "achieved_rps",
    "n_requests",
    "n_errors",
    "error_ratio",
    "mean_s",
    *_QUANTILES,
    "min_s",
    "max_s",
    "verdict",
    "reasons",
    "missing_fraction",
    "longest_stall_s",
    "started_utc",
    "duration_s",
    "attempts",
    "proof_passed",
    "steadiness",
    "n_slices",
    "warmup_slices",
    "drift_ratio",
    "path",
)
SLICES_COLUMNS = (*IDENTITY, "slice", "start_s", "n_requests", "p50_s", "p99_s")
MEMORY_COLUMNS = (*IDENTITY, "role", "time_s", "working_set_bytes")
HISTOGRAMS_COLUMNS = (*IDENTITY, "bin_low_s", "bin_high_s", "count")
RESOURCES_COLUMNS = (
    *IDENTITY,
    "role",
    "namespace",
    "pod",
    "container",
    "cores",
    "cpu_s",
    "cpu_s_per_request",
    "working_set_median_bytes",
    "working_set_max_bytes",
    "throttled_ratio",
)


def load_runs(
    campaign_dir: str | Path, arm: Arm | None = None, target_rps: int | None = None
) -> pd.DataFrame:
    """Return ``runs_df``: one row per run, in the drawn order; of one arm or rate only where it is named.

    Latencies are in seconds and of successful requests; quantiles come from the slices, on the study-wide 1 %
    grid. ``order`` is the run's place in it, from 1. ``n_requests`` counts all requests,
    ``attempts`` those it took to measure the run, the broken ones included. ``steadiness`` is "steady", "not steady"
    or, with too few slices to tell, "unknown"; ``warmup_slices`` is the number of slices at the beginning that differ
    from the rest, ``drift_ratio`` the median latency of the last third of the others to that of the first.

    Raises
    ------
    MeshperfError
        If there is no such campaign, or a file of it is damaged.
    """
    rows = []
    for key, run, record in _runs(campaign_dir, arm, target_rps):
        load, quality, omission = record["load"], record["quality"], record["omission"]
        result = read_run(run)
        slices = _read_slices(run / runs.SLICES)
        histogram = _histogram(run, result, slices)
        judged = _steadiness(slices, run)
        rows.append(
            {
                **_identity(key, record),
                "order": record["order"],
                "connections": load["connections"],
                "achieved_rps": load["achieved_rps"],
                "n_requests": result.n,
                "n_errors": result.n_errors,
                "error_ratio": result.n_errors / result.n if result.n else np.nan,
                "mean_s": result.histogram.mean_s,
                **{name: histogram.quantile(q) for name, q in _QUANTILES.items()},
                "min_s": result.histogram.min_s,
                "max_s": result.histogram.max_s,
                "verdict": quality["verdict"],
                "reasons": "; ".join(quality["reasons"]),
                "missing_fraction": _number(omission.get("missing_fraction")),
                "longest_stall_s": _number(omission.get("longest_stall_s")),
                "started_utc": load["started_utc"],
                "duration_s": result.duration_s,
                "attempts": record["attempt"],
                "proof_passed": record["proof"]["passed"],
                "steadiness": {True: "steady", False: "not steady", None: "unknown"}[judged.steady],
                "n_slices": judged.n,
                "warmup_slices": judged.truncation,
                "drift_ratio": np.exp(judged.drift),
                "path": key.relative_path().as_posix(),
            }
        )
    return _frame(rows, RUNS_COLUMNS).sort_values("order", ignore_index=True)


def load_histograms(
    campaign_dir: str | Path, arm: Arm | None = None, target_rps: int | None = None
) -> pd.DataFrame:
    """Return ``histograms_df``: one row per run and occupied bin ``(bin_low_s, bin_high_s]``; runs as in `load_runs`.

    Bins are those of the slices, added over the slices of the run; of a run without slices, those of the load
    generator. Imported runs whose bins do not lie on one grid (oha's and Nighthawk's have edges of their own in every
    run) are spread over the study-wide grid: between the edges of a run, its counts are interpolated.

    Raises
    ------
    MeshperfError
        If there is no such campaign, or a file of it is damaged.
    """
    found = [(key, record, load_histogram(run)) for key, run, record in _runs(campaign_dir, arm, target_rps)]
    imported = any(record.get("imported") for _, record, _ in found)
    if imported and not on_one_grid(histogram for _, _, histogram in found):
        found = [(key, record, histogram.spread(LOG_GRID)) for key, record, histogram in found]
    parts = []
    for key, record, histogram in found:
        occupied = np.flatnonzero(histogram.counts)
        parts.append(
            pd.DataFrame(
                {
                    **_identity(key, record),
                    "bin_low_s": histogram.edges_s[occupied],
                    "bin_high_s": histogram.edges_s[occupied + 1],
                    "count": histogram.counts[occupied],
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else _frame([], HISTOGRAMS_COLUMNS)


def load_resources(campaign_dir: str | Path) -> pd.DataFrame:
    """Return ``resources_df``: one row per run and container.

    ``cores`` is the mean over the run's window, ``cpu_s_per_request`` is NaN without requests, and
    ``throttled_ratio`` (throttled periods to all periods) where the node does not count them.

    Raises
    ------
    MeshperfError
        If there is no such campaign, or a file of it is damaged.
    """
    rows = []
    for key, run, record in _runs(campaign_dir):
        n = read_run(run).n
        for container in record["resources"]["containers"]:
            periods, throttled = container.get("periods"), container.get("throttled_periods")
            rows.append(
                {
                    **_identity(key, record),
                    **{name: container[name] for name in ("role", "namespace", "pod", "container")},
                    "cores": container["cores"],
                    "cpu_s": container["cpu_s"],
                    "cpu_s_per_request": container["cpu_s"] / n if n else np.nan,
                    "working_set_median_bytes": container["working_set_bytes_median"],
                    "working_set_max_bytes": container["working_set_bytes_max"],
                    "throttled_ratio": throttled / periods if periods and throttled is not None else np.nan,
                }
            )
    return _frame(rows, RESOURCES_COLUMNS)


def load_memory(campaign_dir: str | Path) -> pd.DataFrame:
    """Return ``samples_df``: one row per run, role and sample of memory within the run's window.

    ``time_s`` counts from the start of the window, ``working_set_bytes`` adds the containers of the role; a sample that
    lacks one of them is left out.

    Raises
    ------
    MeshperfError
        If there is no such campaign, or a file of it is damaged.
    """
    parts = []
    for key, run, record in _runs(campaign_dir):
        path, window = run / runs.RESOURCES, record["window"]
        if not path.exists():
            continue
        samples = _read_table(path, runs.RESOURCES_COLUMNS)
        inside = samples["time_unix_s"].between(window["start_unix_s"], window["end_unix_s"])
        by_time = samples[inside].groupby(["role", "time_unix_s"])["working_set_bytes"]
        added = by_time.agg(["sum", "size"]).reset_index()
        whole = added[added["size"] == added.groupby("role")["size"].transform("max")]
        parts.append(
            pd.DataFrame(
                {
                    **_identity(key, record),
                    "role": whole["role"],
                    "time_s": whole["time_unix_s"] - window["start_unix_s"],
                    "working_set_bytes": whole["sum"],
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else _frame([], MEMORY_COLUMNS)


def load_histogram(run: str | Path) -> Histogram:
    """Return the latency histogram of one run: its slices added up, or the load generator's if it has none.

    Parameters
    ----------
    run : str or Path
        The run's directory.

    Raises
    ------
    MeshperfError
        If a file is missing or damaged.
    """
    run = Path(run)
    return _histogram(run, read_run(run), _read_slices(run / runs.SLICES))


def load_slices(run: str | Path) -> dict[int, Histogram]:
    """Return the latency histogram of each slice of a run, by its number from 0; empty if it has none.

    Raises
    ------
    MeshperfError
        If the file is damaged.
    """
    path = Path(run) / runs.SLICES
    table = _read_slices(path)
    return {
        int(number): Histogram.from_bins(LOG_GRID, _counts(table[table[:, 0] == number], path))
        for number in np.unique(table[:, 0])
    }


def load_time_course(campaign_dir: str | Path) -> pd.DataFrame:
    """Return ``slices_df``: one row per run and slice, in the order of time.

    ``start_s`` is the slice's start within the run; quantiles are of the successful requests that were sent in it.

    Raises
    ------
    MeshperfError
        If there is no such campaign, or a file of it is damaged.
    """
    parts = []
    for key, run, record in _runs(campaign_dir):
        table = _read_slices(run / runs.SLICES)
        numbers, starts, counts = _by_slice(table, run / runs.SLICES)
        if not len(numbers):
            continue
        cdfs = run_cdfs(counts)
        parts.append(
            pd.DataFrame(
                {
                    **_identity(key, record),
                    "slice": numbers,
                    "start_s": starts,
                    "n_requests": counts.sum(axis=1).astype(int),
                    "p50_s": np.exp(best_log_quantile(cdfs, LOG_GRID, 0.5)),
                    "p99_s": np.exp(best_log_quantile(cdfs, LOG_GRID, 0.99)),
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else _frame([], SLICES_COLUMNS)


def _steadiness(table: NDArray[np.float64], run: Path) -> Steadiness:
    """Judge the time course of a run by the medians of its slices."""
    _, _, counts = _by_slice(table, run / runs.SLICES)
    logs = best_log_quantile(run_cdfs(counts), LOG_GRID, 0.5) if len(counts) else np.empty(0)
    if not len(logs) or not np.isfinite(logs).all():
        return Steadiness(None, 0, np.nan, np.nan, len(counts))
    return steadiness(np.exp(logs))


def _by_slice(
    table: NDArray[np.float64], path: Path
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return numbers (n,), starts in seconds (n,) and counts (n, bins) of the slices that hold a request."""
    numbers, first, index = np.unique(table[:, 0], return_index=True, return_inverse=True)
    counts = np.zeros((len(numbers), len(LOG_GRID) - 1), dtype=np.int64)
    np.add.at(counts, (index, _bins(table, path)), table[:, 4].astype(np.int64))
    return numbers.astype(np.int64), table[first, 1], counts


def _histogram(run: Path, result: LoadResult, table: NDArray[np.float64]) -> Histogram:
    if not len(table):
        return result.histogram
    counts = _counts(table, run / runs.SLICES)
    if counts.sum() != result.histogram.n:
        return Histogram.from_bins(LOG_GRID, counts)
    # The same requests: the extremes are known better than their bins. The access log rounds latencies, so
    # that one can lie just outside of the bin it was counted in.
    occupied = np.flatnonzero(counts)
    first, last = occupied[0], occupied[-1]
    return Histogram.from_bins(
        LOG_GRID,
        counts,
        min_s=float(np.clip(result.histogram.min_s, LOG_GRID[first], LOG_GRID[first + 1])),
        max_s=float(np.clip(result.histogram.max_s, LOG_GRID[last], LOG_GRID[last + 1])),
        sum_s=result.histogram.sum_s,
    )


def _read_slices(path: Path) -> NDArray[np.float64]:
    """Return the rows of ``slices.csv.gz``, shape (n, 5), columns as in the file; none without a file."""
    if not path.exists():
        return np.empty((0, len(runs.SLICES_COLUMNS)))
    try:
        return _read_table(path, runs.SLICES_COLUMNS).to_numpy(dtype=float)
    except ValueError as error:
        raise _damaged(path, error) from None


def _read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return a compressed CSV file of a run, which must have these columns."""
    try:
        # Four times as fast as the csv module.
        table = pd.read_csv(path, compression="gzip", index_col=False)
        if tuple(table.columns) != columns:
            raise ValueError(f"its header is not {','.join(columns)}")
        return table
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> MeshperfError:
    return MeshperfError(f"{path} is truncated or damaged ({error}): restore it from version control")


def _counts(table: NDArray[np.float64], path: Path) -> NDArray[np.int64]:
    """Return the counts of rows of slices on the study-wide grid, added up, shape (len(LOG_GRID) - 1,)."""
    counts = np.zeros(len(LOG_GRID) - 1, dtype=np.int64)
    np.add.at(counts, _bins(table, path), table[:, 4].astype(np.int64))
    return counts


def _bins(table: NDArray[np.float64], path: Path) -> NDArray[np.intp]:
    """Return the bin of the study-wide grid of each row of slices, shape (n,)."""
    lows_s = table[:, 2]
    bins = np.searchsorted(LOG_GRID, lows_s * (1 - 1e-9), side="left")
    if not np.allclose(LOG_GRID[bins], lows_s, rtol=1e-9, atol=0):
        raise MeshperfError(
            f"{path} is not on the study-wide grid of 1 % bins: restore it from version control"
        )
    return bins


def _runs(
    campaign_dir: str | Path, arm: Arm | None = None, target_rps: int | None = None
) -> Iterator[tuple[RunKey, Path, dict[str, Any]]]:
    campaign_dir = Path(campaign_dir)
    campaign.read_design(campaign_dir)
    for key in runs.iter_keys(campaign_dir):
        if arm not in (None, key.arm) or target_rps not in (None, key.target_rps):
            continue
        run = runs.run_dir(campaign_dir, key)
        yield key, run, runs.read_record(run)


def _identity(key: RunKey, record: dict[str, Any]) -> dict[str, Any]:
    return {"campaign": record["campaign"], **runs.key_record(key)}


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns))
