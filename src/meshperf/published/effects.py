"""What a mesh costs in the published tables, cell by cell, and the noise to hold it against.

Every published cell was measured once, so an effect has no interval. What can be computed is how often the sign is
the expected one, what chance would give, and how an effect compares with the difference between two printings of one
cell, which is the only repetition these documents show.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from meshperf.published.cells import CELL, RATE_TIERS, printed_percentiles, quantile_label, rate_tier, subject
from meshperf.published.findings import Audit, place
from meshperf.published.tables import QUANTILES, Published

AGAINST_NONE, AGAINST_PLAIN = "mesh against no mesh", "mTLS against basic"
LOAD = {"latency": "target_rps", "oha": "connections", "osm": "target_rps"}


def effects_df(published: Published, tiers: tuple[float, float] = RATE_TIERS) -> pd.DataFrame:
    """Return every published effect: a cell against no mesh, and mTLS against basic, at the same load.

    Where a cell is printed more than once the first printing is used.

    Returns
    -------
    DataFrame
        ``source, kind, table, row, reference_table, reference_row, subject, mesh, configuration, load, quantity,
        quantile, value_s, reference_s, ratio, tier, counted``. ``quantity`` is ``mean`` or ``p99`` and the like,
        ``quantile`` is missing for the mean; ``tier`` is the worse of the two cells' (``ok`` where no target rate is
        stated, ``marked`` where the document itself calls one of them failed). ``counted``: whether signs are counted
        over it, which for a mesh against no mesh means that the document prints the two in one table.
    """
    frames = {"latency": published.latency_df, "oha": published.oha_df, "osm": published.osm_df}
    rows = []
    for name, frame in frames.items():
        load = LOAD[name]
        # In a closed loop the table is the test: the same number of connections is used from two places.
        keys = [load] if name == "latency" else ["table", load]
        first = frame.drop_duplicates(CELL) if name == "latency" else frame
        quantities = [column for column in ("mean_s", *printed_percentiles(first)) if column in first]
        for (source, *_), group in first.groupby(["source", *keys], sort=False):
            by_arm = {(row["mesh"], row["configuration"]): row for _, row in group.iterrows()}
            for arm, row in by_arm.items():
                for kind, reference in _references(arm, by_arm):
                    tier = _worse(_tier(row, tiers), _tier(reference, tiers))
                    counted = kind == AGAINST_PLAIN or row["table"] == reference["table"]
                    places = [row["table"], row["row"], reference["table"], reference["row"]]
                    identity = [source, kind, *places, subject(row), *arm, row[load]]
                    for column in quantities:
                        values = [row[column], reference[column], row[column] / reference[column]]
                        rows.append([*identity, *_quantity(column), *values, tier, counted])
    names = [
        "source",
        "kind",
        "table",
        "row",
        "reference_table",
        "reference_row",
        "subject",
        "mesh",
        "configuration",
    ]
    names += ["load", "quantity", "quantile", "value_s", "reference_s", "ratio", "tier", "counted"]
    return pd.DataFrame(rows, columns=names)


def _references(
    arm: tuple[str, str], by_arm: dict[tuple[str, str], pd.Series]
) -> list[tuple[str, pd.Series]]:
    """Return what an arm is compared with: no mesh, and for mTLS the same mesh in plaintext."""
    found = []
    if arm[0] != "baseline" and ("baseline", "none") in by_arm:
        found.append((AGAINST_NONE, by_arm["baseline", "none"]))
    if arm[1] == "mtls" and (arm[0], "basic") in by_arm:
        found.append((AGAINST_PLAIN, by_arm[arm[0], "basic"]))
    return found


def _quantity(column: str) -> tuple[str, float]:
    """Return name and quantile of a column; the mean has none."""
    return ("mean", float("nan")) if column == "mean_s" else (
        quantile_label(column), QUANTILES[column.removesuffix("_s")]
    )  # fmt: skip


def _tier(row: pd.Series, tiers: tuple[float, float]) -> str:
    if row.get("marked", False):
        return "marked"
    if "target_rps" in row.index and "achieved_rps" in row.index:
        return rate_tier(row["achieved_rps"] / row["target_rps"], tiers)
    return "ok"


def _worse(*tiers: str) -> str:
    return max(tiers, key=["ok", "degraded", "saturated", "marked"].index)


def spread_df(latency_df: pd.DataFrame) -> pd.DataFrame:
    """Return how far two printings of one cell lie apart, where their latencies differ at all.

    Returns
    -------
    DataFrame
        ``source, quantity, quantile, n, largest_ratio``: number of such pairs, and the largest ratio between two
        printings (at least 1). Nothing says that the two were two runs; it is the only repetition there is.
    """
    columns = ["mean_s", *printed_percentiles(latency_df)]
    pairs = []
    for (source, *_), group in latency_df.groupby(CELL, sort=False):
        values = group[columns].to_numpy(float)
        pairs += [
            (source, np.abs(np.log(row / values[0])))
            for row in values[1:]
            if not np.array_equal(row, values[0])
        ]
    rows = []
    for source in dict.fromkeys(name for name, _ in pairs):
        logs = np.array([log for name, log in pairs if name == source])
        rows += [
            [source, *_quantity(column), len(logs), float(np.exp(logs[:, k].max()))]
            for k, column in enumerate(columns)
        ]
    return pd.DataFrame(rows, columns=["source", "quantity", "quantile", "n", "largest_ratio"])


def signs_df(effects: pd.DataFrame, spread: pd.DataFrame) -> pd.DataFrame:
    """Return how often each counted effect has the unexpected sign, and what chance would give.

    Parameters
    ----------
    effects, spread : DataFrame
        Of :func:`effects_df` and :func:`spread_df`.

    Returns
    -------
    DataFrame
        ``source, kind, quantity, cells, n, below, expected, p_value, mean_ratio, within_spread, n_spread``. ``cells``
        is ``all`` or ``ok`` (both reached their rate). ``below``: ratio under 1; ``expected``: half of n, if there
        were no effect; ``p_value``: two-sided sign test (Conover 1999, section 3.4), which takes cells of one
        campaign for independent; ``mean_ratio``: geometric mean; ``within_spread``: ratios no further from 1 than two
        printings of one cell, of ``n_spread`` for which such a distance is known.
    """
    known = spread.set_index(["source", "quantity"])["largest_ratio"]
    rows = []
    for (source, kind, quantity), group in effects[effects["counted"]].groupby(
        ["source", "kind", "quantity"], sort=False
    ):
        for cells, mine in (("all", group), ("ok", group[group["tier"] == "ok"])):
            ratios = mine["ratio"].to_numpy(float)
            untied = ratios[ratios != 1]
            below = int((untied < 1).sum())
            limit = known.get((source, quantity), np.nan)
            within = int((np.abs(np.log(ratios)) <= np.log(limit)).sum()) if np.isfinite(limit) else 0
            rows.append(
                [source, kind, quantity, cells, len(ratios), below, len(untied) / 2,
                 binomtest(below, len(untied)).pvalue if len(untied) else np.nan,
                 float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan,
                 within, len(ratios) if np.isfinite(limit) else 0]
            )  # fmt: skip
    names = ["source", "kind", "quantity", "cells", "n", "below", "expected", "p_value", "mean_ratio"]
    return pd.DataFrame(rows, columns=[*names, "within_spread", "n_spread"])


def probability(p_value: float) -> str:
    """Return a p-value for print: ``= 0.22``, or ``< 0.0001``."""
    return f"= {p_value:.2g}" if p_value >= 1e-4 else "< 0.0001"


def unexpected_signs(effects: pd.DataFrame, signs: pd.DataFrame) -> list[Audit]:
    """Find cells in which a mesh is faster than no mesh, or mTLS faster than plaintext."""
    rules = {
        AGAINST_NONE: ("faster-than-none", "How often is a mesh faster than no mesh?"),
        AGAINST_PLAIN: ("tls-faster", "How often is mTLS faster than plaintext?"),
    }
    audits = []
    for kind, (rule, question) in rules.items():
        for source, mine in effects[effects["counted"] & (effects["kind"] == kind)].groupby(
            "source", sort=False
        ):
            rows = [
                {
                    "table": row.table,
                    "row": row.row,
                    "subject": row.subject,
                    "quantity": row.quantity,
                    "printed": f"{row.value_s * 1e3:g} ms",
                    "against": f"{row.reference_s * 1e3:g} ms",
                    "against_place": place(row.reference_table, row.reference_row),
                    "note": "" if row.tier == "ok" else row.tier,
                }
                for row in mine[mine["ratio"] < 1].itertuples()
            ]
            counted = signs[(signs["source"] == source) & (signs["kind"] == kind) & (signs["cells"] == "all")]
            parts = ", ".join(
                f"{row.below} of {row.n} at {row.quantity} (sign test, p {probability(row.p_value)})"
                for row in counted.itertuples()
                if row.quantity in ("p50", "p99")
            )
            statement = f"{parts}. Without any effect half would be expected."
            audits.append(Audit(rule, source, question, len(mine), len(rows), "comparisons", statement, rows))
    return audits
