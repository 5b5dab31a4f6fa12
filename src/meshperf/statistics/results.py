"""Result types shared by all statistics, and the closed list of warnings they may carry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StatisticsWarning(StrEnum):
    """The closed list of cautions a result may carry; whoever prints the result prints them too."""

    TooFewBlocks = "TooFewBlocks"
    PMinAboveAlpha = "PMinAboveAlpha"
    NotEstimable = "NotEstimable"
    SingleRunTail = "SingleRunTail"
    ResolutionLimited = "ResolutionLimited"
    Saturated = "Saturated"
    OmissionUnbounded = "OmissionUnbounded"
    NotSteady = "NotSteady"
    Bimodal = "Bimodal"
    BlockIncomplete = "BlockIncomplete"
    AAGateFailed = "AAGateFailed"
    UnpairedFallback = "UnpairedFallback"


EXPLANATIONS: dict[StatisticsWarning, str] = {
    StatisticsWarning.TooFewBlocks: "too few blocks: 3 are needed for an interval, 6 for a claim",
    StatisticsWarning.PMinAboveAlpha: "the design cannot reach the significance level, whatever the data",
    StatisticsWarning.NotEstimable: "too few requests beyond this quantile to estimate it",
    StatisticsWarning.SingleRunTail: "most requests beyond this quantile come from one run",
    StatisticsWarning.ResolutionLimited: "the effect is smaller than the histogram's bins",
    StatisticsWarning.Saturated: "a run missed its target rate",
    StatisticsWarning.OmissionUnbounded: "unsent requests leave this quantile without an upper bound",
    StatisticsWarning.NotSteady: "latency drifted within a run",
    StatisticsWarning.Bimodal: "one block lies far from the others: deployments may have two modes",
    StatisticsWarning.BlockIncomplete: "blocks without all of their runs were left out",
    StatisticsWarning.AAGateFailed: "the two baselines of this campaign differ more than chance allows",
    StatisticsWarning.UnpairedFallback: "blocks were broken, so the arms were compared unpaired",
}


class StatisticsError(ValueError):
    """Input that no statistic can use: NaN, negative counts, mismatched shapes, impossible confidence."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval over blocks.

    Attributes
    ----------
    estimate : float
        Point estimate, in the unit of the statistic (ratios have none).
    low, high : float
        Ends of the interval; NaN when there are too few blocks for one.
    se : float
        Standard error on the scale on which the interval was made (log for ratios); NaN likewise.
    n : int
        Number of blocks.
    confidence : float
        Nominal coverage, in (0, 1).
    method : str
        How the interval was made, in words that can be printed.
    sd : float
        Standard deviation between blocks on the same scale; NaN where the method has none.
    warnings : tuple of StatisticsWarning
    """

    estimate: float
    low: float
    high: float
    se: float
    n: int
    confidence: float
    method: str
    sd: float = float("nan")
    warnings: tuple[StatisticsWarning, ...] = ()

    @property
    def has_interval(self) -> bool:
        """Whether the ends are numbers."""
        return self.low == self.low and self.high == self.high
