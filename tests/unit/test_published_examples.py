"""Worked examples of papers, books and R's manuals: data and results as they were published.

Values are rounded as in the source, and compared to that many digits.
"""

import numpy as np
import pytest
import scipy.stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.weightstats import ttost_paired

from meshperf.statistics.baselines import clopper_pearson
from meshperf.statistics.bootstrap import block_interval, block_weights, far_blocks
from meshperf.statistics.checks import prediction_interval
from meshperf.statistics.components import variance_components
from meshperf.statistics.effect import difference_interval, paired_t_p, tost
from meshperf.statistics.multiplicity import benjamini_hochberg, holm
from meshperf.statistics.slopes import theil_sen

#: Student (1908), "The probable error of a mean", Biometrika 6, 1-25: hours of sleep gained by ten patients with two
#: drugs; R's data set ``sleep``.
SLEEP = (
    np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]),
    np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]),
)
#: Efron & Tibshirani (1993), "An Introduction to the Bootstrap", table 2.1: survival of seven treated mice, days.
MICE = np.array([94.0, 197, 16, 38, 99, 141, 23])


def test_students_sleep_data_as_in_r():
    # t.test(extra ~ group, data = sleep, paired = TRUE), in Meys & de Vries (2012), "R for Dummies": t = -4.0621,
    # df = 9, p-value = 0.002833, 95 percent confidence interval -2.4598858 -0.7001142, mean of the differences -1.58.
    first, second = SLEEP
    interval = difference_interval(first, second)
    assert interval.estimate == pytest.approx(-1.58)
    assert (interval.low, interval.high) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)
    assert interval.estimate / interval.se == pytest.approx(-4.0621, abs=5e-5)
    assert paired_t_p(first - second) == pytest.approx(0.002833, abs=5e-7)


def test_equivalence_on_students_sleep_data_is_statsmodels_paired_tost():
    first, second = SLEEP
    for margin in (1.0, 10.0):
        limit = np.log1p(margin)
        expected, _, _ = ttost_paired(first / 2, second / 2, -limit, limit)
        assert tost((first - second) / 2, margin).p_value == pytest.approx(expected)


def test_the_ideal_bootstrap_of_efron_and_tibshiranis_mice():
    # Table 2.1, last column (infinitely many resamples): standard error 23.36 of the mean, 37.83 of the median. The
    # enumeration of all resamples reaches it exactly.
    weights, probabilities = block_weights(7)

    def standard_error(values):
        mean = probabilities @ values
        return np.sqrt(probabilities @ (values - mean) ** 2)

    copies = np.round(weights * 7).astype(int)
    medians = np.array([np.median(np.repeat(MICE, row)) for row in copies])
    assert standard_error(weights @ MICE) == pytest.approx(23.36, abs=0.005)
    assert standard_error(medians) == pytest.approx(37.83, abs=0.005)


def test_the_usual_standard_error_of_efron_and_tibshiranis_mice():
    # Section 2.1: 25.24 for the mean by the textbook formula, which the factor √(r/(r − 1)) turns 23.36 into.
    interval = block_interval(lambda weights: weights @ MICE, 7)
    assert interval.estimate == pytest.approx(86.86, abs=0.005)
    assert interval.se == pytest.approx(25.24, abs=0.005)


def test_hahn_and_meekers_prediction_interval():
    # Hahn & Meeker (1991), "Statistical Intervals", chapter 4, with the five units of chapter 1: mean 50.10,
    # s = 1.31; 95 % prediction interval of one further unit 50.10 ± 3.04 · 1.31 = [46.1, 54.1].
    d = np.array([51.4, 49.5, 48.7, 49.3, 51.6])
    interval = prediction_interval(d)
    assert np.log(interval.estimate) == pytest.approx(50.10)
    assert interval.sd == pytest.approx(1.31, abs=0.005)
    assert np.log([interval.low, interval.high]) == pytest.approx([46.1, 54.1], abs=0.05)


def test_predictions_are_statsmodels_regression_on_a_constant():
    d = np.log([1.21, 1.08, 1.15, 1.19, 1.02, 1.11])
    frame = OLS(d, np.ones(6)).fit().get_prediction(np.ones(1)).summary_frame(alpha=0.1)
    interval = prediction_interval(d, confidence=0.9)
    expected = np.exp([frame["obs_ci_lower"].iloc[0], frame["obs_ci_upper"].iloc[0]])
    assert (interval.low, interval.high) == pytest.approx(tuple(expected))


def test_the_dyestuff_as_in_lme4():
    # Davies & Goldsmith (1972), "Statistical Methods in Research and Production", table 6.1: yield of six batches. lme4
    # (Bates et al. 2015), lmer(Yield ~ 1 | Batch, Dyestuff): variances 1764 of batches, 2451 of the residual.
    yields = [
        [1545, 1440, 1440, 1520, 1580],
        [1540, 1555, 1490, 1560, 1495],
        [1595, 1550, 1605, 1510, 1560],
        [1445, 1440, 1595, 1465, 1545],
        [1595, 1630, 1515, 1635, 1625],
        [1520, 1455, 1450, 1480, 1445],
    ]
    parts = variance_components(yields, 0.0)
    assert parts.block == pytest.approx(1764, abs=0.5)
    assert parts.deployment == pytest.approx(2451, abs=0.5)


def test_mendels_peas_as_in_r():
    # binom.test(682, 925), the example of R's manual after Conover (1971, p. 97): 0.7076683 0.7654066.
    assert clopper_pearson(682, 925) == pytest.approx((0.7076683, 0.7654066), abs=5e-8)


def test_benjamini_and_hochbergs_fifteen_endpoints():
    # Benjamini & Hochberg (1995), section 3.2: of 15 hypotheses Bonferroni's procedure rejects three at 0.05 and theirs
    # four. Holm's step-down stops after three, because 12 · 0.0095 = 0.114.
    p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590,
        1.0000,
    ]  # fmt: skip
    assert (benjamini_hochberg(p) <= 0.05).sum() == 4
    assert (holm(p) <= 0.05).sum() == 3
    assert holm(p)[3] == pytest.approx(0.114)
    # 15 · 0.0095/4
    assert benjamini_hochberg(p)[3] == pytest.approx(0.035625)


def test_hollander_and_wolfes_cloud_seeding():
    # Hollander & Wolfe (1999), "Nonparametric Statistical Methods", chapter 9: ratios of rainfall in five years.
    # Of the ten slopes -0.0575 and -0.055 are in the middle.
    slope = theil_sen([1, 2, 3, 4, 5], [1.26, 1.27, 1.12, 1.16, 1.03])
    assert slope == pytest.approx(-0.05625)


def test_iglewicz_and_hoaglins_modified_z_score():
    # Iglewicz & Hoaglin (1993): 0.6745 (x − median)/MAD beyond 3.5. Median 5, MAD 1: the limit is 5.189 away.
    assert far_blocks([4, 5, 6, 5.18 + 5, 4, 5, 6]).tolist() == [False] * 7
    assert far_blocks([4, 5, 6, 5.20 + 5, 4, 5, 6]).tolist() == [False] * 3 + [True] + [False] * 3
    assert scipy.stats.norm.ppf(0.75) == pytest.approx(0.6745, abs=5e-5)
