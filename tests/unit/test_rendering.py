"""Manifests that a tool prints are kept, and made again only for another build, chart or set of arguments."""

import stat

import pytest

from meshperf.errors import MeshperfError
from meshperf.meshes import rendering
from meshperf.testbed.embedded.builds import Program

TOOL = Program("tool", "some", "example.org/tool")


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """A tool that prints where it runs, its arguments and how often it ran; its build can be changed."""
    script = tmp_path / "tool"
    script.write_text(
        '#!/bin/sh\n[ "$1" = fail ] && { echo "no such profile" >&2; exit 3; }\n'
        f'echo x >> {tmp_path}/runs\nprintf -- "---\\n---\\nin: $PWD\\nwith: $*\\n---\\nkind: Last\\n"\n'
    )
    script.chmod(0o755)
    build = {"key": "first"}
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(rendering, "build", lambda program, progress: script)
    monkeypatch.setattr(rendering, "build_key", lambda program: build["key"])
    return build, lambda: len((tmp_path / "runs").read_text().split())


def test_a_tool_is_run_once_for_the_same_build_and_arguments(tool):
    build, runs = tool
    first = rendering.render(TOOL, "manifest", "a")
    assert first == rendering.render(TOOL, "manifest", "a")
    assert [list(manifest) for manifest in first] == [["in", "with"], ["kind"]], (
        "empty documents are passed over"
    )
    assert (first[0]["with"], runs()) == ("manifest a", 1)
    rendering.render(TOOL, "manifest", "b")
    build["key"] = "second"
    rendering.render(TOOL, "manifest", "a")
    assert runs() == 3


def test_a_chart_is_looked_for_only_when_it_is_rendered(tool, tmp_path):
    asked = []

    def chart():
        asked.append(1)
        return tmp_path

    made = [rendering.render(TOOL, "template", ".", chart=chart) for _ in range(2)]
    assert made[0] == made[1] and made[0][0]["in"] == str(tmp_path)
    assert len(asked) == 1


def test_what_may_hold_keys_is_read_by_its_owner_only(tool, tmp_path):
    rendering.render(TOOL, "manifest", "a")
    (kept,) = (tmp_path / "cache" / "rendered").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_a_tool_that_fails_is_named_and_nothing_is_kept(tool, tmp_path):
    with pytest.raises(MeshperfError, match="tool fail now failed: no such profile"):
        rendering.render(TOOL, "fail", "now")
    assert not (tmp_path / "cache" / "rendered").exists()
