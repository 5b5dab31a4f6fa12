"""Published results and one of our own campaigns, side by side.

The two were measured on different machines, with different services and load generators. A ratio to the baseline of the
same testbed is what can be compared at all, and of it only the direction is judged: whether a mesh was slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from meshperf.published.cells import CELL, RATE_TIERS, cells_df, rate_tier
from meshperf.published.effects import AGAINST_NONE
from meshperf.published.tables import Published
from meshperf.statistics.bootstrap import mean_interval

AGREES, DISAGREES, UNKNOWN = "agrees", "disagrees", "cannot tell"
DIRECTIONS = {"slower": 1, "faster": -1, "equivalent": 0}
"""Our verdicts that have a direction; every other one is no answer."""


def nearest(rate: float, rates: np.ndarray) -> float:
    """Return the rate nearest on a logarithmic scale; of two equally near ones the lower."""
    ordered = np.sort(np.asarray(rates, float))
    return float(ordered[np.abs(np.log(ordered / rate)).argmin()])


def side_by_side_df(
    effects: pd.DataFrame, estimable: pd.DataFrame, spread: pd.DataFrame, comparisons_df: pd.DataFrame
) -> pd.DataFrame:
    """Return our overhead beside the published one, for each arm, rate and quantile that both have.

    Parameters
    ----------
    effects, spread : DataFrame
        Of :mod:`meshperf.published.effects`.
    estimable : DataFrame
        Of :func:`meshperf.published.support.estimability_df`.
    comparisons_df : DataFrame
        Our comparisons with the baseline; the typical ratios are used.

    Returns
    -------
    DataFrame
        ``source, mesh, configuration, quantile, target_rps, published_rps, published_ratio, published_difference_s,
        overhead_ratio, ratio_low, ratio_high, verdict, direction, reason``. ``published_rps`` is the published target
        rate nearest to ours. ``direction`` is ``agrees``, ``disagrees`` or ``cannot tell``; the last with its reason: a
        published cell that missed its rate, a percentile with too few requests behind it, a ratio within the
        difference of two printings of one cell, or no verdict of ours.
    """
    ours = comparisons_df[(comparisons_df["mesh"] != "baseline") & (comparisons_df["estimand"] == "typical")]
    theirs = effects[(effects["kind"] == AGAINST_NONE) & effects["quantile"].notna()]
    limits = spread.set_index(["source", "quantity"])["largest_ratio"]
    labels = estimable.set_index(["source", "mesh", "configuration", "load", "quantile"])["label"]
    rows = []
    for (source, mesh, configuration), arm in theirs.groupby(["source", "mesh", "configuration"], sort=False):
        mine = ours[(ours["mesh"] == mesh) & (ours["configuration"] == configuration)]
        for row in mine.itertuples():
            published_rps = nearest(row.target_rps, arm["load"].unique())
            match = arm[(arm["load"] == published_rps) & np.isclose(arm["quantile"], row.quantile)]
            for effect in match.itertuples():
                worst = [labels.get((source, *name, published_rps, effect.quantile), "ok") for name in
                         ((mesh, configuration), ("baseline", "none"))]  # fmt: skip
                limit = float(limits.get((source, effect.quantity), 1.0))
                direction, reason = _direction(effect.ratio, effect.tier, "n.e." in worst, limit, row)
                rows.append(
                    [source, mesh, configuration, row.quantile, row.target_rps, published_rps, effect.ratio,
                     effect.value_s - effect.reference_s, row.overhead_ratio, row.ratio_low, row.ratio_high,
                     row.verdict, direction, reason]
                )  # fmt: skip
    names = ["source", "mesh", "configuration", "quantile", "target_rps", "published_rps", "published_ratio"]
    names += [
        "published_difference_s",
        "overhead_ratio",
        "ratio_low",
        "ratio_high",
        "verdict",
        "direction",
        "reason",
    ]
    return pd.DataFrame(rows, columns=names)


def _direction(ratio: float, tier: str, unsupported: bool, limit: float, ours: Any) -> tuple[str, str]:
    """Return whether two directions agree, and if it cannot be told, why."""
    if tier != "ok":
        return UNKNOWN, f"a published cell is {tier}"
    if unsupported:
        return UNKNOWN, "too few requests behind the published percentile"
    if abs(np.log(ratio)) <= np.log(limit):
        return UNKNOWN, f"published ratio within the {limit:.2f} between two printings of a cell"
    if ours.verdict not in DIRECTIONS:
        exploratory = str(ours.reason).startswith("exploratory")
        return UNKNOWN, "exploratory in our study" if exploratory else f"our verdict is {ours.verdict}"
    return (AGREES, "") if DIRECTIONS[ours.verdict] == np.sign(np.log(ratio)) else (DISAGREES, "")


def noise_df(
    effects: pd.DataFrame, spread: pd.DataFrame, comparisons_df: pd.DataFrame, source: str
) -> pd.DataFrame:
    """Return how many published effects lie within what no difference looks like.

    Parameters
    ----------
    effects, spread : DataFrame
        Of :mod:`meshperf.published.effects`.
    comparisons_df : DataFrame
        Our comparisons, with the second baseline as an arm.
    source : str
        The document whose effects are counted: meshes in the tables that also print no mesh.

    Returns
    -------
    DataFrame
        ``noise, quantity, quantile, pairs, largest_ratio, effects, within``: for two printings of one cell, and for our
        two baselines of a block (the typical ratio of a rate), the largest ratio seen, and how many of the effects are
        no further from 1.
    """
    counted = effects[(effects["source"] == source) & (effects["kind"] == AGAINST_NONE) & effects["counted"]]
    rows = []
    for row in spread[spread["source"] == source].itertuples():
        rows.append(["two printings of one cell", row.quantity, row.quantile, row.n, row.largest_ratio])
    control = comparisons_df[
        (comparisons_df["mesh"] == "baseline") & (comparisons_df["estimand"] == "typical")
    ]
    control = control[control["overhead_ratio"].notna()]
    for quantile, group in control.groupby("quantile"):
        largest = float(np.exp(np.log(group["overhead_ratio"]).abs().max()))
        rows.append(["our two baselines", f"p{quantile * 100:g}", quantile, len(group), largest])
    names = ["noise", "quantity", "quantile", "pairs", "largest_ratio"]
    frame = pd.DataFrame(rows, columns=names)
    ratios = {quantity: group["ratio"].to_numpy(float) for quantity, group in counted.groupby("quantity")}
    logs = {quantity: np.abs(np.log(values)) for quantity, values in ratios.items()}
    none = np.array([])
    frame["effects"] = [len(logs.get(quantity, none)) for quantity in frame["quantity"]]
    frame["within"] = [
        int((logs.get(quantity, none) <= np.log(ratio)).sum())
        for quantity, ratio in zip(frame["quantity"], frame["largest_ratio"], strict=True)
    ]
    return frame


def sidecars_df(
    published: Published,
    resources_df: pd.DataFrame,
    confidence: float,
    tiers: tuple[float, float] = RATE_TIERS,
) -> pd.DataFrame:
    """Return what the service's sidecar used, published and ours, for arms that both have.

    Parameters
    ----------
    published : Published
        The published tables.
    resources_df : DataFrame
        Our resources, a row per run and container.
    confidence : float
        Level of our intervals, over blocks.
    tiers : tuple of float
        As in :func:`meshperf.published.cells.rate_tier`.

    Returns
    -------
    DataFrame
        ``source, mesh, configuration, target_rps, published_rps, published_tier, published_cpu_s, published_bytes,
        cpu_s, cpu_low_s, cpu_high_s, bytes, n_blocks``. CPU in seconds per request: the published cores over the
        achieved rate of the same cell of the latency tables; ours from the cumulative counter over the run.
    """
    achieved = cells_df(published.latency_df).set_index(CELL)["achieved_rps"]
    sidecars = resources_df[resources_df["role"] == "sidecar-server"]
    rows = []
    for (source, mesh, configuration), arm in published.resources_df.groupby(
        ["source", "mesh", "configuration"], sort=False
    ):
        mine = sidecars[(sidecars["mesh"] == mesh) & (sidecars["configuration"] == configuration)]
        for target_rps, runs in mine.groupby("target_rps"):
            published_rps = nearest(float(target_rps), arm["target_rps"].to_numpy())
            cell = arm[arm["target_rps"] == published_rps].iloc[0]
            rate = float(achieved.get((source, mesh, configuration, published_rps), published_rps))
            by_block = runs.groupby("block")[["cpu_s_per_request", "working_set_median_bytes"]].mean()
            cpu = mean_interval(by_block["cpu_s_per_request"], confidence=confidence)
            rows.append(
                [source, mesh, configuration, target_rps, published_rps, rate_tier(rate / published_rps, tiers),
                 cell["sidecar_cores"] / rate, cell["sidecar_ram_bytes"], cpu.estimate, cpu.low, cpu.high,
                 by_block["working_set_median_bytes"].mean(), cpu.n]
            )  # fmt: skip
    names = [
        "source",
        "mesh",
        "configuration",
        "target_rps",
        "published_rps",
        "published_tier",
        "published_cpu_s",
    ]
    names += ["published_bytes", "cpu_s", "cpu_low_s", "cpu_high_s", "bytes", "n_blocks"]
    return pd.DataFrame(rows, columns=names)
