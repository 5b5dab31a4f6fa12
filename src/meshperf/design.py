"""The design: from a study to a seeded schedule of randomised complete blocks.

A block has a fresh deployment of every arm and two of the baseline, in an order drawn uniformly; the target
RPS of a deployment are drawn the same way. Two baselines give an A/A control in every block and, with few
blocks, enough relabellings for a permutation test (Dunnett 1955 on the allocation; Abedi and Brecht 2017,
"Conducting repeatable experiments in highly variable cloud computing environments", on interleaving).

The draws are Fisher-Yates shuffles (Durstenfeld 1964, algorithm 235) fed with the SHA-256 of "<purpose>,
<seed>, <block>, ...": the same on every machine, in every process and with every version of Python and NumPy,
neither of which promises that for its own shuffles.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from meshperf.study import Study

_T = TypeVar("_T")

#: Deployments of the baseline in a block.
N_BASELINES = 2


@dataclass(frozen=True, order=True)
class Arm:
    """A mesh in one configuration."""

    mesh: str
    configuration: str

    def __str__(self) -> str:
        return f"{self.mesh}/{self.configuration}"


#: The cluster without a mesh.
BASELINE = Arm("baseline", "none")


@dataclass(frozen=True, order=True)
class Cell:
    """What runs repeat: an arm under one load. The connections of imported runs are not the study's choice: None."""

    arm: Arm
    target_rps: int
    connections: int | None


@dataclass(frozen=True, order=True)
class RunKey:
    """The identity of a run.

    Parameters
    ----------
    mesh, configuration : str
        The arm.
    target_rps : int
        Requests per second asked for.
    block : int
        From 1; make-up blocks follow the planned ones.
    deployment : int
        1, or 2 for the other baseline of the block.
    """

    mesh: str
    configuration: str
    target_rps: int
    block: int
    deployment: int

    @property
    def arm(self) -> Arm:
        """The arm of the run."""
        return Arm(self.mesh, self.configuration)

    def relative_path(self) -> PurePosixPath:
        """Return ``<mesh>/<configuration>/<rps>/block-<NN>-<k>``, the run's directory in its campaign's."""
        name = f"block-{self.block:02d}-{self.deployment}"
        return PurePosixPath(self.mesh, self.configuration, str(self.target_rps), name)

    @classmethod
    def parse(cls, path: str | PurePath) -> "RunKey":
        """Return the key whose `relative_path` is `path`, or its end.

        Raises
        ------
        ValueError
            If the path is not that of a run.
        """
        parts = PurePath(path).parts[-4:]
        try:
            mesh, configuration, rps, name = parts
            _, block, deployment = name.split("-")
            key = cls(mesh, configuration, int(rps), int(block), int(deployment))
        except ValueError:
            key = None
        if key is None or key.relative_path().parts != parts:
            raise ValueError(f"{path} is not <mesh>/<configuration>/<rps>/block-<NN>-<k>")
        return key

    def __str__(self) -> str:
        return str(self.relative_path())


@dataclass(frozen=True)
class Deployment:
    """Fresh workloads of one arm within a block, and the loads they carry.

    Parameters
    ----------
    arm : Arm
        What is deployed.
    block : int
        From 1.
    deployment : int
        1, or 2 for the other baseline of the block. Which baseline is called 2 is drawn too, so that "2
        against 1" is as free of drift as an arm against the baseline.
    order : int
        Position of the deployment in the campaign, from 1.
    target_rps : tuple of int
        In measuring order.
    """

    arm: Arm
    block: int
    deployment: int
    order: int
    target_rps: tuple[int, ...]

    def run_keys(self) -> tuple[RunKey, ...]:
        """Return the keys of its runs in measuring order."""
        return tuple(
            RunKey(self.arm.mesh, self.arm.configuration, rps, self.block, self.deployment)
            for rps in self.target_rps
        )


def schedule(study: "Study", makeup_blocks: int = 0) -> tuple[Deployment, ...]:
    """Return the deployments of a study in measuring order.

    Parameters
    ----------
    study : Study
        Its seed, arms, target RPS and number of blocks are used. The order in which the file lists arms and
        rates does not matter.
    makeup_blocks : int
        Blocks to append to the planned ones. What is drawn for a block depends on the seed and its number
        only, so that they change no earlier block.

    Raises
    ------
    ValueError
        If `makeup_blocks` is negative.
    """
    if makeup_blocks < 0:
        raise ValueError(f"makeup_blocks must be at least 0, not {makeup_blocks}")
    deployments: list[Deployment] = []
    for block in range(1, study.blocks + makeup_blocks + 1):
        for arm, number in _draw_block(study, block):
            rps = shuffled(
                sorted(study.target_rps),
                ("target_rps", study.seed, block, arm.mesh, arm.configuration, number),
            )
            deployments.append(Deployment(arm, block, number, len(deployments) + 1, tuple(rps)))
    return tuple(deployments)


def run_keys(deployments: Iterable[Deployment]) -> tuple[RunKey, ...]:
    """Return the keys of all runs of some deployments, in measuring order."""
    return tuple(key for deployment in deployments for key in deployment.run_keys())


def cells(study: "Study") -> tuple[Cell, ...]:
    """Return the cells of a study, the baseline's first."""
    arms = (BASELINE, *study.arms_expanded)
    connections = study.load.connections if study.load else None
    return tuple(Cell(arm, rps, connections) for arm in arms for rps in sorted(study.target_rps))


def shuffled(items: Iterable[_T], label: tuple[str | int, ...]) -> list[_T]:
    """Return the items in an order that is uniform over all orders and fixed by the label.

    Parameters
    ----------
    items : iterable
        What to order.
    label : tuple of str and int
        Purpose, seed and whatever else tells one draw from another. Names must not contain a comma.
    """
    result = list(items)
    words = _random_words(",".join(str(part) for part in label))
    for last in range(len(result) - 1, 0, -1):
        other = _below(last + 1, words)
        result[last], result[other] = result[other], result[last]
    return result


def _draw_block(study: "Study", block: int) -> list[tuple[Arm, int]]:
    baselines = [(BASELINE, number) for number in range(1, N_BASELINES + 1)]
    return shuffled(
        baselines + [(arm, 1) for arm in sorted(study.arms_expanded)], ("block", study.seed, block)
    )


def _random_words(label: str) -> Iterator[int]:
    """Yield 64-bit words: the SHA-256 of "<label>,0", "<label>,1", ..., big-endian, four words each."""
    counter = 0
    while True:
        digest = hashlib.sha256(f"{label},{counter}".encode()).digest()
        for start in range(0, len(digest), 8):
            yield int.from_bytes(digest[start : start + 8])
        counter += 1


def _below(n: int, words: Iterator[int]) -> int:
    """Return a whole number from 0 to n - 1, each as likely (rejection sampling)."""
    limit = 2**64 - 2**64 % n
    return next(word % n for word in words if word < limit)
