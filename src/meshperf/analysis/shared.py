"""What the tables of results share: the order of arms and quantiles, random generators, warnings as text."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.runtable import RunTable
from meshperf.design import BASELINE, Arm
from meshperf.statistics.estimability import Estimability, estimability, exceedances
from meshperf.statistics.results import StatisticsWarning
from meshperf.study import Study

#: Reported besides the study's own quantiles wherever the data support it.
EXTRA_QUANTILE = 0.999
NAN = float("nan")


def arms_of(runs: pd.DataFrame, study: Study) -> Iterator[Arm]:
    """Yield the arms that have a run, the baseline first, in the study's order."""
    present = {Arm(mesh, name) for mesh, name in runs[["mesh", "configuration"]].itertuples(index=False)}
    yield from (arm for arm in (BASELINE, *study.arms_expanded) if arm in present)


def runs_of_cell(runs: pd.DataFrame, arm: Arm, target_rps: int) -> pd.DataFrame:
    """Return the runs of one arm at one rate."""
    chosen = (
        (runs["mesh"] == arm.mesh)
        & (runs["configuration"] == arm.configuration)
        & (runs["target_rps"] == target_rps)
    )
    return runs[chosen]


def cell_columns(arm: Arm, target_rps: int) -> dict[str, Any]:
    """Return the columns that name a cell."""
    return {"mesh": arm.mesh, "configuration": arm.configuration, "target_rps": target_rps}


def generator(study: Study, *purpose: object) -> np.random.Generator:
    """Make the generator of one purpose, independent of the order of work and of how many cells there are."""
    return np.random.default_rng([study.seed, zlib.crc32("/".join(map(str, purpose)).encode())])


def quantiles_of(study: Study) -> list[float]:
    """Return the quantiles to report, ascending: the study's and the extra one."""
    return sorted({*study.quantiles, EXTRA_QUANTILE})


def without_extra(rows: list[dict[str, Any]], study: Study, label: str) -> list[dict[str, Any]]:
    """Leave out the extra quantile where the data do not support it."""
    extra = EXTRA_QUANTILE if EXTRA_QUANTILE not in study.quantiles else None
    return [row for row in rows if row["quantile"] != extra or row[label] not in ("n.e.", "not estimable")]


def quantile_name(q: float) -> str:
    """Return the name of a quantile as study files and columns have it: "p99" for 0.99, "p999" for 0.999."""
    return f"p{100 * q:g}".replace(".", "")


def support(table: RunTable, rows: Sequence[int], q: float, study: Study) -> Estimability:
    """Say whether the runs in some rows of a table together support a quantile."""
    rows = list(rows)
    totals = table.counts[rows].sum(axis=1)
    exceeding = exceedances(table.cdfs(rows), table.edges_s, totals, q)
    return estimability(exceeding, totals.sum(), q, limits=study.analysis.estimable)


def unbounded(runs: pd.DataFrame, q: float) -> list[StatisticsWarning]:
    """Warn where a run left so many requests unsent that they could all lie beyond the quantile."""
    return [StatisticsWarning.OmissionUnbounded] if (runs["missing_fraction"] >= 1 - q).any() else []


def block_means(cdfs: NDArray, blocks: pd.Series) -> NDArray[np.float64]:
    """Mean CDF of each block's runs, in the order of the block numbers; shape (r, n_bins)."""
    numbers = blocks.to_numpy()
    return np.stack([cdfs[numbers == block].mean(axis=0) for block in np.unique(numbers)])


def joined(warnings: Iterable[StatisticsWarning]) -> str:
    """Return warnings as one text, each once."""
    return "; ".join(dict.fromkeys(str(warning) for warning in warnings))
