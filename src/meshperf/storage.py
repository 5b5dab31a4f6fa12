"""Files that are whole or not there: written under a hidden name, flushed to the disk, then renamed.

A writer holds a lock on what it is writing, which the kernel releases when the writer dies, however it dies:
what is hidden and not locked is the leftover of a dead writer.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from meshperf.errors import MeshperfError

#: Names of what is being written start so.
HIDDEN = ".writing-"

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class InUse(MeshperfError):
    """Another process holds the directory."""


def write_file(path: Path, content: bytes) -> None:
    """Write a file, or replace one, so that it is never seen half-written.

    Raises
    ------
    MeshperfError
        If the disk is full or does not allow it. Nothing is left of the new content then.
    """
    with _sentences(path, len(content)):
        _make_directories(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=HIDDEN, dir=path.parent)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.fchmod(descriptor, 0o644)
            _write_all(descriptor, content)
            os.rename(name, path)  # noqa: PTH104  (Path.rename would hide that nothing is copied)
            _sync_directory(path.parent)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108
            raise
        finally:
            os.close(descriptor)


def write_directory(path: Path, files: Mapping[str, bytes], top: Path) -> None:
    """Write a directory with all of its files, so that it is never seen incomplete.

    Parameters
    ----------
    path : Path
        The new directory, somewhere below `top`.
    files : mapping of str to bytes
        Content by file name.
    top : Path
        An existing directory on the same file system, where the hidden directory is made.

    Raises
    ------
    MeshperfError
        If `path` exists, or the disk is full or does not allow it. Nothing is left of the new content then.
    """
    if path.exists():
        raise MeshperfError(
            f"{path} exists and is never overwritten: remove nothing, choose another campaign id"
        )
    with _sentences(path, sum(len(content) for content in files.values())):
        hidden = Path(tempfile.mkdtemp(prefix=HIDDEN, dir=top))
        lock = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            hidden.chmod(0o755)
            for name, content in files.items():
                descriptor = os.open(hidden / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                try:
                    _write_all(descriptor, content)
                finally:
                    os.close(descriptor)
            os.fsync(lock)
            _make_directories(path.parent)
            hidden.rename(path)
            _sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        finally:
            os.close(lock)


def remove_leftovers(top: Path) -> list[Path]:
    """Remove what dead writers left below a directory, and return it. What a living one is writing stays."""
    removed = []
    found = [
        Path(directory, name)
        for directory, directories, files in os.walk(top)
        for name in (*directories, *files)
        if name.startswith(HIDDEN)
    ]
    for path in sorted(found):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            removed.append(path)
        finally:
            os.close(descriptor)
    return removed


@contextlib.contextmanager
def exclusive(directory: Path, what: str) -> Iterator[None]:
    """Hold a directory for this process alone; released when the process ends, however it ends.

    Raises
    ------
    InUse
        If another process holds it; `what` says what is being done there.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(
                f"another process is {what} {directory}: wait until it has ended, or end it"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _make_directories(path: Path) -> None:
    """Make a directory and its parents, each entered into its parent on the disk."""
    if path.is_dir():
        return
    _make_directories(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _sentences(path: Path, n_bytes: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise MeshperfError(
                f"{path} could not be written because the disk is full: nothing was kept half-written, "
                f"free at least {n_bytes} bytes there and run the same command again"
            ) from error
        raise MeshperfError(
            f"{path} could not be written ({error.strerror or error}): nothing was kept half-written, "
            "make the directory writable and run the same command again"
        ) from error
