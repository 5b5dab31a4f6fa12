"""Tables of the chapter on published results, with their captions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.published import effects
from meshperf.report import formats, style
from meshperf.report.data import BASELINE
from meshperf.report.floats import LINE_BREAK, TableFloat
from meshperf.report.published.values import NAMES, READ, origin, reading

if TYPE_CHECKING:
    from meshperf.published.results import Reading
    from meshperf.report.data import ReportData


def floats(data: ReportData) -> list[TableFloat]:
    """Return the tables of the chapter; none where there is no reading."""
    read = reading(data)
    if read is None:
        return []
    found = [_sources(read), _audit(read), _reprints(read), _signs(read), _unconfirmed(read), _capacity(read)]
    found += [_noise(read), _costs(data, read)]
    if not read.side_by_side.empty:
        found.append(_compared(data, read))
    if not read.sidecars.empty:
        found.append(_sidecars(data, read))
    return found


def _sources(read: Reading) -> TableFloat:
    frame = pd.DataFrame(
        {
            "Document": [
                f"{NAMES.get(row.source, row.source)} [@{row.source}]" for row in read.sources.itertuples()
            ],
            "Year": read.sources["year"].astype(str),
            "What it compares": read.sources["scope"],
            "Printed rows": [
                formats.count(count) if count else "none (pictures)" for count in read.sources["printed_rows"]
            ],
        }
    )
    caption = "The documents read again, and the rows of numbers that they print."
    return TableFloat("tbl-published-sources", frame, caption, READ, origin=origin(read))


def _audit(read: Reading) -> TableFloat:
    rows = [
        [
            row.question,
            NAMES.get(row.source, row.source),
            formats.count(row.found),
            formats.count(row.checked),
            row.unit,
        ]
        for row in read.audit.itertuples()
    ]
    frame = pd.DataFrame(rows, columns=["Question", "Document", "found", "of", "unit"])
    # The question stands once for its documents.
    frame.loc[frame["Question"].duplicated(), "Question"] = ""
    caption = (
        "Each rule of the audit: how many units it looked at, and how many are as it asks for. Every "
        "finding is listed with its printed row in findings.csv beside this report's results."
    )
    return TableFloat("tbl-published-audit", frame, caption, READ, origin=origin(read))


def _reprints(read: Reading) -> TableFloat:
    heads = {"achieved_rps": "RPS", "mean_ms": "Mean", "p50_ms": "Median", "p90_ms": "90th", "p99_ms": "99th"}
    heads |= {"p99_9_ms": "99.9th", "p99_99_ms": "99.99th"}
    rows = []
    mine = read.findings[read.findings["rule"] == "reprints"]
    for (table, row), group in mine.groupby(["table", "row"], sort=False):
        place = str(group["against_place"].iloc[0]).removeprefix("table ").replace(", row ", " · ")
        values = {
            finding.quantity: f"{finding.against}{LINE_BREAK}{finding.printed}"
            for finding in group.itertuples()
        }
        rows.append(
            [_cell_label(str(group["subject"].iloc[0])), f"{place}{LINE_BREAK}{table} · {row}"]
            + [values.get(name, "same") for name in heads]
        )
    frame = pd.DataFrame(rows, columns=["Cell", "Table · row", *heads.values()])
    caption = (
        "Cells of the ELCA annex that are printed twice with different numbers, as printed: above the "
        "first printing, below the second. Latencies in milliseconds."
    )
    return TableFloat("tbl-published-reprints", frame, caption, READ, origin=origin(read))


def _cell_label(subject: str) -> str:
    """Return a cell in printed names: ``Istio basic, 700 RPS`` for ``istio basic at 700 RPS``."""
    arm, _, load = subject.partition(" at ")
    mesh, _, configuration = arm.partition(" ")
    return f"{style.arm_label(mesh, configuration)}, {load}"


def _signs(read: Reading) -> TableFloat:
    rows = []
    for row in read.signs[read.signs["cells"] == "all"].itertuples():
        rows.append(
            [
                NAMES.get(row.source, row.source),
                row.kind,
                row.quantity,
                f"{row.below} of {row.n}",
                formats.fixed(row.expected, 1),
                effects.probability(row.p_value).removeprefix("= "),
                formats.significant(row.mean_ratio),
                f"{row.within_spread} of {row.n_spread}" if row.n_spread else formats.DASH,
            ]
        )
    heads = ["Document", "Comparison", "of", "faster", "by chance", "p", "mean ratio", "within noise"]
    frame = pd.DataFrame(rows, columns=heads)
    for column in ("Comparison", "Document"):
        repeated = (
            frame[["Document", "Comparison"]].duplicated()
            if column == "Comparison"
            else frame[column].duplicated()
        )
        frame.loc[repeated, column] = ""
    caption = (
        "How often the mesh is faster than no mesh in the same table, and mTLS faster than plaintext; "
        "what half would be, if there were no effect; two-sided sign test; geometric mean of the ratios. "
        "Within noise: ratios no further from 1 than two printings of one cell are from each other."
    )
    return TableFloat("tbl-published-signs", frame, caption, READ, origin=origin(read))


def _unconfirmed(read: Reading) -> TableFloat:
    rows = [
        [
            row.claim,
            row.quantity,
            str(row.table),
            {"greater": "the first is larger", "less": "the first is smaller"}.get(row.said, row.said),
            _columns(row.subject),
            formats.significant(row.found),
            row.result,
        ]
        for row in read.checks[read.checks["result"] != "confirmed"].itertuples()
    ]
    heads = ["Claim", "About", "Table", "Said", "Printed cells", "ratio", "result"]
    frame = pd.DataFrame(rows, columns=heads)
    for column in ("About", "Claim"):
        frame.loc[frame[["Claim", column]].duplicated(), column] = ""
    confirmed = int((read.checks["result"] == "confirmed").sum())
    caption = (
        f"Claims that the printed cells do not confirm, of {len(read.checks)} that they can; the other "
        f"{confirmed} are confirmed. A figure that is close is off by one in its last digit. Which cells "
        "belong to a claim is our reading: low connections are 32, higher ones 64 and 128."
    )
    return TableFloat("tbl-published-claims", frame, caption, READ, origin=origin(read))


def _columns(subject: str) -> str:
    """Return the cells of a check with their columns in print: ``p99.9`` for ``p99_9_s``."""
    words = {"p99_9": "p99.9", "p50": "p50", "p90": "p90", "p99": "p99", "mean": "mean"}
    for column, printed in words.items():
        for unit in ("_s", "_ms"):
            subject = subject.replace(f"{column}{unit}", printed)
    return subject.replace("qps", "QPS")


def _capacity(read: Reading) -> TableFloat:
    rows = [
        [
            row.model,
            f"{formats.count(row.level)} {row.unit}",
            f"{formats.significant(row.wanted)} {'cores' if row.unit == 'RPS' else 'GB'}",
            f"{row.capacity:g}",
            formats.percent(row.share, 3),
            "yes" if row.fits else "no",
        ]
        for row in read.capacity.itertuples()
    ]
    frame = pd.DataFrame(rows, columns=["Model", "at", "asks for", "of", "share", "fits"])
    frame.loc[frame["Model"].duplicated(), "Model"] = ""
    caption = (
        "What the cost models of the OSM page ask of one of its nodes, at the levels that it tested: 60 "
        "millicores and 0.1 cores for every 100 RPS for a sidecar, 1 MB for each pod for the control "
        "plane."
    )
    return TableFloat("tbl-published-capacity", frame, caption, READ, origin=origin(read))


def _noise(read: Reading) -> TableFloat:
    rows = [
        [
            row.noise,
            row.quantity,
            formats.count(row.pairs),
            formats.significant(row.largest_ratio),
            f"{row.within} of {row.effects}",
        ]
        for row in read.noise.itertuples()
    ]
    frame = pd.DataFrame(
        rows, columns=["What no difference looks like", "of", "pairs", "largest ratio", "within it"]
    )
    frame.loc[frame["What no difference looks like"].duplicated(), "What no difference looks like"] = ""
    caption = (
        "How many of the effects of meshes on latency in the ELCA annex (basic configuration) are no "
        "larger than what no difference looks like: between two printings of one of its cells, and "
        "between the two baselines of a block in this campaign, on another testbed. Published data "
        f"{read.data_hash}."
    )
    return TableFloat("tbl-published-noise", frame, caption, READ, [BASELINE])


def _costs(data: ReportData, read: Reading) -> TableFloat:
    """Return what every document, and this campaign, says a mesh costs at its own loads."""
    rows = []
    mine = read.effects[(read.effects["kind"] == effects.AGAINST_NONE) & read.effects["counted"]]
    for (source, mesh, configuration), group in mine[mine["tier"] == "ok"].groupby(
        ["source", "mesh", "configuration"], sort=False
    ):
        name = style.mesh_label(mesh) if configuration == "unstated" else style.arm_label(mesh, configuration)
        loads = group.groupby("quantity")["ratio"].size().max()
        rows.append(
            [NAMES.get(source, source), name, formats.count(loads)]
            + [
                _range(group.loc[group["quantity"] == quantity, "ratio"])
                for quantity in ("p50", "p90", "p99")
            ]
        )
    ours = data.comparisons_df
    ours = ours[(ours["estimand"] == "typical") & (ours["mesh"] != "baseline")] if len(ours) else ours
    for (mesh, configuration), group in ours.groupby(["mesh", "configuration"], sort=False):
        ratios = [
            _range(group.loc[np.isclose(group["quantile"], q), "overhead_ratio"].dropna())
            for q in (0.5, 0.9, 0.99)
        ]
        loads = group.loc[group["overhead_ratio"].notna(), "target_rps"].nunique()
        rows.append(["this campaign", style.arm_label(mesh, configuration), formats.count(loads), *ratios])
    frame = pd.DataFrame(rows, columns=["Document", "Mesh", "loads", "p50", "p90", "p99"])
    frame.loc[frame["Document"].duplicated(), "Document"] = ""
    caption = (
        "Latency with a mesh over latency without, at the loads that reached their rate and are not "
        "marked as failed: lowest and highest ratio. Services, machines and load generators differ from "
        f"row to row, so that the rows are no ranking. Published data {read.data_hash}."
    )
    return TableFloat("tbl-published-costs", frame, caption, READ, data.mesh_arms)


def _range(ratios: pd.Series) -> str:
    return formats.span(ratios.min(), ratios.max()) if len(ratios) else formats.DASH


def _compared(data: ReportData, read: Reading) -> TableFloat:
    rows = []
    for row in read.side_by_side.itertuples():
        rows.append(
            [
                style.arm_label(row.mesh, row.configuration),
                f"p{row.quantile * 100:g}",
                f"{row.target_rps:g} / {row.published_rps:g}",
                formats.with_interval(row.overhead_ratio, row.ratio_low, row.ratio_high)
                if formats.is_number(row.overhead_ratio)
                else formats.DASH,
                formats.significant(row.published_ratio),
                row.direction if not isinstance(row.reason, str) or not row.reason
                else f"{row.direction}{LINE_BREAK}({row.reason})",
            ]
        )  # fmt: skip
    heads = ["Solution", "of", "RPS, ours / published", "ours", "published", "direction"]
    frame = pd.DataFrame(rows, columns=heads)
    caption = (
        "Overhead as a ratio to no mesh: in this campaign, typical deployment with its interval, and in "
        "the ELCA annex, one run over another, at the nearest target rate. The direction cannot be told "
        "where a published cell missed its rate, too few requests stand behind a percentile, the "
        f"published ratio is within the noise, or ours has no verdict. Published data {read.data_hash}."
    )
    return TableFloat("tbl-published-side-by-side", frame, caption, READ, data.mesh_arms)


def _sidecars(data: ReportData, read: Reading) -> TableFloat:
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            f"{row.target_rps:g} / {row.published_rps:g}",
            formats.with_interval(row.cpu_s, row.cpu_low_s, row.cpu_high_s, scale=1e6),
            formats.significant(row.published_cpu_s * 1e6),
            formats.mebibytes(row.bytes),
            formats.mebibytes(row.published_bytes),
        ]
        for row in read.sidecars.itertuples()
    ]
    heads = [
        "Solution",
        "RPS, ours / published",
        "CPU ours",
        "CPU published",
        "memory ours",
        "memory published",
    ]
    frame = pd.DataFrame(rows, columns=heads)
    caption = (
        "The sidecar of the service: CPU per request in µs and memory in MiB, in this campaign (mean over "
        "blocks, with its interval) and in the ELCA annex (CPU over the achieved rate of the same cell). "
        f"Published data {read.data_hash}."
    )
    return TableFloat("tbl-published-sidecars", frame, caption, READ, data.mesh_arms)
