"""What a reader must know of an arm is printed beside its numbers."""

import pandas as pd
import pytest
from support import make_study

from meshperf.report.data import ReportData
from meshperf.report.floats import FigureFloat, TableFloat, caveats

BASELINE, BASIC, MTLS, OTHER = ("baseline", "none"), ("consul", "basic"), ("consul", "mtls"), ("kuma", "mtls")
NO_INTERCEPTION, NO_INTENTIONS = "Consul intercepts nothing", "Consul basic drops intentions"
OTHER_ENVOY = "Envoy is the vanilla build"
SAID = {
    BASELINE: [],
    BASIC: [NO_INTERCEPTION, NO_INTENTIONS, OTHER_ENVOY],
    MTLS: [NO_INTERCEPTION, OTHER_ENVOY],
    OTHER: [OTHER_ENVOY],
}


@pytest.fixture
def data():
    records = [
        {"key": {"mesh": mesh, "configuration": configuration}, "caveats": said}
        for (mesh, configuration), said in SAID.items()
        for _ in range(3)
    ]
    # Runs of a campaign that was measured before there were caveats have none.
    records.append({"key": {"mesh": "istio", "configuration": "mtls"}})
    frames = dict.fromkeys(
        ("runs_df", "histograms_df", "cells_df", "comparisons_df", "resources_df"), pd.DataFrame()
    )
    return ReportData(make_study(), {}, records=records, data_hash="0123456789ab", **frames)


def test_each_caveat_is_said_once(data):
    assert caveats(data, [BASELINE, BASIC, MTLS, OTHER]) == (
        " Consul intercepts nothing. Consul basic drops intentions. Envoy is the vanilla build."
    )


def test_only_the_arms_that_are_shown_have_their_caveats_said(data):
    assert caveats(data, [BASELINE, OTHER]) == " Envoy is the vanilla build."
    assert caveats(data, [MTLS]) == " Consul intercepts nothing. Envoy is the vanilla build."
    assert caveats(data, [BASELINE, ("istio", "mtls")]) == ""


@pytest.mark.parametrize("kind", [TableFloat, FigureFloat])
def test_a_caption_says_them(data, kind):
    content = pd.DataFrame({"a": ["1"]}) if kind is TableFloat else ()
    item = kind("tbl-any", content, "Caption.", "03-describe-cell", [BASIC])
    assert "Caption. Consul intercepts nothing. Consul basic drops intentions." in item.markdown(data)
    without = kind("tbl-any", content, "Caption.", "03-describe-cell")
    assert "Consul" not in without.markdown(data)
