"""What holds for the schedule of every study."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support import make_study

from meshperf.design import BASELINE, Arm, RunKey, run_keys, schedule

_CONFIGURATIONS = st.sampled_from([["basic"], ["mtls"], ["basic", "mtls"], ["mtls", "basic"]])
_RATES = st.lists(st.integers(100, 100_000), min_size=1, max_size=6, unique=True)
STUDIES = st.builds(
    lambda configurations, rates, blocks, seed: make_study(
        arms=[{"mesh": "istio", "configurations": configurations}],
        target_rps=rates,
        blocks=blocks,
        seed=seed,
    ),
    _CONFIGURATIONS,
    _RATES,
    st.integers(1, 12),
    st.integers(0, 2**63 - 1),
)
MAKEUP_BLOCKS = st.integers(0, 4)


@settings(max_examples=60, deadline=None)
@given(STUDIES, MAKEUP_BLOCKS)
def test_every_block_has_two_baselines_and_each_arm_once(study, makeup_blocks):
    deployments = schedule(study, makeup_blocks)
    expected = Counter([(BASELINE, 1), (BASELINE, 2), *((arm, 1) for arm in study.arms_expanded)])
    by_block = {}
    for deployment in deployments:
        by_block.setdefault(deployment.block, []).append((deployment.arm, deployment.deployment))
    assert list(by_block) == list(range(1, study.blocks + makeup_blocks + 1))
    assert all(Counter(arms) == expected for arms in by_block.values())


@settings(max_examples=60, deadline=None)
@given(STUDIES, MAKEUP_BLOCKS)
def test_every_deployment_has_all_rates_once(study, makeup_blocks):
    for deployment in schedule(study, makeup_blocks):
        assert sorted(deployment.target_rps) == sorted(study.target_rps)


@settings(max_examples=60, deadline=None)
@given(STUDIES, MAKEUP_BLOCKS, MAKEUP_BLOCKS)
def test_makeup_blocks_never_change_earlier_ones(study, few, more):
    few, more = sorted((few, more))
    shorter = schedule(study, few)
    assert schedule(study, more)[: len(shorter)] == shorter


@settings(max_examples=60, deadline=None)
@given(STUDIES, MAKEUP_BLOCKS)
def test_order_counts_deployments_and_keys_are_unique(study, makeup_blocks):
    deployments = schedule(study, makeup_blocks)
    assert [deployment.order for deployment in deployments] == list(range(1, len(deployments) + 1))
    keys = run_keys(deployments)
    assert len(set(keys)) == len(keys) == len(deployments) * len(study.target_rps)


_NAMES = st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True)


@given(st.builds(RunKey, _NAMES, _NAMES, st.integers(1, 10**7), st.integers(1, 99), st.integers(1, 2)))
def test_a_run_key_is_read_back_from_its_path(key):
    assert RunKey.parse(key.relative_path()) == key
    assert RunKey.parse(f"/data/raw/x/{key.relative_path()}") == key
    assert replace(key, block=key.block % 99 + 1).relative_path() != key.relative_path()
    assert key.arm == Arm(key.mesh, key.configuration)
