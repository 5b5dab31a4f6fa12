"""What is written is whole or not there: also when the disk is full or the writer is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meshperf import storage
from meshperf.errors import MeshperfError

PAGE = 4096
ROOM = 64 * PAGE


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with room for 256 KiB."""
    where = tmp_path / "small"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(where)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"mount is not permitted: {mounted.stderr.strip()}")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def everything_below(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


def test_a_file_replaces_another_whole(tmp_path):
    path = tmp_path / "deep" / "er" / "file"
    storage.write_file(path, b"one")
    storage.write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert everything_below(tmp_path) == ["deep", "deep/er", "deep/er/file"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_full_disk_keeps_the_old_file_and_says_what_is_needed(small_disk):
    path = small_disk / "file"
    storage.write_file(path, b"old")
    with pytest.raises(MeshperfError) as caught:
        storage.write_file(path, bytes(2 * ROOM))
    sentence = str(caught.value)
    assert str(path) in sentence
    assert f"{2 * ROOM} bytes" in sentence
    assert "nothing was kept half-written" in sentence
    assert path.read_bytes() == b"old"
    assert everything_below(small_disk) == ["file"]


def test_a_full_disk_leaves_no_part_of_a_directory(small_disk):
    target = small_disk / "a" / "run"
    files = {"small": b"x", "large": bytes(2 * ROOM)}
    with pytest.raises(MeshperfError) as caught:
        storage.write_directory(target, files, small_disk)
    assert re.search(rf"{target} .*disk is full.*nothing was kept.*{2 * ROOM + 1} bytes", str(caught.value))
    assert everything_below(small_disk) == []
    # The room is free again: what fits can be written.
    storage.write_directory(target, {"small": b"x"}, small_disk)
    assert everything_below(small_disk) == ["a", "a/run", "a/run/small"]


def test_a_directory_is_never_overwritten(tmp_path):
    target = tmp_path / "run"
    storage.write_directory(target, {"file": b"first"}, tmp_path)
    with pytest.raises(MeshperfError, match="never overwritten"):
        storage.write_directory(target, {"file": b"second"}, tmp_path)
    assert (target / "file").read_bytes() == b"first"
    assert everything_below(tmp_path) == ["run", "run/file"]


def test_what_is_in_the_way_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MeshperfError, match=re.escape(str(tmp_path / "file" / "run"))):
        storage.write_file(tmp_path / "file" / "run", b"x")


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        storage.write_directory(tmp_path / "run", {"file": b"x"}, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        storage.write_file(tmp_path / "file", b"x")
    assert everything_below(tmp_path) == []


def test_every_file_is_flushed_before_the_rename(tmp_path, monkeypatch):
    events = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_sync(descriptor)

    def rename(self, target):
        events.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    storage.write_directory(tmp_path / "run", {"one": b"1", "two": b"2"}, tmp_path)
    before = events[: events.index("rename")]
    assert {"one", "two"} <= set(before)
    assert any(name.startswith(storage.HIDDEN) for name in before), "the hidden directory itself"
    assert events[-1] == tmp_path.name, "the directory that the name was entered into"


WRITER = """
import os, sys
from pathlib import Path
from meshperf import storage
real = os.fsync
def pause(descriptor):
    print("writing", flush=True)
    sys.stdin.readline()
    real(descriptor)
os.fsync = pause
storage.write_directory(Path(sys.argv[1]) / "run", {"file": b"x"}, Path(sys.argv[1]))
"""


@pytest.fixture
def paused_writer(tmp_path):
    """A process in the middle of writing a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def test_leftovers_are_removed_when_their_writer_is_dead(tmp_path, paused_writer):
    hidden = everything_below(tmp_path)
    assert hidden
    assert all(name.startswith(storage.HIDDEN) for name in hidden)
    assert storage.remove_leftovers(tmp_path) == [], "the writer lives"
    assert everything_below(tmp_path) == hidden
    paused_writer.send_signal(signal.SIGKILL)
    paused_writer.wait()
    assert [path.name for path in storage.remove_leftovers(tmp_path)] == hidden[:1]
    assert everything_below(tmp_path) == []


def test_a_directory_is_held_by_one_process(tmp_path):
    program = (
        "import sys, pathlib\nfrom meshperf import storage\n"
        "with storage.exclusive(pathlib.Path(sys.argv[1]), 'measuring in'): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(MeshperfError, match=f"another process is measuring in {tmp_path}"),
            storage.exclusive(tmp_path, "measuring in"),
        ):
            pass
    finally:
        holder.kill()
        holder.communicate()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            with storage.exclusive(tmp_path, "measuring in"):
                return
        except MeshperfError:
            time.sleep(0.01)
    pytest.fail("a killed process keeps the directory")
