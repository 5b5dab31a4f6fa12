"""Mistakes that analyses of this kind make: each is put into the code, and a named test of the suite must notice it.

The module is changed in memory only: all of ``meshperf`` and the test's module are imported afresh with the changed
source, and the test is called as it is.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The list of section 8.5 of the specification of the statistics.
REQUIRED = {
    "ddof 0",
    "1.96 for t",
    "missing √(r/(r−1))",
    "pooling requests",
    "unpaired weights",
    "p without +1",
    "percentile off by 100",
    "milliseconds for seconds",
}


@dataclass(frozen=True)
class Mutation:
    """A mistake, and the test that notices it.

    `old` occurs once in the module and is replaced by `new`; an empty `old` appends `new` to the module.
    """

    name: str
    module: str
    old: str
    new: str
    test: str
    arguments: tuple = ()


STATISTICS = "tests/unit/test_statistics.py"
DISTANCES = "tests/unit/test_distances.py"
PLANNING = "tests/unit/test_planning.py"
CHECKS = "tests/unit/test_checks.py"
BASELINES = "tests/unit/test_baselines.py"
PUBLISHED = "tests/unit/test_published_examples.py"
VALIDATION = "tests/statistical/test_validation.py"
FORTIO = "tests/unit/test_fortio.py"

MUTATIONS = [
    Mutation(
        "ddof 0", "statistics.bootstrap", "values.std(ddof=1)", "values.std(ddof=0)",
        f"{STATISTICS}::test_the_typical_interval_is_scipys_t_interval",
    ),
    Mutation(
        "ddof 0 in the shift function", "statistics.effect", "std(axis=0, ddof=1)", "std(axis=0, ddof=0)",
        f"{DISTANCES}::test_the_shift_function_is_the_typical_ratio_at_each_quantile",
    ),
    Mutation(
        "ddof 0 in predictions", "statistics.checks", "d.std(ddof=1)", "d.std(ddof=0)",
        f"{CHECKS}::test_the_prediction_interval_by_hand",
    ),
    Mutation(
        "ddof 0 in the dispersion of the tail", "statistics.estimability", "exceeding.var(ddof=1)",
        "exceeding.var(ddof=0)", f"{STATISTICS}::test_estimability_by_hand",
    ),
    Mutation(
        "ddof 0 in planning", "statistics.power", "d.std(ddof=1)", "d.std(ddof=0)",
        f"{PLANNING}::test_the_upper_limit_of_a_pilots_spread",
    ),
    Mutation(
        "1.96 for t", "statistics.bootstrap", "return float(stdtrit(n_blocks - 1, 0.5 + confidence / 2))",
        "return 1.96", f"{STATISTICS}::test_the_typical_interval_is_scipys_t_interval",
    ),
    Mutation(
        "t with r instead of r − 1 degrees of freedom", "statistics.bootstrap", "stdtrit(n_blocks - 1,",
        "stdtrit(n_blocks,", f"{PUBLISHED}::test_students_sleep_data_as_in_r",
    ),
    Mutation(
        "missing √(r/(r−1))", "statistics.bootstrap", " * n_blocks / (n_blocks - 1)", "",
        f"{STATISTICS}::test_for_a_mean_the_block_bootstrap_is_students_interval", (5,),
    ),
    Mutation(
        "pooling requests", "statistics.quantiles", "cdf = np.cumsum(array, axis=-1) / totals",
        "cdf = np.cumsum(array, axis=-1) / totals.mean()",
        f"{STATISTICS}::test_a_run_with_more_requests_weighs_no_more",
    ),
    Mutation(
        "pooled requests resampled", "statistics.effect", "",
        """
def merged_ratio_interval(cdf, baseline_cdf, edges_s, q, *, rng=None, **options):
    from meshperf.statistics.simulate import request_bootstrap_interval
    low, high = request_bootstrap_interval(cdf, baseline_cdf, 30_000, q, rng, 50)
    return Interval((low * high) ** 0.5, low, high, 1.0, len(cdf), 0.95, "requests")
""",
        f"{VALIDATION}::test_resampling_requests_covers_next_to_nothing",
    ),
    Mutation(
        "unpaired weights", "statistics.effect",
        """            best_log_quantile(weights @ high, high_edges_s, q)
            - best_log_quantile(weights @ low, low_edges_s, q)""",
        """            best_log_quantile(weights @ high, high_edges_s, q)
            - best_log_quantile(weights[::-1] @ low, low_edges_s, q)""",
        f"{STATISTICS}::test_the_bootstrap_standard_error_is_scipys_times_the_small_sample_factor",
    ),
    Mutation(
        "unpaired differences", "statistics.effect", "mean_interval(arm - baseline,",
        "mean_interval(arm - baseline[::-1],", f"{STATISTICS}::test_differences_are_paired",
    ),
    Mutation(
        "p without +1", "statistics.permutation", "p = float((values >= values[0] - _TIE).mean())",
        "p = float((values[1:] >= values[0] - _TIE).mean())",
        f"{DISTANCES}::test_too_many_relabellings_are_drawn_and_counted_with_the_real_one",
    ),
    Mutation(
        "p without +1 in the gate", "statistics.baselines", "(statistics >= statistics[0] - _TIE).mean()",
        "(statistics[1:] >= statistics[0] - _TIE).mean()",
        f"{BASELINES}::test_many_blocks_are_flipped_at_random_with_a_seed_only",
    ),
    Mutation(
        "percentile off by 100", "statistics.quantiles", "index = (cdf < q - _SLACK).sum(axis=-1)",
        "index = (cdf < q / 100 - _SLACK).sum(axis=-1)", f"{STATISTICS}::test_log_quantile_by_hand",
    ),
    Mutation(
        "a percentage taken for a quantile", "statistics.quantiles", "if not 0 < q < 1:", "if not 0 < q < 100:",
        f"{STATISTICS}::test_mismatched_grids_and_shares_beyond_one_are_refused",
    ),
    Mutation(
        "milliseconds for seconds", "loadgen.access_log", 'dtype="S24").astype(float)',
        'dtype="S24").astype(float) * 1000', f"{FORTIO}::test_the_access_log_agrees_with_the_result",
    ),
    Mutation(
        "the quantile of the neighbouring bin", "statistics.quantiles", "return edges_s[index], edges_s[index + 1]",
        "return edges_s[index - 1], edges_s[index]", f"{STATISTICS}::test_log_quantile_by_hand",
    ),
    Mutation(
        "Holm without its running maximum", "statistics.multiplicity",
        "np.maximum.accumulate(p[order] * factors)", "p[order] * factors",
        f"{STATISTICS}::test_holm_by_hand_and_by_statsmodels",
    ),
    Mutation(
        "relabelling across blocks", "statistics.permutation",
        "picked[np.arange(len(part))[:, None], np.arange(r) * size + part] = 1 / r",
        "picked[np.arange(len(part))[:, None], (np.arange(r) * size + part * r) % (r * size)] = 1 / r",
        f"{DISTANCES}::test_with_two_baselines_the_test_is_brute_force",
    ),
    Mutation(
        "one of the two one-sided tests", "statistics.effect", "for sign in (1, -1)]", "for sign in (-1, -1)]",
        f"{DISTANCES}::test_equivalence_is_statsmodels_tost", (0.1,),
    ),
    Mutation(
        "baselines mixed before their quantile is taken", "statistics.effect",
        """    return best_log_quantile(cdf_matrix(cdf), edges_s, q) - _baseline_log_quantiles(
        cdf, baseline_cdfs, edges_s, q
    ).mean(axis=1)""",
        """    mixed = np.asarray(baseline_cdfs)
    mixed = mixed.mean(axis=1) if mixed.ndim == 3 else mixed
    return best_log_quantile(cdf_matrix(cdf), edges_s, q) - best_log_quantile(mixed, edges_s, q)""",
        f"{STATISTICS}::test_two_baselines_that_differ_by_a_factor_do_not_bias_the_typical_ratio",
    ),
]  # fmt: skip


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from changed source."""

    def __init__(self, mutation: Mutation | None) -> None:
        self.mutation = mutation

    def find_spec(self, name, path, target=None):
        if self.mutation is None or name != f"meshperf.{self.mutation.module}":
            return None
        return importlib.util.spec_from_loader(name, self)

    def exec_module(self, module):
        path = ROOT / "src" / Path(*module.__name__.split(".")).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        if self.mutation.old:
            assert source.count(self.mutation.old) == 1, f"{path} has changed: adapt the mutation"
            source = source.replace(self.mutation.old, self.mutation.new)
        else:
            source += self.mutation.new
        module.__file__ = str(path)
        exec(compile(source, str(path), "exec"), module.__dict__)


def run(mutation: Mutation, changed: bool) -> None:
    """Call the test on a package that is imported afresh, with or without the change."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "meshperf"}
    for name in kept:
        del sys.modules[name]
    finder = _Changed(mutation if changed else None)
    sys.meta_path.insert(0, finder)
    try:
        path, _, function = mutation.test.partition("::")
        spec = importlib.util.spec_from_file_location(f"mutated_{Path(path).stem}", ROOT / path)
        tests = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tests)
        getattr(tests, function)(*mutation.arguments)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == "meshperf"]:
            del sys.modules[name]
        sys.modules.update(kept)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mistake_is_noticed(mutation):
    # pytest.fail, by which pytest.raises complains, is no Exception.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(mutation, changed=True)


@pytest.mark.parametrize("test", sorted({m.test for m in MUTATIONS}))
def test_without_the_mistake_nothing_is_noticed(test):
    run(next(m for m in MUTATIONS if m.test == test), changed=False)


def test_the_list_is_complete():
    assert {mutation.name for mutation in MUTATIONS} >= REQUIRED
