"""The planner's command line: blocks and seconds for an effect, from a pilot campaign or from a given spread."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from meshperf.errors import MeshperfError

if TYPE_CHECKING:
    from meshperf.study import Study


def from_campaign(study: Study, campaign_dir: Path, ratio: float, power: float) -> Iterator[str]:
    """Yield the lines of a plan made from the spread between the blocks of a campaign.

    Parameters
    ----------
    study : Study
        What is planned: its blocks and seconds are compared with those needed.
    campaign_dir : Path
        The pilot.
    ratio : float
        Effect to detect, above 1.
    power : float
        Between 0 and 1.

    Raises
    ------
    MeshperfError
        If the wish is out of range, there is no such campaign, or it has no cell with two complete blocks.
    """
    from meshperf import campaign, frames
    from meshperf.analysis.plan import Wish, plan_df
    from meshperf.study import parse_study

    _check(ratio, power)
    design = campaign.read_design(campaign_dir)
    pilot = parse_study(design["study"], f"the study in {campaign_dir / campaign.DESIGN}")
    rows = plan_df(
        frames.load_runs(campaign_dir), frames.load_histograms(campaign_dir), pilot, Wish(ratio, power)
    )
    if rows.empty:
        raise MeshperfError(
            f"{campaign_dir} has no arm with two complete blocks, so nothing is known of the spread between blocks: "
            "measure a pilot of at least 3 blocks, or give the spread with --sd"
        )
    yield (
        f"Spread between blocks from {campaign_dir.name}; planned with its upper 80 % limit, for a ratio of {ratio:g} "
        f"with a power of {power:.0%} in a test at {pilot.analysis.alpha:g}."
    )
    if design.get("synthetic"):
        yield "SYNTHETIC DATA: the pilot was simulated."
    yield ""
    yield "arm                     RPS  quantile  blocks  sd of log  detects now  in family  blocks needed  seconds"
    for row in rows.itertuples():
        needed = "over 1000" if math.isnan(row.blocks_needed) else f"{row.blocks_needed:.0f}"
        seconds = "-" if math.isnan(row.seconds_needed) else f"{math.ceil(row.seconds_needed)}"
        yield (
            f"{row.mesh + '/' + row.configuration:<20}{row.target_rps:>7}{'p' + format(row.quantile * 100, 'g'):>10}"
            f"{row.n_blocks:>8}{row.sd_log:>11.3f}{'x ' + format(row.detectable_ratio, '.2f'):>13}"
            f"{'x ' + format(row.detectable_in_family, '.2f'):>11}{needed:>15}{seconds:>9}"
        )
    yield ""
    yield _verdict(study, rows["blocks_needed"].max(skipna=False), rows["seconds_needed"].max(skipna=False))


def from_spread(study: Study, sd: float, ratio: float, power: float) -> Iterator[str]:
    """Yield the lines of a plan made from a given standard deviation between blocks of the log ratio."""
    from meshperf.statistics.power import blocks_needed, detectable_ratio, half_width

    _check(ratio, power)
    if not 0 < sd < 10:
        raise MeshperfError(f"--sd {sd:g} is no spread of log ratios: give one between 0 and 10, e.g. 0.1")
    alpha = study.analysis.alpha
    needed = blocks_needed(sd, ratio, target_power=power, alpha=alpha)
    yield (
        f"For a ratio of {ratio:g} with a power of {power:.0%} in a test at {alpha:g}, and a spread of {sd:g} between "
        f"blocks: {needed if needed else 'more than 1000'} blocks."
    )
    if study.blocks >= 2:
        yield (
            f"{study.study} has {study.blocks} blocks: it detects a ratio of "
            f"{detectable_ratio(sd, study.blocks, target_power=power, alpha=alpha):.3f}, and its intervals reach "
            f"{half_width(sd, study.blocks, confidence=study.analysis.confidence):.0%} above a ratio of one."
        )
    yield _verdict(study, float(needed) if needed else math.nan, math.nan)


def _check(ratio: float, power: float) -> None:
    if not 1 < ratio <= 100:
        raise MeshperfError(
            f"--effect {ratio:g} is no ratio to detect: give one above 1, e.g. 1.1 for ten per cent"
        )
    if not 0 < power < 1:
        raise MeshperfError(f"--power {power:g} is no probability: give one between 0 and 1, e.g. 0.8")


def _verdict(study: Study, blocks: float, seconds: float) -> str:
    if math.isnan(blocks):
        return "No feasible number of blocks detects this everywhere: wish for a larger effect or a quieter testbed."
    blocks = max(int(blocks), 6)
    enough = study.blocks >= blocks
    said = f"{study.study} has {study.blocks} blocks, which is {'enough' if enough else 'too few'}"
    most = " (a study has at most 99: wish for a larger effect)" if blocks > 99 else ""
    remedy = "" if enough else f": set blocks: {blocks}{most}"
    length = ""
    if not math.isnan(seconds) and seconds > study.load.duration_s:
        length = f"; for every quantile without a dagger set load.duration_s: {math.ceil(seconds)}"
    return f"{said} (a claim needs 6 in any case){remedy}{length}."
