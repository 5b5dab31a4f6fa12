"""What the report is made of: the frames and records of one study, read once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.errors import MeshperfError
from meshperf.paths import repository_root
from meshperf.report import style

if TYPE_CHECKING:
    from meshperf.study import Study

RUN_IDENTITY = ["mesh", "configuration", "target_rps", "block", "deployment"]
BASELINE = ("baseline", "none")


@dataclass(frozen=True, eq=False)
class ReportData:
    """All inputs of one report.

    Attributes
    ----------
    study : Study
        The design.
    design : dict
        ``design.json`` of the campaign; ``{}`` where it is absent.
    runs_df, histograms_df, cells_df, comparisons_df, resources_df : DataFrame
        One row per run; per run and bin; per cell and quantile; per comparison, quantile and estimand; per run and
        container. An empty frame means "not measured" and its parts of the report are left out.
    slices_df : DataFrame
        One row per run and slice (:func:`meshperf.frames.load_time_course`).
    control_df, gate_df, ranks_df, distances_df, shifts_df, features_df, decisions_df, plan_df : DataFrame
    drifts_df, knees_df, cpu_df, slopes_df, memory_df, sensitivity_df, components_df : DataFrame
        The other tables of :mod:`meshperf.analysis`, by the names of their functions there.
    validation_df : DataFrame
        The last validation of the statistics (``data/validation/statistics.csv``); empty where there is none.
    records : list of dict
        ``run.json`` of every run.
    attempts : list of dict
        Broken attempts, each with its reason.
    data_hash : str
        First twelve hex digits of the SHA-256 of the campaign's ``SHA256SUMS`` (of ``runs_df`` if it is unsealed).
    sealed : bool
        Whether ``SHA256SUMS`` exists.
    """

    study: Study
    design: dict[str, Any]
    runs_df: pd.DataFrame
    histograms_df: pd.DataFrame
    cells_df: pd.DataFrame
    comparisons_df: pd.DataFrame
    resources_df: pd.DataFrame
    slices_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    control_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    gate_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    ranks_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    distances_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    shifts_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    features_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    decisions_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    plan_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    drifts_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    knees_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    cpu_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    slopes_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    memory_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    sensitivity_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    components_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    validation_df: pd.DataFrame = field(default_factory=pd.DataFrame)
    records: list[dict[str, Any]] = field(default_factory=list)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    data_hash: str = ""
    sealed: bool = False
    campaign_dir: Path = Path()
    results_dir: Path = Path()

    @property
    def campaign(self) -> str:
        """The campaign's identifier."""
        return self.study.campaign

    @property
    def synthetic(self) -> bool:
        """Whether the campaign was simulated and must be stamped so."""
        return bool(self.design.get("synthetic", False))

    @property
    def arms(self) -> list[tuple[str, str]]:
        """Arms that have at least one run, the baseline first, in printing order."""
        return style.arm_order(self.runs_df[["mesh", "configuration"]].itertuples(index=False, name=None))

    @property
    def mesh_arms(self) -> list[tuple[str, str]]:
        """Arms other than the baseline."""
        return [arm for arm in self.arms if arm != BASELINE]

    @property
    def rates(self) -> list[int]:
        """Target rates that were measured, in requests per second, ascending."""
        return sorted(int(rate) for rate in self.runs_df["target_rps"].unique())

    @property
    def configurations(self) -> list[str]:
        """Configurations of the mesh arms, in printing order."""
        return list(dict.fromkeys(configuration for _, configuration in self.mesh_arms))

    @cached_property
    def counted_runs_df(self) -> pd.DataFrame:
        """Runs that the analysis counts: not failed, and saturated only where the whole cell is."""
        cell = ["mesh", "configuration", "target_rps"]
        saturated = self.cells_df.loc[self.cells_df["verdict"] == "saturated", cell].drop_duplicates()
        in_saturated = pd.MultiIndex.from_frame(self.runs_df[cell]).isin(pd.MultiIndex.from_frame(saturated))
        verdict = self.runs_df["verdict"]
        return self.runs_df[verdict.isin(["ok", "degraded"]) | ((verdict == "saturated") & in_saturated)]

    @cached_property
    def rate_ratio(self) -> pd.Series:
        """Achieved over target rate of each row of ``runs_df``, as its gate judged it.

        The gate leaves out the time in which the schedule wants no request: the staggered start of the connections
        and the wait for the last answer. Runs without the gate's value have the plain ratio.
        """
        judged = {
            tuple(record.get("key", {}).get(name) for name in RUN_IDENTITY): gate.get("value")
            for record in self.records
            for gate in record.get("quality", {}).get("gates", [])
            if gate["name"] == "achieved_rate"
        }
        keys = self.runs_df[RUN_IDENTITY].itertuples(index=False, name=None)
        values = pd.Series([judged.get(key) for key in keys], index=self.runs_df.index, dtype=float)
        return values.fillna(self.runs_df["achieved_rps"] / self.runs_df["target_rps"])

    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of ``histograms_df`` or ``resources_df`` that belong to counted runs."""
        runs = pd.MultiIndex.from_frame(self.counted_runs_df[RUN_IDENTITY])
        return frame[pd.MultiIndex.from_frame(frame[RUN_IDENTITY]).isin(runs)]

    @cached_property
    def caveats(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Arm -> what a reader must know of it beside every number, as recorded with its runs."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for record in self.records:
            key = record.get("key", {})
            said = found.setdefault((key.get("mesh"), key.get("configuration")), {})
            said.update(dict.fromkeys(record.get("caveats", [])))
        return {arm: tuple(said) for arm, said in found.items() if said}

    @property
    def n_blocks(self) -> int:
        """Number of blocks with at least one run."""
        return int(self.runs_df["block"].nunique())

    def headline_rate(self) -> int | None:
        """Return the rate of the headline: the highest at which every comparison has an estimate.

        ``None`` where no rate has one; comparisons of saturated or broken cells carry no estimate.
        """
        frame = self.comparisons_df
        if frame.empty:
            return None
        frame = frame[(frame["mesh"] != BASELINE[0]) & (frame["estimand"] == "typical")]
        frame = frame[~frame["verdict"].astype(str).str.startswith("not ")]
        complete = frame[frame["overhead_ratio"].notna()].groupby("target_rps")[["mesh", "configuration"]]
        arms_at = {int(rate): len(group.drop_duplicates()) for rate, group in complete}
        full = [rate for rate, arms in arms_at.items() if arms == len(self.mesh_arms)]
        return max(full or arms_at, default=None)

    @property
    def shown_rate(self) -> int:
        """The rate that the results chapter shows: that of the headline, or the highest where there is none."""
        return self.headline_rate() or self.rates[-1]

    @cached_property
    def changed_plan(self) -> list[str]:
        """What of the analysis was changed after the campaign began, one clause each."""
        from meshperf.study import changed_plan

        return changed_plan(self.design["study"], self.study) if "study" in self.design else []


def load(study: Study, results_dir: str | Path, campaign_dir: str | Path | None = None) -> ReportData:
    """Read what the analysis of a study left behind, and the campaign's own records.

    Parameters
    ----------
    study : Study
        The design whose results are wanted.
    results_dir : path
        ``results/<study>``: ``runs.csv`` and ``cells.csv``, and where they were measured ``comparisons.csv``,
        ``resources.csv``, ``histograms.csv.gz`` and the other tables.
    campaign_dir : path, optional
        The raw data; ``data/raw/<campaign>`` of the repository if not given.

    Raises
    ------
    MeshperfError
        If ``runs.csv`` or ``cells.csv`` is missing or lacks a column, or if there is no run.
    """
    results_dir = Path(results_dir)
    if campaign_dir is None:
        campaign_dir = repository_root() / "data" / "raw" / study.campaign
    campaign_dir = Path(campaign_dir)
    runs_df = _read(
        results_dir / "runs.csv", [*RUN_IDENTITY, "verdict", "achieved_rps", "p50_s"], required=True
    )
    if runs_df.empty:
        raise MeshperfError(f"{results_dir / 'runs.csv'} has no run: measure the study first (make measure)")
    cells_df = _read(
        results_dir / "cells.csv",
        ["mesh", "configuration", "target_rps", "quantile", "estimate_s"],
        required=True,
    )
    comparisons_df = _read(
        results_dir / "comparisons.csv", ["mesh", "quantile", "estimand", "overhead_ratio", "verdict"]
    )
    resources_df = _read(
        results_dir / "resources.csv", [*RUN_IDENTITY, "role", "cores", "working_set_median_bytes"]
    )
    return ReportData(
        study=study,
        design=_read_json(campaign_dir / "design.json"),
        runs_df=runs_df,
        histograms_df=_histograms(results_dir, campaign_dir),
        cells_df=cells_df,
        comparisons_df=comparisons_df,
        resources_df=resources_df,
        **{f"{name}_df": _read(results_dir / f"{name}.csv", columns) for name, columns in _OPTIONAL.items()},
        validation_df=_read(repository_root() / VALIDATION, _VALIDATION_COLUMNS),
        records=[_read_json(path) for path in sorted(campaign_dir.glob("[!a.]*/*/*/block-*/run.json"))],
        attempts=[
            _read_json(path) for path in sorted(campaign_dir.glob("attempts/*/*/*/block-*-attempt-*.json"))
        ],
        data_hash=_data_hash(campaign_dir, results_dir),
        sealed=(campaign_dir / "SHA256SUMS").is_file(),
        campaign_dir=campaign_dir,
        results_dir=results_dir,
    )


#: What `make validate-statistics` found, relative to the repository.
VALIDATION = Path("data", "validation", "statistics.csv")
_VALIDATION_COLUMNS = [
    *("check", "scenario", "method", "quantile", "n_blocks", "n_campaigns", "value"),
    *("required_low", "required_high", "naive", "passed", "commit"),
]

#: Tables that a study may lack, and the columns that the report cannot do without.
_OPTIONAL = {
    "control": ["target_rps", "quantile", "ratio", "noise_ratio"],
    "gate": ["compared", "passed", "rejected", "tests", "p_value"],
    "ranks": ["mesh", "configuration", "target_rps", "quantile", "ranks"],
    "distances": ["mesh", "configuration", "target_rps", "ks_d", "p_combined", "verdict"],
    "shifts": ["mesh", "configuration", "target_rps", "quantile", "block", "ratio"],
    "features": ["feature", "mesh", "configuration", "target_rps", "quantile", "ratio", "verdict"],
    "decisions": ["requirement", "criterion", "target_rps", "mesh", "configuration", "best_rank", "value"],
    "plan": ["mesh", "configuration", "target_rps", "quantile", "detectable_ratio", "ratio", "power"],
    "slices": [*RUN_IDENTITY, "start_s", "p50_s"],
    "drifts": ["target_rps", "quantile", "trend_ratio"],
    "knees": ["mesh", "configuration", "knee_rps", "at_limit"],
    "cpu": ["mesh", "configuration", "target_rps", "role", "cpu_s_per_request"],
    "slopes": ["mesh", "configuration", "role", "slope_s_per_request", "idle_cores"],
    "sensitivity": ["mesh", "configuration", "target_rps", "quantile", "merged_s", "omission_low_s"],
    "components": ["target_rps", "quantile", "sd_block", "sd_deployment", "within_share"],
    "memory": ["mesh", "configuration", "target_rps", "role", "level_bytes"],
}


def _read(path: Path, columns: list[str], *, required: bool = False) -> pd.DataFrame:
    """Read a frame and check that it has the columns the report uses; an absent optional one is an empty frame."""
    if not path.is_file():
        if required:
            raise MeshperfError(f"{path} is missing: run the analysis first (make report)")
        return pd.DataFrame(columns=columns)
    try:
        frame = pd.read_csv(path)
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=columns)
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise MeshperfError(f"{path} lacks the column {missing[0]}: run the analysis again (make report)")
    return frame


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; an absent file is an empty one."""
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MeshperfError(f"{path} is not valid JSON ({error}): restore it from the campaign") from error


def _histograms(results_dir: Path, campaign_dir: Path) -> pd.DataFrame:
    """Read the run histograms from the results, or from the raw data where the results have none."""
    path = results_dir / "histograms.csv.gz"
    if path.is_file():
        return _read(path, [*RUN_IDENTITY, "bin_low_s", "bin_high_s", "count"])
    from meshperf import frames

    return frames.load_histograms(campaign_dir)


def _data_hash(campaign_dir: Path, results_dir: Path) -> str:
    """Return twelve hex digits that name the exact data of the report."""
    sums = campaign_dir / "SHA256SUMS"
    source = sums if sums.is_file() else results_dir / "runs.csv"
    return hashlib.sha256(source.read_bytes()).hexdigest()[:12]
