"""Each audit rule on small tables made by hand: one that it must find, one that it must leave alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from meshperf.errors import MeshperfError
from meshperf.published import bands, cells, claims, comparison, effects, printed, results, support, tables

PRINTED = tables.COLUMNS["latency"]


@pytest.fixture(scope="module")
def published():
    return tables.load()


def latency(*rows):
    """Text and typed rows of a latency table: ``table row mesh configuration target achieved mean p50 … p99.99``."""
    text = pd.DataFrame([["doc", *row.split(",")] for row in rows], columns=PRINTED)
    return text, tables._latency(text)


def found(audits):
    """The numbers of the one audit."""
    (audit,) = audits
    return audit.checked, audit.found


# Reprints -----------------------------------------------------------------------------------------------------------


def test_reprints_tell_another_rate_from_other_latencies():
    text, frame = latency(
        "1,1,istio,basic,100,100,6,4,9,41,80,87",
        "1,2,kuma,basic,100,99.9,6,4,9,41,80,87",
        "1,3,kuma,mTLS,100,99.9,6,4,9,41,80,87",
        "2,1,istio,basic,100,100,6,4,9,41,80,87",
        "2,2,kuma,basic,100,98.8,6,4,9,41,80,87",
        "2,3,kuma,mTLS,100,99.9,6,5,9,41,80,88",
    )
    (audit,) = printed.reprints(frame, text)
    assert (audit.checked, audit.found) == (3, 2)
    assert [(row["subject"], row["quantity"]) for row in audit.rows] == [
        ("kuma basic at 100 RPS", "achieved_rps"),
        ("kuma mtls at 100 RPS", "p50_ms"),
        ("kuma mtls at 100 RPS", "p99_99_ms"),
    ]
    assert audit.rows[0] | {"note": ""} == {
        "table": "2", "row": 2, "subject": "kuma basic at 100 RPS", "quantity": "achieved_rps", "printed": "98.8",
        "against": "99.9", "against_place": "table 1, row 2", "note": "",
    }  # fmt: skip
    assert (
        "1 with the same numbers, 1 with the same latencies beside another achieved rate, 1 with other latencies"
        in (audit.statement)
    )


def test_reprints_compare_what_is_printed_and_not_its_value():
    text, frame = latency(
        "1,1,istio,basic,100,100,6,4,9,41,80,87", "2,1,istio,basic,100,100.0,6,4,9,41,80,87"
    )
    assert found(printed.reprints(frame, text)) == (1, 1)


def test_a_document_that_prints_nothing_twice_has_no_reprints():
    text, frame = latency("1,1,istio,basic,100,100,6,4,9,41,80,87", "1,2,istio,basic,200,100,6,4,9,41,80,87")
    assert printed.reprints(frame, text) == []


# Captions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caption", "contradicts"),
    [
        ("Latencies of Kuma Service Mesh with different features.", False),
        ("Latencies of Consul Service Mesh with different features.", True),
        ("Latencies with different features.", False),
        ("Latency of different Service Mesh with mTLS enabled.", True),  # the rows are basic and mTLS
    ],
)
def test_captions_are_held_against_their_rows(published, caption, contradicts):
    text, frame = latency("1,1,kuma,basic,100,100,6,4,9,41,80,87", "1,2,kuma,mTLS,100,100,6,4,9,41,80,87")
    captions = pd.DataFrame(
        [["doc", "table", "1", "yes", "", caption, "2", "latency.csv"]], columns=tables.COLUMNS["captions"]
    )
    small = replace(
        published, captions=captions, printed={**published.printed, "latency": text}, latency_df=frame
    )
    assert found(printed.captions(small)) == (1, int(contradicts))


def test_a_heading_of_another_load_is_found(published):
    captions = published.captions.copy()
    at = (captions["source"] == "livewyer2024") & (captions["number"] == "2")
    captions.loc[at, "caption"] = captions.loc[at, "caption"].str.replace("=64", "=32")
    audits = {audit.source: audit for audit in printed.captions(replace(published, captions=captions))}
    assert audits["livewyer2024"].found == 1
    assert audits["livewyer2024"].rows[0]["against"] == "64"


# Percentiles and means ----------------------------------------------------------------------------------------------


def test_percentiles_that_descend_are_found():
    _, frame = latency("1,1,istio,basic,100,100,6,4,9,41,80,87", "1,2,kuma,basic,100,100,6,4,9,41,80,79.9")
    (audit,) = printed.monotone([frame])
    assert (audit.checked, audit.found) == (2, 1)
    assert (audit.rows[0]["row"], audit.rows[0]["quantity"], audit.rows[0]["against"]) == (
        2,
        "p99.99",
        "80 ms",
    )


def test_equal_percentiles_ascend_well_enough():
    _, frame = latency("1,1,istio,basic,100,100,6,4,4,41,41,41")
    assert found(printed.monotone([frame])) == (1, 0)


def test_limits_of_the_mean_are_those_worked_out_by_hand():
    # Half of the requests take at most 1, the next 49 % at most 2, the last 1 % more:
    # at least 0.49 x 1 + 0.01 x 2, at most 0.5 x 1 + 0.49 x 2 + 0.01 x 2 if nothing is slower than 2.
    low, high = printed.mean_limits(np.array([1.0, 2.0]), np.array([0.5, 0.99]))
    assert (low, high) == (pytest.approx(0.51), pytest.approx(1.5))


@pytest.mark.parametrize(("mean", "impossible"), [("3.8", False), ("2.7", True)])
def test_a_mean_below_its_percentiles_is_found(mean, impossible):
    # At least 0.4·4 + 0.09·9 + 0.009·41 + 0.0009·80 + 0.0001·87 = 2.86.
    text, frame = latency(f"1,1,istio,basic,100,100,{mean},4.000,9.000,41.00,80.00,87.00")
    assert found(printed.means([(frame, text)])) == (1, int(impossible))


def test_a_mean_above_its_percentiles_says_how_slow_the_rest_was():
    # At most 0.5·4 + 0.4·9 + 0.09·41 + 0.009·80 + 0.0009·87 + 0.0001·87 = 10.097, if nothing is slower than 87.
    text, frame = latency("1,1,istio,basic,100,100,11.097,4.000,9.000,41.00,80.00,87.00")
    (audit,) = printed.means([(frame, text)])
    # One more millisecond on average is 10 000 ms for one request in 10 000, beyond the 87.
    assert audit.found == 1 and "needs 1.009e+04 ms on average" in audit.rows[0]["note"]


def test_rows_that_the_document_calls_failed_are_found(published):
    assert found(printed.marked_rows(published.oha_df, published.printed["oha"])) == (24, 2)
    clean = published.oha_df.assign(marked=False)
    assert found(printed.marked_rows(clean, published.printed["oha"])) == (24, 0)


# Sample size, rate, load, CPU ---------------------------------------------------------------------------------------


def test_requests_behind_a_percentile(published):
    # 100 RPS for 70 s are 7 000 requests: 0.7 beyond p99.99, 7 beyond p99.9, 70 beyond p99.
    _, frame = latency("1,1,istio,basic,100,100,6,4,9,41,80,87")
    empty = {"oha_df": published.oha_df.iloc[:0], "multicluster_df": published.multicluster_df.iloc[:0]}
    small = replace(published, latency_df=frame.assign(source="elca2022"), **empty)
    estimable = support.estimability_df(small).set_index("quantile")
    assert estimable["exceedances"].tolist() == pytest.approx([3500, 700, 70, 7, 0.7])
    assert estimable["label"].tolist() == ["dagger", "dagger", "dagger", "n.e.", "n.e."]
    assert found(support.sample_sizes(estimable.reset_index())) == (5, 2)
    assert found(support.sample_sizes(estimable.reset_index().query("quantile < 0.99"))) == (2, 0)


@pytest.mark.parametrize(
    ("achieved", "tier"), [(990, "ok"), (989, "degraded"), (950, "degraded"), (949, "saturated")]
)
def test_rates_that_were_missed(achieved, tier):
    _, frame = latency(f"1,1,istio,basic,1000,{achieved},6,4,9,41,80,87")
    assert cells.rate_tier(achieved / 1000) == tier
    assert found(support.rates(frame)) == (1, int(tier != "ok"))


def test_a_missing_share_bounds_a_quantile_only_below_it():
    assert support.identified(0.99, 0.995) and not support.identified(0.999, 0.995)
    assert not support.identified(0.99, 0.99)


def test_a_closed_loop_is_recognised(published):
    oha = published.oha_df.iloc[:1]
    empty = published.multicluster_df.iloc[:0]
    # 32 connections at 120.2747 requests per second: 0.266 s each, as its percentiles allow.
    assert found(support.closed_loop(replace(published, oha_df=oha, multicluster_df=empty))) == (1, 1)
    open_loop = oha.assign(connections=64.0)
    assert found(support.closed_loop(replace(published, oha_df=open_loop, multicluster_df=empty))) == (1, 0)


def test_a_service_at_its_limit_is_found(published):
    frame = published.resources_df.iloc[:2].assign(service_cores=[0.308, 0.309])
    # 95 % of 325 mCPU is 308.75.
    assert found(support.cpu_limit(replace(published, resources_df=frame))) == (2, 1)


# Effects ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(published):
    """Two meshes and no mesh at one rate, with mTLS printed in another table."""
    _, frame = latency(
        "1,1,without mesh,,100,100,6,2,8,40,80,90",
        "1,2,istio,basic,100,100,6,4,6,41,80,90",
        "1,3,kuma,basic,100,90,6,1,9,39,80,90",
        "2,1,istio,mTLS,100,100,6,5,6,40,80,90",
        "2,2,istio,mTLS,200,200,6,5,6,40,80,90",
    )
    return replace(
        published, latency_df=frame, oha_df=published.oha_df.iloc[:0], osm_df=published.osm_df.iloc[:0]
    )


def test_effects_pair_cells_of_one_load(small):
    effect = effects.effects_df(small)
    p50 = effect[effect["quantity"] == "p50"]
    pairs = p50.set_index(["mesh", "configuration", "kind"])["ratio"].to_dict()
    assert pairs == {
        ("istio", "basic", effects.AGAINST_NONE): 2.0,
        ("kuma", "basic", effects.AGAINST_NONE): 0.5,
        ("istio", "mtls", effects.AGAINST_NONE): 2.5,
        ("istio", "mtls", effects.AGAINST_PLAIN): 1.25,
    }
    # The document prints mTLS in another table than no mesh, so that pair is not one it compares.
    assert not effect.query("configuration == 'mtls' and kind == @effects.AGAINST_NONE")["counted"].any()
    assert effect.query("mesh == 'kuma'")["tier"].unique().tolist() == ["saturated"]


def test_signs_are_counted_with_what_chance_gives(small):
    effect = effects.effects_df(small)
    signs = effects.signs_df(effect, effects.spread_df(small.latency_df))
    one = signs.query("kind == @effects.AGAINST_NONE and quantity == 'p99' and cells == 'all'").iloc[0]
    # 41 and 39 against 40: one of two below; of two fair coins a split is certain to be at least as even: p = 1.
    assert (one["n"], one["below"], one["expected"], one["p_value"]) == (2, 1, 1.0, 1.0)
    assert one["mean_ratio"] == pytest.approx(np.sqrt(41 * 39) / 40)
    tied = signs.query("kind == @effects.AGAINST_NONE and quantity == 'p99.9' and cells == 'all'").iloc[0]
    assert (tied["below"], tied["expected"]) == (0, 0.0)
    assert (
        signs.query("quantity == 'p50' and cells == 'ok' and kind == @effects.AGAINST_NONE")["n"].item() == 1
    )
    audits = {audit.rule: audit for audit in effects.unexpected_signs(effect, signs)}
    # Kuma at p50 and p99, Istio at p90; of mTLS p99 alone.
    assert audits["faster-than-none"].found == 3
    assert audits["tls-faster"].found == 1


def test_the_noise_is_the_largest_ratio_of_two_printings():
    _, frame = latency(
        "1,1,istio,basic,100,100,6,4,9,40,80,87",
        "2,1,istio,basic,100,100,6,4,9,50,80,87",
        "1,2,kuma,basic,100,100,6,4,9,44,80,87",
        "2,2,kuma,basic,100,99,6,4,9,40,80,87",
        "1,3,kuma,mTLS,100,100,6,4,9,44,80,87",
        "2,3,kuma,mTLS,100,99,6,4,9,44,80,87",
    )
    spread = effects.spread_df(frame).set_index("quantity")
    assert spread["n"].unique().tolist() == [2]  # where only the rate differs there is no second measurement
    assert spread.at["p99", "largest_ratio"] == pytest.approx(1.25)
    assert spread.at["p50", "largest_ratio"] == 1.0


# Claims -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "left", "right", "result"),
    [
        ("2.7", "1,332.38", "496.08", "confirmed"),  # 2.686
        ("2.7", "5,148.70", "1,864.44", "close"),  # 2.762 rounds to 2.8
        ("8.2", "9.33", "1.13", "confirmed"),  # 8.257, but 9.325 / 1.135 = 8.216 rounds to it
        ("2.7", "5,148.70", "1,464.44", "contradicted"),  # 3.516
    ],
)
def test_a_ratio_is_confirmed_within_the_rounding_of_its_cells(published, said, left, right, result):
    text = (
        published.printed["multicluster"]
        .iloc[:2]
        .assign(mesh=["NSM vl3", "Istio"], qps=[left, right], table="1")
    )
    check = pd.DataFrame(
        [["uzlov2024", "c", "multicluster.csv", "1", "", "NSM vl3", "qps", "ratio", "Istio", "qps"]],
        columns=tables.COLUMNS["claim_checks"],
    )
    claim = published.claims.iloc[:1].assign(claim="c", value=said, unit="times")
    changed = {**published.printed, "multicluster": text}
    checks = claims.checks_df(replace(published, printed=changed, claim_checks=check, claims=claim))
    assert checks["result"].tolist() == [result]
    assert found(claims.against_tables(checks)) == (1, int(result != "confirmed"))


@pytest.mark.parametrize(
    ("operation", "left", "right", "result"),
    [("greater", "2", "1", "confirmed"), ("less", "2", "1", "contradicted"), ("less", "1", "1", "tied")],
)
def test_a_ranking_is_held_against_the_printed_order(published, operation, left, right, result):
    text = published.printed["oha"].iloc[:2].assign(mesh=["Istio", "Cilium"], qps=[left, right], table="1")
    check = pd.DataFrame(
        [["livewyer2024", "c", "oha.csv", "1", "", "Istio", "qps", operation, "Cilium", "qps"]],
        columns=tables.COLUMNS["claim_checks"],
    )
    claim = published.claims.iloc[:1].assign(claim="c", value="")
    small = replace(published, printed={**published.printed, "oha": text}, claim_checks=check, claims=claim)
    assert claims.checks_df(small)["result"].tolist() == [result]


def test_a_check_that_names_no_cell_is_refused(published):
    check = published.claim_checks.iloc[:1].assign(left="Nobody")
    with pytest.raises(MeshperfError, match="names Nobody qps in table 1, which is 0 rows"):
        claims.checks_df(replace(published, claim_checks=check))


@pytest.mark.parametrize(("share", "inconsistent"), [("60", 0), ("30", 2)])
def test_a_difference_and_a_share_imply_one_total(published, share, inconsistent):
    # 3 ms and 60 % imply 7.5 ms, 2 ms and 80 % imply 10 ms: with rounding, 5.6 to 10 and 6 to 16.7.
    # 3 ms and 30 % would be 4.3 ms, at most 3.5 / 0.65 = 5.4.
    values = published.claims.copy()
    docker = values["quantity"] == "time of a Docker call over one through Istio"
    values.loc[docker, "value"] = share
    assert found(claims.implied(replace(published, claims=values))) == (2, inconsistent)


def test_rankings_within_the_stated_noise_are_found(published):
    checks = pd.DataFrame(
        {
            "source": "livewyer2024", "claim": "c", "quantity": "q", "said": "greater", "table": "1",
            "subject": ["a", "b"], "effect": [0.05, 0.051], "result": "confirmed",
        }
    )  # fmt: skip
    assert found(claims.smaller_than_noise(published, checks)) == (2, 1)


def test_a_model_is_held_against_the_node(published):
    capacity = claims.capacity_df(published)
    cpu = capacity[capacity["unit"] == "RPS"].set_index("level")
    # 0.06 cores and 0.1 for every 100 RPS, on nodes of 2; 1 MB for each pod, on nodes of 7 GB.
    assert cpu["wanted"].to_dict() == pytest.approx(
        {100: 0.16, 500: 0.56, 1000: 1.06, 2000: 2.06, 4000: 4.06}
    )
    assert cpu["fits"].tolist() == [True, True, True, False, False]
    assert capacity[capacity["unit"] == "pods"]["fits"].all()
    (audit,) = claims.beyond_the_node(published, capacity)
    assert (audit.checked, audit.found) == (9, 2)
    assert "at 1940 RPS" in audit.statement  # (2 - 0.06) / 0.1 x 100


# Bands --------------------------------------------------------------------------------------------------------------


def test_a_band_is_two_staircases():
    low, high = bands.band([1, 2, 4], [0.5, 0.9, 0.99], [0.5, 1, 1.5, 2, 3.9, 4, 9])
    assert low.tolist() == [0, 0.5, 0.5, 0.9, 0.9, 0.99, 0.99]
    assert high.tolist() == [0.5, 0.9, 0.9, 0.99, 0.99, 1, 1]


@pytest.mark.parametrize("values", [[2, 1], [1, 2, 3]])
def test_a_band_needs_quantiles_that_can_be(values):
    with pytest.raises(MeshperfError, match="do not descend"):
        bands.band(values, [0.5, 0.9], [1])


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [
        ([1, 2], [1, 2], (0, 0.5)),  # below 1 either may be anything up to a half
        # All of the second is above 3: at 2 the first is at least 0.9, the second at most 0.5. At most: below 3 the
        # first may have reached 1 and the second may still be at 0.
        ([1, 2], [3, 4], (0.4, 1.0)),
    ],
)
def test_quantiles_bound_the_distance_of_distributions(first, second, limits):
    assert bands.distance_limits(first, second, [0.5, 0.9]) == pytest.approx(limits)


def test_every_row_of_a_comparison_has_a_rectangle_between_each_pair_of_quantiles(published):
    frame = bands.bands_df(published.latency_df)
    assert len(frame) == 170 * 4
    assert (frame["low_s"] <= frame["high_s"]).all()
    assert frame["comparison"].value_counts().to_dict() == {
        "basic": 160, "mtls": 112, "istio": 144, "linkerd": 84, "kuma": 96, "consul": 84
    }  # fmt: skip


# Side by side -------------------------------------------------------------------------------------------------------


def test_the_nearest_rate_is_nearest_on_a_logarithmic_scale():
    rates = np.array([100, 200, 400])
    assert comparison.nearest(800, rates) == 400
    assert comparison.nearest(145, rates) == 200  # 145/100 is more than 200/145
    assert comparison.nearest(141, rates) == 100


def ours(verdict, reason=""):
    return pd.DataFrame(
        [["istio", "basic", 100, 0.5, "typical", 1.5, 1.2, 1.8, verdict, reason]],
        columns=["mesh", "configuration", "target_rps", "quantile", "estimand", "overhead_ratio", "ratio_low",
                 "ratio_high", "verdict", "reason"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "verdict", "direction", "reason"),
    [
        ({}, "slower", "agrees", ""),
        ({}, "faster", "disagrees", ""),
        ({}, "equivalent", "disagrees", ""),
        ({}, "undecided", "cannot tell", "our verdict is undecided"),
        ({"tier": "saturated"}, "slower", "cannot tell", "a published cell is saturated"),
        ({"ratio": 0.5}, "slower", "disagrees", ""),
        ({"ratio": 1.04}, "slower", "cannot tell", "published ratio within the 1.05"),
    ],
)
def test_directions_are_compared_only_where_both_have_one(small, change, verdict, direction, reason):
    effect = effects.effects_df(small).query("mesh == 'istio' and configuration == 'basic'").assign(**change)
    spread = pd.DataFrame({"source": ["doc"], "quantity": ["p50"], "largest_ratio": [1.05]})
    estimable = pd.DataFrame(columns=["source", "mesh", "configuration", "load", "quantile", "label"])
    (row,) = comparison.side_by_side_df(effect, estimable, spread, ours(verdict)).itertuples()
    assert row.direction == direction
    assert row.reason.startswith(reason) and bool(row.reason) == bool(reason)


def test_a_percentile_without_support_tells_nothing(small):
    effect = effects.effects_df(small).query("mesh == 'istio' and configuration == 'basic'")
    spread = pd.DataFrame(columns=["source", "quantity", "largest_ratio"])
    estimable = pd.DataFrame(
        [["doc", "baseline", "none", 100.0, 0.5, "n.e."]],
        columns=["source", "mesh", "configuration", "load", "quantile", "label"],
    )
    (row,) = comparison.side_by_side_df(effect, estimable, spread, ours("slower")).itertuples()
    assert (row.direction, row.reason) == ("cannot tell", "too few requests behind the published percentile")


def test_an_exploratory_comparison_of_ours_tells_nothing(small):
    effect = effects.effects_df(small).query("mesh == 'istio' and configuration == 'basic'")
    spread = pd.DataFrame(columns=["source", "quantity", "largest_ratio"])
    estimable = pd.DataFrame(columns=["source", "mesh", "configuration", "load", "quantile", "label"])
    frame = comparison.side_by_side_df(
        effect, estimable, spread, ours("undecided", "exploratory: interval only")
    )
    assert frame["reason"].tolist() == ["exploratory in our study"]


# All of it ----------------------------------------------------------------------------------------------------------


def test_the_findings_are_those_known_of_these_documents(published):
    """Counts that a second analysis of the documents, with other code, arrived at."""
    by_rule = {(audit.rule, audit.source): audit for audit in results.audits(published, cells.RATE_TIERS)}
    assert (by_rule["reprints", "elca2022"].checked, by_rule["reprints", "elca2022"].found) == (52, 22)
    (caption,) = by_rule["captions", "elca2022"].rows
    assert (caption["table"], caption["printed"], caption["against"]) == ("9.10", "Consul", "Kuma")
    assert by_rule["monotone", "elca2022"].found == 0
    assert by_rule["means", "elca2022"].found == 0
    assert (
        "p99.9 in 17 of 118 cells, p99.99 in 114 of 118 cells" in by_rule["sample-size", "elca2022"].statement
    )
    assert by_rule["rates", "elca2022"].found == 118 - 56
    assert (by_rule["cpu-limit", "elca2022"].checked, by_rule["cpu-limit", "elca2022"].found) == (40, 26)
    assert "20 of 32 at p99 (sign test, p = 0.22)" in by_rule["faster-than-none", "elca2022"].statement
    assert "19 of 28 at p99" in by_rule["tls-faster", "elca2022"].statement
    assert by_rule["closed-loop", "livewyer2024"].found == 24
    assert by_rule["claims", "osm2022"].found == 0
    assert by_rule["capacity", "osm2022"].found == 2


def test_every_audit_names_rows_that_are_printed(published):
    places = {
        (row.source, row.table, str(row.row))
        for name in ("latency", "resources", "oha", "osm", "multicluster")
        for row in published.printed[name].itertuples()
    }
    for audit in results.audits(published, cells.RATE_TIERS):
        for row in audit.rows:
            if row.get("row"):
                assert (audit.source, row["table"], str(row["row"])) in places
        assert 0 <= audit.found <= audit.checked
        assert audit.statement.endswith(".") and audit.question.endswith("?")
