"""The parts that every figure and table is made of, against values worked out by hand."""

import colorsys
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from meshperf.report import floats, formats, plots, style
from meshperf.report.curves import arm_curves

NARROW = "\N{NARROW NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0, "0.00"),
        (1.2345, "1.23"),
        (0.012345, "0.0123"),
        (9.996, "10.0"),  # rounds up into another decade
        (99.96, "100"),
        (123456, f"123{NARROW}456"),
        (-0.5, f"{MINUS}0.500"),
        (float("nan"), "–"),
        (None, "–"),
        (float("inf"), "–"),
    ],
)
def test_three_significant_digits(value, printed):
    assert formats.significant(value) == printed


@pytest.mark.parametrize(
    ("args", "scale", "sign", "printed"),
    [
        ((0.0012345, 0.0011, 0.0014), 1e3, False, "1.23 [1.10, 1.40]"),
        ((1.2345, float("nan"), float("nan")), 1, False, "1.23"),
        # half the width is 0.018: two digits of it leave three decimals
        ((0.0032, -0.0144, 0.0218), 1, True, f"+0.003 [{MINUS}0.014, 0.022]"),
        # an estimate is not printed more finely than its interval is wide
        ((12.34, 2.0, 23.0), 1, False, "12 [2, 23]"),
        ((-0.0001, -0.5, 0.5), 1, True, f"0.00 [{MINUS}0.50, 0.50]"),
        ((2.0, 2.0, 2.0), 1, False, "2.00 [2.00, 2.00]"),
    ],
)
def test_an_interval_has_the_decimals_of_its_estimate(args, scale, sign, printed):
    assert formats.with_interval(*args, scale=scale, sign=sign) == printed


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [(5, "5 s"), (2.5, "2.5 s"), (119, "119 s"), (360, "6 min"), (7200, "2 h"), (9000, "2.5 h")],
)
def test_duration(seconds, printed):
    assert formats.duration(seconds) == printed


def test_p_values_are_never_zero():
    assert [formats.p_value(p) for p in (0.0213, 0.00137, 1e-9, float("nan"))] == [
        "0.021",
        "0.0014",
        "<0.0001",
        "–",
    ]


def test_units_of_print():
    assert formats.milliseconds(0.0012) == "1.20"
    assert formats.millicores(0.0325) == "32.5"
    assert formats.mebibytes(60 * 2**20) == "60.0"
    assert formats.span(64.1, 65.3) == "64.1 to 65.3"
    assert formats.span(122.1, 122.4) == "122"
    assert formats.percent(0.95) == "95 %"
    assert formats.percent(0) == "0 %"
    assert formats.percent(0.001) == "0.10 %"
    assert [formats.level(share) for share in (0.05, 0.95, 0.999)] == ["5 %", "95 %", "99.9 %"]


def test_words_are_joined_and_counted():
    assert formats.listing([]) == ""
    assert formats.listing(["a"]) == "a"
    assert formats.listing(["a", "b", "c"]) == "a, b and c"
    assert formats.plural(1, "run") == "1 run"
    assert formats.plural(1200, "run") == f"1{NARROW}200 runs"


def test_grid_table_aligns_numbers_right_and_keeps_lines_of_a_cell():
    frame = pd.DataFrame({"Solution": ["no mesh", "Istio"], "p50": ["1.0\n[0.9, 1.1]", "n.e."]})
    lines = floats.grid_table(frame).splitlines()
    assert all(len(line) == len(lines[0]) for line in lines)
    assert lines[2].startswith("+:=") and lines[2].endswith("=:+")
    assert lines[3].split("|")[2].strip() == "1.0\\"
    assert lines[4].split("|")[2].strip() == "[0.9, 1.1]"


def test_a_mesh_keeps_its_hue_and_configurations_its_lightness():
    for mesh in style.MESHES:
        if mesh in ("baseline", "osm"):  # black and grey have no hue
            continue
        hues = [
            colorsys.rgb_to_hls(*to_rgb(style.arm_colour(mesh, name.replace("-N", "-5000"))))[0]
            for name in style.CONFIGURATIONS
        ]
        assert max(hues) - min(hues) < 0.02, mesh
    basic, mtls = (to_rgb(style.arm_colour("istio", name)) for name in ("basic", "mtls"))
    assert abs(_grey(basic) - _grey(mtls)) > 0.1


def test_a_configuration_with_a_number_is_printed_with_it_and_sorted_by_it():
    assert style.arm_label("istio", "authz-100") == "Istio mTLS + 100 rules"
    assert style.configuration_meaning("authz-1").startswith("as mTLS, and 1 authorisation rule,")
    assert style.configuration_label("authz-0") == "authz-0", "there is no such configuration"
    arms = [("istio", name) for name in ("authz-1000", "authz-9", "jwt-opa", "mtls", "authz-100")]
    assert [name for _, name in style.arm_order(arms)] == [
        "mtls",
        "jwt-opa",
        "authz-9",
        "authz-100",
        "authz-1000",
    ]
    few, many = (to_rgb(style.arm_colour("istio", f"authz-{n}")) for n in (1, 5000))
    assert _grey(few) < _grey(many) < 1


def test_meshes_differ_in_marker_and_dash_not_in_colour_alone():
    styles = list(style.MESHES.values())
    assert len({mesh.marker for mesh in styles}) == len(styles)
    assert len({mesh.dash for mesh in styles}) == len(styles)
    for one, other in itertools.combinations(styles, 2):
        assert math.dist(to_rgb(one.colour), to_rgb(other.colour)) > 0.15, (one.label, other.label)


def test_lines_stand_out_from_white():
    for mesh in style.MESHES.values():
        assert _contrast_with_white(to_rgb(mesh.colour)) > 2.0, mesh.label


def test_arms_are_ordered_the_same_everywhere():
    arms = [("zeta", "basic"), ("istio", "mtls"), ("baseline", "none"), ("kuma", "basic"), ("istio", "basic")]
    assert style.arm_order(arms) == [
        ("baseline", "none"),
        ("istio", "basic"),
        ("istio", "mtls"),
        ("kuma", "basic"),
        ("zeta", "basic"),
    ]
    assert style.arm_label("baseline", "none") == "no mesh"
    assert style.arm_label("istio", "mtls") == "Istio mTLS"


def histograms(counts_by_block, edges_s=(0.001, 0.002, 0.004, 0.008), arm=("istio", "basic")):
    rows = [
        (*arm, 100, block, 1, edges_s[i], edges_s[i + 1], count)
        for block, counts in enumerate(counts_by_block, 1)
        for i, count in enumerate(counts)
    ]
    names = ["mesh", "configuration", "target_rps", "block", "deployment", "bin_low_s", "bin_high_s", "count"]
    return pd.DataFrame(rows, columns=names)


def test_curve_is_the_mean_of_run_curves_whatever_their_size():
    (curve,) = arm_curves(histograms([(1, 1, 0), (0, 100, 300)]))
    assert curve.latency_s == pytest.approx([0.001, 0.002, 0.004, 0.008])
    assert curve.mean_cdf == pytest.approx([0, 0.25, (1 + 0.25) / 2, 1])
    # between 2 and 4 ms the mean CDF rises from 0.25 to 0.625: 0.4375 is half-way in log latency
    assert curve.quantile(0.4375) == pytest.approx(0.002 * math.sqrt(2))


def test_line_ends_where_the_tail_is_too_thin():
    one = [9000, 900, 100]
    (curve,) = arm_curves(histograms([one] * 4))
    assert curve.last_estimable() == pytest.approx(
        0, abs=1e-12
    )  # 400 requests in the last bin, alike in all runs
    (curve,) = arm_curves(histograms([one, (9900, 95, 5), (9900, 98, 2), (9900, 99, 1)]))
    # 108 requests beyond 4 ms, but 100 of them in one run: their dispersion leaves fewer than ten
    assert curve.last_estimable() >= 108 / 40000


def test_histograms_of_two_rates_are_refused():
    frame = pd.concat([histograms([(1, 1, 1)]), histograms([(1, 1, 1)]).assign(target_rps=200)])
    with pytest.raises(ValueError, match=r"exactly one target_rps.*100.*200"):
        arm_curves(frame)


def test_noise_of_the_shift_function_is_the_distance_of_the_two_baselines():
    blocks = pd.DataFrame(
        {
            "mesh": "baseline",
            "configuration": "none",
            "quantile": [0.5, 0.5, 0.5, 0.9, 0.9],
            "block": [1, 2, None, 1, 2],
            "ratio": [1.1, 1.0, 1.05, 0.8, 1.0],
        }
    )
    # |log ratios| of the blocks are log 1.1 and 0; their 95th percentile lies 95 % of the way
    noise = plots.comparisons._noise(blocks)
    assert noise[0.5] == pytest.approx(1.1**0.95)
    assert noise[0.9] == pytest.approx(1.25**0.95)


def test_column_of_a_quantile():
    assert [plots.quantile_column(q) for q in (0.5, 0.9, 0.99, 0.999)] == [
        "p50_s",
        "p90_s",
        "p99_s",
        "p999_s",
    ]


@pytest.mark.parametrize(
    ("low", "high"), [(0.9, 1.1), (0.8, 2.4), (0.95, 4.4), (0.9, 6.5), (0.3, 20), (0.5, 900)]
)
def test_ticks_of_ratios_are_few_and_inside(low, high):
    ticks = plots.axes._ratio_ticks(low, high)
    assert 3 <= len(ticks) <= 9
    assert 1 in ticks
    assert all(low <= tick <= high for tick in ticks)


def _grey(colour):
    return float(np.dot(colour, (0.2126, 0.7152, 0.0722)))


def _contrast_with_white(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 1.05 / (_grey(linear) + 0.05)
