"""Audit of what stands behind a printed number: requests, rate, load, and the CPU of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.published.cells import RATE_TIERS, cells_df, printed_percentiles, rate_tier, subject
from meshperf.published.findings import Audit
from meshperf.published.printed import mean_limits
from meshperf.published.tables import QUANTILES
from meshperf.statistics.estimability import estimability

if TYPE_CHECKING:
    from meshperf.published.tables import Published

ESTIMABLE = (10.0, 30.0)
"""Expected requests beyond a quantile: fewer than the first do not carry it, fewer than the second barely."""
REPEATS = 0.02
"""Relative difference up to which a mean latency counts as connections over throughput."""
AT_LIMIT = 0.95
"""Share of its CPU limit from which a container counts as being at it."""


def estimability_df(published: Published) -> pd.DataFrame:
    """Return, for every cell and percentile whose number of requests is known, how many requests stand behind it.

    Returns
    -------
    DataFrame
        ``source, table, row, subject, mesh, configuration, load, quantile, n_requests, exceedances, label``. The number
        of requests is the achieved rate times the length of a run, or the printed one; ``exceedances`` is n(1 − q), the
        expected number beyond the quantile; ``label`` is that of :func:`meshperf.statistics.estimability.estimability`
        for one run, so "dagger" at best.
    """
    oha = published.oha_df.assign(
        n_requests=published.oha_df["requests"], load=published.oha_df["connections"]
    )
    frames = [oha]
    latency = cells_df(published.latency_df)
    for frame, load in ((latency, "target_rps"), (published.multicluster_df, "environment")):
        length_s = frame["source"].map(lambda source: published.condition(source, "run_length"))
        frames.append(
            frame.assign(n_requests=frame["achieved_rps"] * length_s.astype(float), load=frame[load])
        )
    rows = []
    for frame in frames:
        for _, row in frame[frame["n_requests"].notna()].iterrows():
            for column in printed_percentiles(frame):
                q = QUANTILES[column.removesuffix("_s")]
                expected = row["n_requests"] * (1 - q)
                result = estimability([expected], row["n_requests"], q, limits=ESTIMABLE)
                rows.append(
                    [row["source"], row["table"], row["row"], subject(row), row["mesh"], row["configuration"],
                     row["load"], q, row["n_requests"], expected, result.label]
                )  # fmt: skip
    names = ["source", "table", "row", "subject", "mesh", "configuration", "load", "quantile", "n_requests"]
    return pd.DataFrame(rows, columns=[*names, "exceedances", "label"])


def sample_sizes(estimable_df: pd.DataFrame) -> list[Audit]:
    """Find percentiles that fewer than ten expected requests stand behind."""
    audits = []
    for source, mine in estimable_df.groupby("source", sort=False):
        poor = mine[mine["label"] == "n.e."]
        rows = [
            {
                "table": row.table,
                "row": row.row,
                "subject": row.subject,
                "quantity": f"p{row.quantile * 100:g}",
                "printed": f"{row.exceedances:.3g} requests expected beyond it",
                "against": f"{ESTIMABLE[0]:g}",
                "against_place": "needed to estimate it",
                "note": f"{row.n_requests:.0f} requests",
            }
            for row in poor.itertuples()
        ]
        by_quantile = ", ".join(
            f"p{quantile * 100:g} in {len(group)} of {(mine['quantile'] == quantile).sum()} cells"
            for quantile, group in poor.groupby("quantile")
        )
        statement = (
            f"Fewer than {ESTIMABLE[0]:g} requests are expected beyond {by_quantile}."
            if len(poor)
            else f"At least {ESTIMABLE[0]:g} requests are expected beyond each of {len(mine)} percentiles. "
            "Each comes from one run, so none shows how much it would differ in another."
        )
        audits.append(
            Audit("sample-size", source, "Do enough requests stand behind a percentile?", len(mine), len(poor),
                  "percentiles", statement, rows)
        )  # fmt: skip
    return audits


def rates(frame: pd.DataFrame, tiers: tuple[float, float] = RATE_TIERS) -> list[Audit]:
    """Find cells that did not reach the rate they are tabulated under.

    Parameters
    ----------
    frame : DataFrame
        One row per cell, with ``target_rps`` and ``achieved_rps``.
    tiers : tuple of float
        Shares of the target below which a cell is saturated, and degraded.
    """
    audits = []
    for source, mine in frame.groupby("source", sort=False):
        ratio = mine["achieved_rps"] / mine["target_rps"]
        tier = ratio.map(lambda value: rate_tier(value, tiers))
        rows = [
            {
                "table": row["table"],
                "row": row["row"],
                "subject": subject(row),
                "quantity": "achieved rate",
                "printed": f"{row['achieved_rps']:g} RPS",
                "against": f"{row['target_rps']:g} RPS",
                "against_place": "target of the same row",
                "note": f"{tier[index]}: {ratio[index]:.1%} of the target",
            }
            for index, row in mine[tier != "ok"].iterrows()
        ]
        counts = tier.value_counts()
        missed = mine.loc[tier != "ok", "target_rps"]
        levels = mine["target_rps"].nunique()
        bounded = {q: int(ratio.map(lambda value, q=q: identified(q, value)).sum()) for q in (0.99, 0.999)}
        statement = (
            f"{len(rows)} of {len(mine)} cells reached less than {tiers[1]:.0%} of their target rate, "
            f"{counts.get('saturated', 0)} of them less than {tiers[0]:.0%}"
            + (f"; the first at {missed.min():g} RPS. " if len(missed) and levels > 1 else ". ")
            + "Whatever the requests that were not sent would have shown, p99 of the schedule is bounded in "
            f"{bounded[0.99]} cells and p99.9 in {bounded[0.999]}."
        )
        audits.append(
            Audit("rates", source, "Was the rate reached that the row is tabulated under?", len(mine), len(rows),
                  "cells", statement, rows)
        )  # fmt: skip
    return audits


def identified(quantile: float, achieved_ratio: float) -> bool:
    """Tell whether a quantile of the schedule is bounded, whatever the requests that were not sent would have shown.

    With a share m of the schedule missing, the q-quantile is unbounded once m ≥ 1 − q (worst-case bounds, Manski).
    """
    return 1 - achieved_ratio < 1 - quantile


def closed_loop(published: Published) -> list[Audit]:
    """Find rows whose latency repeats their throughput: in a closed loop, mean latency is connections over rate.

    Little's law (1961): connections = rate × mean latency. Where the mean is printed the two must agree to
    :data:`REPEATS`; where only percentiles are, the value must lie within what they allow the mean to be
    (:func:`mean_limits`).
    """
    audits = []
    oha = published.oha_df
    rows = []
    columns = printed_percentiles(oha)
    quantiles = np.array([QUANTILES[name.removesuffix("_s")] for name in columns])
    for _, row in oha.iterrows():
        low, high = mean_limits(row[columns].to_numpy(float), quantiles)
        implied = row["connections"] / row["achieved_rps"]
        if low <= implied <= high:
            rows.append(_repeats(row, f"{low:.4g} to {high:.4g} s", f"{implied:.4g} s"))
    audits += _closed_loop_audit(oha, rows)
    rows = []
    for _, row in published.multicluster_df.iterrows():
        connections = published.condition(row["source"], "connections")
        implied_s = (connections or float("nan")) / row["achieved_rps"]
        if abs(implied_s / row["mean_s"] - 1) <= REPEATS:
            rows.append(_repeats(row, f"{row['mean_s'] * 1e3:g} ms", f"{implied_s * 1e3:.4g} ms"))
    return audits + _closed_loop_audit(published.multicluster_df, rows)


def _repeats(row: pd.Series, printed: str, implied: str) -> dict[str, object]:
    return {
        "table": row["table"],
        "row": row["row"],
        "subject": subject(row),
        "quantity": "mean latency",
        "printed": printed,
        "against": implied,
        "against_place": "connections over rate",
    }


def _closed_loop_audit(frame: pd.DataFrame, rows: list[dict[str, object]]) -> list[Audit]:
    if frame.empty:
        return []
    statement = (
        f"In {len(rows)} of {len(frame)} rows the mean latency is the number of connections over the throughput, to "
        f"{REPEATS:.0%} or within what the percentiles allow: the two columns are one measurement, made at the largest "
        "rate that each mesh reached."
    )
    return [
        Audit("closed-loop", str(frame["source"].iloc[0]), "Does latency say more than throughput?", len(frame),
              len(rows), "rows", statement, rows)
    ]  # fmt: skip


def cpu_limit(published: Published) -> list[Audit]:
    """Find rows in which the service itself is at its CPU limit, so that its queue is measured and not the mesh."""
    audits = []
    for source, mine in published.resources_df.groupby("source", sort=False):
        limit = published.condition(source, "service_cpu_limit")
        limit_cores = mine["service_cores"].max() if limit is None else limit / 1e3
        at_limit = mine[mine["service_cores"] >= AT_LIMIT * limit_cores]
        rows = [
            {
                "table": row["table"],
                "row": row["row"],
                "subject": subject(row),
                "quantity": "service CPU",
                "printed": f"{row['service_cores'] * 1e3:g} mCPU",
                "against": f"{limit_cores * 1e3:g} mCPU",
                "against_place": "limit of the container" if limit is not None else "largest value printed",
                "note": f"{row['service_cores'] / limit_cores:.1%}",
            }
            for _, row in at_limit.iterrows()
        ]
        statement = (
            f"In {len(at_limit)} of {len(mine)} rows the service uses at least {AT_LIMIT:.0%} of {limit_cores * 1e3:g} "
            f"mCPU, {'its limit' if limit is not None else 'the largest value printed'}"
            + (f", from {at_limit['target_rps'].min():g} RPS on" if len(at_limit) else "")
            + "; the same holds without a mesh in "
            f"{(at_limit['mesh'] == 'baseline').sum()} of {(mine['mesh'] == 'baseline').sum()}. "
            "There latency is that of a service that waits for CPU."
        )
        audits.append(
            Audit("cpu-limit", source, "Is the service itself at its CPU limit?", len(mine), len(rows), "rows",
                  statement, rows)
        )  # fmt: skip
    return audits
