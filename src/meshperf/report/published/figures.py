"""Figures of the chapter on published results, with their captions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from meshperf.published import bands, results
from meshperf.report import formats, style
from meshperf.report.floats import FigureFloat, Panel
from meshperf.report.published import plots
from meshperf.report.published.values import READ, band_rate, origin, reading

if TYPE_CHECKING:
    from meshperf.published.results import Reading
    from meshperf.report.data import ReportData

COMPARISONS = {
    "basic": "meshes with basic configuration",
    "mtls": "meshes with mTLS enabled",
    "istio": "Istio in different configurations",
    "linkerd": "Linkerd in different configurations",
    "kuma": "Kuma in different configurations",
    "consul": "Consul in different configurations",
}
"""Comparison of the annex -> what its caption says."""


def floats(data: ReportData) -> list[FigureFloat]:
    """Return the figures of the chapter; none where there is no reading."""
    read = reading(data)
    if read is None:
        return []
    found = [_support(read), _load(data, read), *(_bands(read, name) for name in bands.COMPARISONS)]
    if not read.side_by_side.empty:
        found.append(_side_by_side(data, read))
    return found


def _support(read: Reading) -> FigureFloat:
    mine = read.estimability[read.estimability["source"] == results.MAIN]
    poor = mine[mine["label"] == "n.e."]
    panel = Panel(
        "published-estimability",
        partial(plots.estimability, mine),
        lambda: mine,
        "Requests expected beyond each percentile by target rate: fewer than ten for "
        + formats.listing(
            [
                f"p{quantile * 100:g} in {len(group)} of {(mine['quantile'] == quantile).sum()} cells"
                for quantile, group in poor.groupby("quantile")
            ]
        )
        + ".",
    )
    caption = (
        "Requests expected beyond a percentile in one run of the ELCA annex: achieved rate times the "
        "length of a run, times the share beyond the percentile; smallest and largest of the cells at a "
        "target rate. No percentile of one run shows how much it would differ in another."
    )
    return FigureFloat("fig-published-estimability", (panel,), caption, READ, origin=origin(read))


def _load(data: ReportData, read: Reading) -> FigureFloat:
    mine = read.cells[read.cells["source"] == results.MAIN]
    tiers = tuple(data.study.analysis.rate_tiers)
    limit = float(read.service["limit_cores"].iloc[0])
    panels = (
        Panel(
            "published-achieved",
            partial(plots.achieved, mine, tiers),
            lambda: mine,
            f"Achieved over target rate of {len(mine)} cells: all near 1 up to 400 RPS, as low as "
            f"{formats.percent(mine['rate_ratio'].min())} above.",
        ),
        Panel(
            "published-service-cpu",
            partial(plots.service_cpu, read.service, limit),
            lambda: read.service,
            f"CPU of the service by target rate: rises to its limit of {formats.millicores(limit)} mCPU "
            "and stays there, with every mesh and without.",
        ),
    )
    caption = (
        "What the ELCA annex was measured at: the rate that each of its cells reached (all "
        "configurations), and the CPU that its service used (basic configuration). Where the service is "
        "at its limit, latency is the wait for its CPU."
    )
    return FigureFloat("fig-published-load", panels, caption, READ, origin=origin(read))


def _bands(read: Reading, name: str) -> FigureFloat:
    rate = band_rate(read, name)
    mine = read.bands[(read.bands["comparison"] == name) & (read.bands["target_rps"] == rate)]
    arms = style.arm_order(zip(mine["mesh"], mine["configuration"], strict=True))
    what = f"{COMPARISONS[name]}, at {rate:g} RPS"
    medians = mine[mine["cdf_low"] == 0.5].set_index(["mesh", "configuration"])["low_s"]
    described = "; ".join(f"{style.arm_label(*arm)} {formats.milliseconds(medians[arm])} ms" for arm in arms)
    numbers = sorted(set(mine["table"]))
    panels = tuple(
        Panel(
            f"published-bands-{name}-{kind}",
            partial(plots.bands, mine, f"{kind.upper()}, {rate:g} RPS", tail=kind == "ccdf"),
            lambda: mine,
            f"Bands of the {'complementary ' if kind == 'ccdf' else ''}distribution of latency, {what}: "
            f"rectangles between the printed percentiles. Medians: {described}.",
        )
        for kind in ("cdf", "ccdf")
    )
    caption = (
        f"What the printed percentiles say of the distributions of {what} (ELCA annex, table "
        f"{formats.listing(numbers)}; the highest rate that all of them reached). Each "
        "distribution passes through its markers and stays inside its rectangles; its way inside them is "
        "not known."
    )
    return FigureFloat(f"fig-published-bands-{name}", panels, caption, READ, origin=origin(read))


def _side_by_side(data: ReportData, read: Reading) -> FigureFloat:
    shown = [q for q in (0.5, 0.99) if np.isclose(read.side_by_side["quantile"], q).any()]
    panels = tuple(
        Panel(
            f"published-side-by-side-p{quantile * 100:g}",
            partial(plots.side_by_side, read.side_by_side, quantile, synthetic=data.synthetic),
            partial(lambda q: read.side_by_side[np.isclose(read.side_by_side["quantile"], q)], quantile),
            f"Ratio of p{quantile * 100:g} to no mesh, ours and published: "
            + "; ".join(
                f"{style.arm_label(row.mesh, row.configuration)} at {row.target_rps:g} RPS "
                f"{formats.with_interval(row.overhead_ratio, row.ratio_low, row.ratio_high)}, published "
                f"{formats.significant(row.published_ratio)} ({row.direction})"
                for row in read.side_by_side[np.isclose(read.side_by_side["quantile"], quantile)].itertuples()
            )
            + ".",
        )
        for quantile in shown
    )
    caption = (
        "Overhead in this campaign and in the ELCA annex, each against no mesh on its own testbed, at the "
        "same or the nearest target rate. Ours has an interval over blocks, the published ratio is one "
        "run over another. Only the direction is compared (@tbl-published-side-by-side). Published data "
        f"{read.data_hash}."
    )
    return FigureFloat("fig-published-side-by-side", panels, caption, READ, data.mesh_arms)
