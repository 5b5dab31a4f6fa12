"""The tables of a study: printed text in the layout of the thesis annex, and the same as CSV."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import CHECK, COMPARE, DESCRIBE, LINE_BREAK, RESOURCES, TableFloat
from meshperf.statistics.results import EXPLANATIONS

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

PERCENTILE_HEADS = {0.5: "Median", 0.9: "90th", 0.99: "99th", 0.999: "99.9th", 0.9999: "99.99th"}
PROXIES = ("sidecar-server", "sidecar-client")

GATES = {
    "rate_echo": "the rate in the generator's own record is the one asked for",
    "thread_echo": "so are the connections",
    "duration_echo": "so is the duration, and the run is whole",
    "schedule_echo": "the schedule was uniform and did not catch up",
    "return_codes": "share of responses other than 200",
    "proof": "the state of the mesh was proven around the run",
    "restarts": "restarts of containers",
    "achieved_rate": "achieved over target rate",
    "count": "requests recorded against rate times time",
    "throttling": "share of CPU periods in which a container was throttled",
    "client_cpu": "CPU use of the load generator",
    "node_cpu": "CPU use of the node",
    "sockets": "sockets opened against connections asked for",
    "resolution": "width of the histogram's bins at the quantiles",
    "omission": "share of the schedule that was never sent",
}
"""What a validity gate asks, for the gates that this version knows; another one is printed by its name."""


def write_all(data: ReportData, out_dir: str | Path) -> list[Path]:
    """Write every table of the study as ``NAME.csv``, as printed.

    Parameters
    ----------
    data : ReportData
        The study's frames.
    out_dir : path
        Where the files go.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    written = []
    for table in floats(data):
        path = out_dir / f"{table.stem}.csv"
        table.frame.replace({LINE_BREAK: " "}, regex=True).to_csv(path, index=False)
        written.append(path)
    return written


def floats(data: ReportData) -> list[TableFloat]:
    """Return the tables that the study's data support, in the order of the paper."""
    found = [configurations(data), parameters(data), versions(data), images(data), ledger(data), gates(data)]
    found += [omission(data), latency(data, "tbl-latency", data.arms, "every arm")]
    if not data.comparisons_df.empty:
        found += [overhead(data), control(data)]
    if not data.resources_df.empty:
        found += [resources(data, "tbl-resources", data.arms, "every arm"), cpu_overhead(data)]
    return [table for table in found if table is not None and not table.frame.empty]


def configurations(data: ReportData) -> TableFloat:
    """Return what each measured configuration is."""
    names = list(dict.fromkeys(configuration for _, configuration in data.arms))
    frame = pd.DataFrame(
        {
            "Configuration": [
                style.configuration_label(name) or style.mesh_label("baseline") for name in names
            ],
            "What it is": [style.configuration_meaning(name) for name in names],
            "Meshes": [
                formats.listing([style.mesh_label(m) for m, c in data.arms if c == name and m != "baseline"])
                or "–"
                for name in names
            ],
        }
    )
    return TableFloat("tbl-configurations", frame, "What each configuration is.", DESCRIBE)


def parameters(data: ReportData) -> TableFloat:
    """Return the design and the parameters of load and analysis."""
    study, load, analysis = data.study, data.study.load, data.study.analysis
    limits = {name: getattr(study.workload, f"{name}_limits") for name in ("server", "client")}

    def limit(which: str) -> str:
        parts = [
            f"{kind} {value}"
            for kind in ("cpu", "memory")
            if (value := getattr(limits[which], kind)) is not None
        ]
        return ", ".join(parts) or "none"

    rows = [
        (
            "Blocks",
            f"{study.blocks} planned, {data.n_blocks} measured, at most {study.makeup_blocks} make-up",
        ),
        ("Deployments per block", f"{len(list(study.arms_expanded)) + 2}, two of them without a mesh"),
        ("Target rates", f"{formats.listing([str(rate) for rate in study.target_rps])} RPS"),
        (
            "Load per run",
            f"{formats.duration(load.duration_s)} after {formats.duration(load.warmup_s)} of warm-up",
        ),
        ("Connections", formats.count(load.connections)),
        ("Pacing", "uniform, no catching up after a stall"),
        ("Histogram resolution", f"{formats.significant(load.resolution_s * 1e6)} µs"),
        ("Payload", f"{formats.count(load.payload_bytes)} bytes"),
        ("Placement", study.workload.placement.replace("-", " ")),
        ("Limits of the service", limit("server")),
        ("Limits of the client", limit("client")),
        ("Level of intervals", formats.percent(analysis.confidence)),
        (
            "Saturated, degraded below",
            " and ".join(f"{tier:g}" for tier in analysis.rate_tiers) + " of the target rate",
        ),
        ("Failed above", f"{formats.percent(analysis.max_error_ratio)} errors"),
        (
            "Not estimable, † below",
            " and ".join(f"{m:g}" for m in analysis.estimable) + " effective requests in the tail",
        ),
        ("Seed of the schedule", str(study.seed)),
    ]
    caption = "Design, load and analysis: fixed before anything was measured."
    return TableFloat("tbl-parameters", pd.DataFrame(rows, columns=["Parameter", "Value"]), caption, CHECK)


def versions(data: ReportData) -> TableFloat:
    """Return the versions that ran, and the nodes they ran on; more than one value is a finding, and shown."""
    names = {
        "kubernetes": "Kubernetes",
        "containerd": "containerd",
        "fortio": "fortio",
        "envoy": "Envoy",
        "kernel": "Linux",
    }
    rows = [
        (label, _seen(record.get("versions", {}).get(key) for record in data.records))
        for key, label in names.items()
    ]
    for mesh in dict.fromkeys(mesh for mesh, _ in data.mesh_arms):
        mine = [record for record in data.records if record.get("key", {}).get("mesh") == mesh]
        rows.append(
            (style.mesh_label(mesh), _seen(record.get("versions", {}).get("mesh") for record in mine))
        )
    nodes = [record.get("node", {}) for record in data.records]
    rows += [
        ("CPUs of the node", _seen(node.get("cpu_count") for node in nodes)),
        ("Memory of the node", _seen(_memory(node.get("memory_bytes")) for node in nodes)),
        ("Architecture", _seen(node.get("architecture") for node in nodes)),
    ]
    frame = pd.DataFrame([row for row in rows if row[1]], columns=["Component", "Version"])
    return TableFloat("tbl-versions", frame, "Versions, as recorded with every run.", CHECK)


def images(data: ReportData) -> TableFloat:
    """Return every image that ran, with the digest that the container runtime reported."""
    seen = {
        (str(image.get("image", "")), str(image.get("digest", "")).removeprefix("sha256:"))
        for record in data.records
        for image in record.get("images", [])
    }
    rows = [(f"`{image}`", f"`{digest[:16]}`" if digest else "–") for image, digest in sorted(seen)]
    caption = "Images that ran: reference, and the first sixteen hex digits of the SHA-256 digest reported by the node."
    return TableFloat("tbl-images", pd.DataFrame(rows, columns=["Image", "Digest"]), caption, CHECK)


def ledger(data: ReportData) -> TableFloat:
    """Return what became of every planned run: nothing is dropped silently."""
    n_makeup = max(0, data.n_blocks - data.study.blocks)
    attempts = Counter(
        (record.get("key", {}).get("mesh"), record.get("key", {}).get("configuration"))
        for record in data.attempts
    )
    planned_arms = [("baseline", "none")] + [
        (arm.mesh, arm.configuration) for arm in data.study.arms_expanded
    ]
    rows = []
    for arm in style.arm_order([*planned_arms, *data.arms]):
        runs = data.runs_df[(data.runs_df["mesh"] == arm[0]) & (data.runs_df["configuration"] == arm[1])]
        verdicts = Counter(runs["verdict"].astype(str))
        per_block = len(data.study.target_rps) * (2 if arm[0] == "baseline" else 1)
        planned = data.study.blocks * per_block
        rows.append(
            [style.arm_label(*arm), planned, n_makeup * per_block, len(runs)]
            + [verdicts[name] for name in ("ok", "degraded", "saturated", "failed")]
            + [attempts[arm]]
        )
    heads = [
        "Solution",
        "planned",
        "make-up",
        "measured",
        "ok",
        "degraded",
        "saturated",
        "failed",
        "broken attempts",
    ]
    frame = pd.DataFrame(rows, columns=heads)
    total = pd.DataFrame([["all", *frame[heads[1:]].sum()]], columns=heads)
    caption = (
        "Runs planned, repeated and measured, and their verdicts. A broken attempt was ended by the "
        "infrastructure, is kept "
        "with its reason, and was repeated in place."
    )
    return TableFloat("tbl-ledger", pd.concat([frame, total], ignore_index=True).astype(str), caption, CHECK)


def gates(data: ReportData) -> TableFloat | None:
    """Return how often each validity gate passed, warned, failed, or could not be read on this testbed."""
    counts: dict[str, Counter[str]] = {}
    for record in data.records:
        for gate in record.get("quality", {}).get("gates", []):
            counts.setdefault(gate["name"], Counter())[gate["status"]] += 1
    if not counts:
        return None
    statuses = ["pass", "warn", "fail", "not-available"]
    rows = [
        [name.replace("_", " "), GATES.get(name, ""), *(str(counts[name][status]) for status in statuses)]
        for name in counts
    ]
    heads = ["Gate", "What it looks at", "pass", "warn", "fail", "not available"]
    caption = (
        "Validity gates over all runs. "
        "A gate that this testbed cannot read is counted as not available, not as passed."
    )
    return TableFloat("tbl-gates", pd.DataFrame(rows, columns=heads), caption, CHECK)


def omission(data: ReportData) -> TableFloat:
    """Return the bound on coordinated omission: the most that the runs of a cell could have hidden."""
    rows = []
    records = {_identity(record): record.get("omission", {}) for record in data.records}
    for rate in data.rates:
        for arm in data.arms:
            cell = _cell_runs(data, arm, rate)
            if cell.empty:
                continue
            hidden = [
                records.get((*arm, rate, int(run.block), int(run.deployment)), {}).get("hidden_requests")
                for run in cell.itertuples()
            ]
            hidden = [value for value in hidden if formats.is_number(value)]
            rows.append(
                [
                    style.arm_label(*arm),
                    str(rate),
                    formats.percent(cell["missing_fraction"].max()),
                    formats.milliseconds(cell["longest_stall_s"].max()),
                    formats.significant(float(cell["connections"].max()) / rate * 1e3),
                    formats.count(max(hidden)) if hidden else formats.DASH,
                ]
            )
    heads = [
        "Solution",
        "target RPS",
        "never sent",
        "longest stall (ms)",
        "stall covered (ms)",
        "hidden requests",
    ]
    caption = (
        "Bound on coordinated omission, the worst run of each cell. Never sent: share of the schedule "
        "that was not sent. A "
        "stall of all connections shorter than the stall covered (connections over rate) delays no "
        "request of the schedule; "
        "hidden requests are those that a longer one can have kept back."
    )
    return TableFloat("tbl-omission", pd.DataFrame(rows, columns=heads), caption, CHECK)


def latency(data: ReportData, label: str, arms: list[tuple[str, str]], whose: str) -> TableFloat:
    """Return the latency table of some arms in the layout of the thesis annex.

    Parameters
    ----------
    label : str
        Identifier of the float.
    arms : list of (mesh, configuration)
        Which arms.
    whose : str
        What the caption says of them.
    """
    quantiles = sorted(float(q) for q in data.cells_df["quantile"].unique())
    mine = data.cells_df[pd.MultiIndex.from_frame(data.cells_df[["mesh", "configuration"]]).isin(arms)]
    notes = _Notes(mine)
    cells = mine.set_index(["mesh", "configuration", "target_rps"])
    rows, flagged = [], False
    for rate in data.rates:
        for arm in arms:
            runs = _cell_runs(data, arm, rate, data.counted_runs_df)
            if runs.empty or (*arm, rate) not in cells.index:
                continue
            cell = cells.loc[[(*arm, rate)]].set_index("quantile")
            verdict = str(cell["verdict"].iloc[0])
            flagged |= verdict != "ok"
            name = style.arm_label(*arm) + ("" if verdict == "ok" else f"{LINE_BREAK}*{verdict}*")
            row = [name, str(rate), formats.significant(runs["achieved_rps"].mean(), 4)]
            row.append(formats.milliseconds(runs["mean_s"].mean()))
            row += [_quantile_cell(cell, q, notes) for q in quantiles]
            rows.append(row)
    heads = ["Solution", "target RPS", "RPS", "Mean"]
    heads += [PERCENTILE_HEADS.get(q, f"{q * 100:g}th") for q in quantiles]
    frame = pd.DataFrame(rows, columns=heads)
    frame = frame.loc[:, [name for name in frame.columns if not (frame[name] == formats.NOT_ESTIMABLE).all()]]
    caption = f"Latency of {whose} at every target rate, in milliseconds. {_interval_words(data)} {_quantisation(data)}"
    text = "".join(frame.astype(str).to_numpy().ravel())
    caption += " † few requests in the tail." if "†" in text else ""
    caption += (
        f" {formats.NOT_ESTIMABLE}: not estimable from these data." if formats.NOT_ESTIMABLE in text else ""
    )
    caption += " A cell that is not ok is shown and not compared." if flagged else ""
    caption += notes.sentence()
    return TableFloat(label, frame, caption, DESCRIBE)


def overhead(data: ReportData) -> TableFloat:
    """Return overhead as ratio and difference, in the typical deployment and merged, with verdicts."""
    frame = data.comparisons_df[data.comparisons_df["mesh"] != "baseline"]
    merged = frame[frame["estimand"] == "merged"].set_index(
        ["mesh", "configuration", "target_rps", "quantile"]
    )
    typical = frame[frame["estimand"] == "typical"]
    notes = _Notes(typical)
    rows = []
    for row in _in_order(typical):
        key = (row.mesh, row.configuration, row.target_rps, row.quantile)
        other = merged.loc[[key]].iloc[0] if key in merged.index else None
        rows.append(
            [
                style.arm_label(row.mesh, row.configuration),
                str(int(row.target_rps)),
                f"p{row.quantile * 100:g}",
                _stacked(row.overhead_ratio, row.ratio_low, row.ratio_high),
                _stacked(row.overhead_s, row.difference_low_s, row.difference_high_s, scale=1e3, sign=True),
                "" if other is None else _stacked(other.overhead_ratio, other.ratio_low, other.ratio_high),
                formats.count(row.n_blocks),
                formats.significant(row.sd_log, 2),
                _verdict(row) + notes.mark(getattr(row, "warnings", "")),
            ]
        )
    heads = [
        "Solution",
        "target RPS",
        "percentile",
        "ratio",
        "difference (ms)",
        "merged ratio",
        "blocks",
        "sd of log",
        "verdict",
    ]
    caption = (
        "Overhead against no mesh, paired by block. Ratio: typical deployment, the mean over blocks on "
        "the log scale; "
        "difference: mean over the same blocks; merged ratio: quantile of the pooled distributions. "
        f"{_interval_words(data)} Sd of log: spread of the block ratios on the log scale. Intervals are "
        "not adjusted for "
        "the number of comparisons; verdicts are. A percentile that was not declared for a claim beforehand is "
        f"exploratory and has no verdict.{notes.sentence()}"
    )
    return TableFloat("tbl-overhead", pd.DataFrame(rows, columns=heads), caption, COMPARE)


def control(data: ReportData) -> TableFloat | None:
    """Return the A/A control: the second baseline of each block against its first, where no difference is the truth."""
    frame = data.comparisons_df[
        (data.comparisons_df["mesh"] == "baseline") & (data.comparisons_df["estimand"] == "typical")
    ]
    rows = [
        [
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            _stacked(row.overhead_ratio, row.ratio_low, row.ratio_high),
            _stacked(row.overhead_s, row.difference_low_s, row.difference_high_s, scale=1e3, sign=True),
            formats.count(row.n_blocks),
            formats.significant(row.sd_log, 2),
        ]
        for row in _in_order(frame)
    ]
    if not rows:
        return None
    heads = ["target RPS", "percentile", "ratio", "difference (ms)", "blocks", "sd of log"]
    caption = (
        "A/A control: the second deployment without a mesh against the first of the same block. The truth "
        "is one; what is "
        f"seen is noise. {_interval_words(data)}"
    )
    return TableFloat("tbl-control", pd.DataFrame(rows, columns=heads), caption, COMPARE)


def resources(data: ReportData, label: str, arms: list[tuple[str, str]], whose: str) -> TableFloat:
    """Return the resource table of some arms in the layout of the thesis annex, completed by CPU per request.

    Parameters
    ----------
    label : str
        Identifier of the float.
    arms : list of (mesh, configuration)
        Which arms.
    whose : str
        What the caption says of them.
    """
    columns: list[tuple[str, tuple[str, ...], str, float]] = [
        ("Service RAM", ("service",), "working_set_median_bytes", 2**-20),
        ("Sidecar RAM", ("sidecar-server",), "working_set_median_bytes", 2**-20),
        ("Service CPU", ("service",), "cores", 1e3),
        ("Sidecar CPU", ("sidecar-server",), "cores", 1e3),
        ("Client sidecar RAM", ("sidecar-client",), "working_set_median_bytes", 2**-20),
        ("Client sidecar CPU", ("sidecar-client",), "cores", 1e3),
        ("Both sidecars, µs per request", PROXIES, "cpu_s_per_request", 1e6),
    ]
    rows = []
    for rate in data.rates:
        for arm in arms:
            frame = data.counted(data.resources_df)
            frame = frame[
                (frame["mesh"] == arm[0]) & (frame["configuration"] == arm[1]) & (frame["target_rps"] == rate)
            ]
            if frame.empty:
                continue
            row = [style.arm_label(*arm), str(rate)]
            for _, roles, column, factor in columns:
                mine = frame[frame["role"].isin(roles)]
                row.append(
                    _mean_and_range(mine.groupby(["block", "deployment"])[column].sum(min_count=1) * factor)
                )
            rows.append(row)
    frame = pd.DataFrame(rows, columns=["Solution", "target RPS", *(head for head, *_ in columns)])
    frame = frame.loc[:, [name for name in frame.columns if not (frame[name] == formats.DASH).all()]]
    caption = (
        f"RAM and CPU of {whose}. RAM: median working set in MiB; CPU: in mCPU; over the window of each "
        "run. Mean over runs, "
        "below it the smallest and the largest run."
    )
    return TableFloat(label, frame, caption, RESOURCES)


class _Notes:
    """Cautions of the rows of a table: letters where they apply, explanations for the caption.

    A caution that every row carries gets no letter.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        texts = frame["warnings"] if "warnings" in frame else pd.Series("", index=frame.index)
        lists = [self._names(text) for text in texts]
        names = list(dict.fromkeys(name for row in lists for name in row))
        self.everywhere = [name for name in names if all(name in row for row in lists)]
        self._letters = dict(
            zip([n for n in names if n not in self.everywhere], "abcdefghijkl", strict=False)
        )

    @staticmethod
    def _names(text: object) -> list[str]:
        return (
            [name.strip() for name in str(text).split(";") if name.strip()] if isinstance(text, str) else []
        )

    def mark(self, warnings: object) -> str:
        """Return the superscript letters of a row's cautions, or an empty string."""
        letters = ",".join(self._letters[name] for name in self._names(warnings) if name in self._letters)
        return f"^{letters}^" if letters else ""

    def sentence(self) -> str:
        """Return the explanations of all cautions."""
        known = {str(name): text for name, text in EXPLANATIONS.items()}
        parts = [f"{letter}: {known.get(name, name)}" for name, letter in self._letters.items()]
        parts += [f"all rows: {known.get(name, name)}" for name in self.everywhere]
        return f" Cautions: {'; '.join(parts)}." if parts else ""


def cpu_overhead(data: ReportData) -> TableFloat | None:
    """Return CPU per request on the path of a request (service and sidecars), against no mesh."""
    frame = data.resource_comparisons_df
    if frame.empty:
        return None
    frame = frame[(frame["role"] == "data-plane") & (frame["mesh"] != "baseline")].assign(quantile=0.0)
    notes = _Notes(frame)
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            _stacked(row.cpu_s_per_request, row.cpu_low_s_per_request, row.cpu_high_s_per_request, scale=1e6),
            _stacked(
                row.overhead_s_per_request,
                row.difference_low_s_per_request,
                row.difference_high_s_per_request,
                scale=1e6,
                sign=True,
            ),
            _stacked(row.overhead_ratio, row.ratio_low, row.ratio_high) + notes.mark(row.warnings),
            formats.count(row.n_blocks),
        ]
        for row in _in_order(frame)
    ]
    heads = ["Solution", "target RPS", "µs per request", "difference (µs)", "ratio", "blocks"]
    caption = (
        "CPU time per request on the path of a request (service and both sidecars), and its overhead "
        "against no mesh, "
        f"paired by block. {_interval_words(data)}{notes.sentence()}"
    )
    return TableFloat("tbl-cpu-overhead", pd.DataFrame(rows, columns=heads), caption, RESOURCES)


def _mean_and_range(values: pd.Series) -> str:
    values = values.dropna()
    if values.empty:
        return formats.DASH
    mean = float(values.mean())
    limits = formats.interval(values.min(), values.max(), formats.decimals(mean))
    return f"{formats.significant(mean)}{LINE_BREAK}{limits}"


def _quantile_cell(cell: pd.DataFrame, quantile: float, notes: _Notes) -> str:
    """Return one cell of a latency table: estimate, mark of estimability, interval below."""
    if quantile not in cell.index:
        return formats.NOT_ESTIMABLE
    row = cell.loc[quantile]
    if row["estimable"] == formats.NOT_ESTIMABLE or not formats.is_number(row["estimate_s"]):
        return formats.NOT_ESTIMABLE
    mark = ("†" if row["estimable"] == "dagger" else "") + notes.mark(row.get("warnings"))
    value, low, high = (float(row[name]) * 1e3 for name in ("estimate_s", "low_s", "high_s"))
    known = formats.is_number(low) and formats.is_number(high)
    places = formats.interval_decimals(value, low, high) if known else formats.decimals(value)
    limits = formats.interval(low, high, places)
    return f"{formats.fixed(value, places)}{mark}" + (f"{LINE_BREAK}{limits}" if limits else "")


def _verdict(row: Any) -> str:
    """Return the verdict of a comparison; one that could not support a claim in any case has none."""
    exploratory = row.verdict == "undecided" and str(getattr(row, "reason", "")).startswith("exploratory")
    return "(exploratory)" if exploratory else str(row.verdict)


def _stacked(value: object, low: object, high: object, **kwargs: Any) -> str:
    """Return ``value [low, high]`` on two lines of a cell."""
    return formats.with_interval(value, low, high, **kwargs).replace(" [", f"{LINE_BREAK}[", 1)


def _interval_words(data: ReportData) -> str:
    level = formats.percent(data.study.analysis.confidence)
    fewest, most = int(data.cells_df["n_blocks"].min()), int(data.cells_df["n_blocks"].max())
    n_blocks = formats.plural(most, "block") if fewest == most else f"{fewest} to {most} blocks"
    if data.cells_df["low_s"].notna().any():
        return f"Below an estimate, its {level} interval over {n_blocks}."
    return f"With {n_blocks}, too few blocks for intervals."


def _quantisation(data: ReportData) -> str:
    """Return a sentence on how wide the bins are that the printed quantiles lie in."""
    if not {"bin_low_s", "bin_high_s"} <= set(data.cells_df.columns):
        return ""
    printed = data.cells_df[data.cells_df["estimate_s"].notna()]
    width = (
        float(np.nanmax(printed["bin_high_s"] / printed["bin_low_s"])) - 1 if len(printed) else float("nan")
    )
    return (
        f"The histogram bin of a quantile is at most {formats.percent(width)} wide."
        if formats.is_number(width)
        else ""
    )


def _in_order(frame: pd.DataFrame) -> list[Any]:
    """Return rows by rate, arm, and quantile."""
    arms = style.arm_order(zip(frame["mesh"], frame["configuration"], strict=True))
    return sorted(
        frame.itertuples(index=False),
        key=lambda row: (row.target_rps, arms.index((row.mesh, row.configuration)), row.quantile),
    )


def _cell_runs(
    data: ReportData, arm: tuple[str, str], rate: int, runs: pd.DataFrame | None = None
) -> pd.DataFrame:
    runs = data.runs_df if runs is None else runs
    return runs[(runs["mesh"] == arm[0]) & (runs["configuration"] == arm[1]) & (runs["target_rps"] == rate)]


def _identity(record: dict[str, Any]) -> tuple[Any, ...]:
    key = record.get("key", {})
    return tuple(key.get(name) for name in ("mesh", "configuration", "target_rps", "block", "deployment"))


def _seen(values: Any) -> str:
    """Return the distinct values in the order of their first appearance."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))


def _memory(value: object) -> str | None:
    return f"{formats.significant(float(value) / 2**30)} GiB" if formats.is_number(value) else None  # type: ignore[arg-type]
