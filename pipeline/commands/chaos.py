"""Breaks a job on purpose, in a run of its own, and checks that it ends right all the same.

    estimator-pipeline chaos --config=mnist --faults=5
    make chaos CONFIG=mnist [FAULTS=20] [SECONDS=300] [SEED=7] [BASELINE=2] [KINDS=kill,stop]

Trains undisturbed first, then with faults drawn by the seed: kills, stops, an altered checkpoint
and shard, a full and a slow disk, a lost network, a clock that jumps. Everything lies in
<storage>/chaos/<run>; the runs and records of the storage are not touched. Takes as long as three
trainings and some seconds a fault.
Exits with 70, and the seed that repeats it, if the end is not right.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import pathlib
import random
import shlex
from collections.abc import Iterator, Mapping

from absl import flags

from pipeline import cli, errors, storage, versions
from pipeline.cluster import topology
from pipeline.config import own_input, strategy_table
from pipeline.console import terminal
from pipeline.faults import draw, experiment, outcome_page, slow_disk, small_disk
from pipeline.faults.experiment import BaselineRun, ChaosExperiment, Outcome
from pipeline.jobs import job
from pipeline.processes import isolation
from pipeline.runs import run_folder

_CONFIG, _SET = cli.config_flags()
_STORAGE = cli.local_storage_flag()
_STRATEGY, _WORKERS, _PS = cli.cluster_flags()
_FAULTS = flags.DEFINE_integer("faults", 20, "How many faults.", lower_bound=1)
_SECONDS = flags.DEFINE_integer(
    "seconds", 300, "Cuts longer training to what is done in so many seconds.", lower_bound=10
)
_SEED = flags.DEFINE_integer(
    "seed", None, "Seed of the faults. Default: a new one each time.", lower_bound=0
)
_BASELINE = flags.DEFINE_integer(
    "baseline", 2, "Runs without faults to compare with.", lower_bound=1
)
_KINDS = flags.DEFINE_list(
    "kinds", list(draw.KINDS), "Kinds of faults, such as kill,stop,disk. Default: all."
)


def main() -> None:
    """Runs the job undisturbed, then disturbed, and shows what came of it."""
    versions.require_estimators()
    asked = _read_request()
    draw.check_length(asked.job.train.steps or 1 << 40, _FAULTS.value)
    left_out = _find_impossible(_parse_kinds(), asked)
    _check_some(left_out)
    seed = random.SystemRandom().randrange(10**6) if _SEED.value is None else _SEED.value
    command = _format_command(seed)
    print(f"seed {seed}; to repeat: {command}", flush=True)
    with _lock(asked.folder):
        asked.prepare()
        baseline = _train_baseline(asked)
        asked, first = baseline.asked, baseline.ended[0]
        cut_to = _SECONDS.value if baseline.cut else 0
        draw.check_length(first.step, _FAULTS.value, first.rate, seconds=cut_to)
        size = _choose_disk_size(baseline.ended, left_out)
        kinds = [kind for kind in _parse_kinds() if kind not in left_out]
        for what, why in left_out.items():
            print(f"not tried: {what}: {why}", flush=True)
        _check_some(left_out)
        faults = draw.faults(
            _FAULTS.value,
            seed,
            steps=asked.job.train.steps or first.step,
            kinds=kinds,
            counts=topology.role_counts(asked.job.cluster),
            together=strategy_table.STRATEGIES[asked.job.cluster.strategy].synchronous,
        )
        outcome = experiment.train_with_faults(
            asked, seed, baseline.cut, faults=faults, disk_size=size
        )
        allowed = experiment.check_metric(asked.job, outcome, baseline.ended, train=baseline.train)
    print("\n".join(outcome_page.lines(outcome, allowed, left_out)))
    folder = asked.folder / f"seed-{seed}"
    title = f"Chaos: {asked.job.name}, seed {seed}"
    page = outcome_page.page(title, outcome, allowed=allowed, left_out=left_out, command=command)
    storage.write_text(str(folder / "chaos.html"), page)
    storage.write_text(
        str(folder / "chaos.json"), outcome_page.format_json(outcome, allowed, command)
    )
    print(f"page in {terminal.display_path(str(folder / 'chaos.html'))}")
    if outcome.wrong:
        raise errors.ModelError(f"{outcome.wrong[0]}; seed {seed}. Repeat it with {command}")
    _check_all_struck(outcome, first)


def _plan(settings: list[str]) -> job.Job:
    short = job.cluster_overrides(_STRATEGY.value, _WORKERS.value, _PS.value)
    overrides = [*_SET.value, *short, *settings]
    return job.plan(_CONFIG.value, overrides, run=None, storage_root=_STORAGE.value, look=False)


def _read_request() -> ChaosExperiment:
    """Returns what is asked. Raises `UsageError` for what cannot be disturbed here."""
    root = storage.make_absolute(_STORAGE.value)
    if storage.is_remote(root):
        raise errors.UsageError(f"--storage {root!r}: faults need a disk; give a local folder")
    wanted = _plan([])
    own_input.refuse(wanted.config, "chaos")
    words = [f"--config={_CONFIG.value}", *(f"--set={setting}" for setting in _SET.value)]
    for name, flag in (("strategy", _STRATEGY), ("workers", _WORKERS), ("ps", _PS)):
        words += [f"--{name}={flag.value}"] if flag.value not in (None, "") else []
    folder = pathlib.Path(root, "chaos", run_folder.run_name(wanted.config))
    return ChaosExperiment(wanted.config, words, folder, root)


def _parse_kinds() -> list[str]:
    if not _KINDS.value:
        raise errors.UsageError(f"--kinds: names no kind; must be among {', '.join(draw.KINDS)}")
    for kind in _KINDS.value:
        if kind not in draw.KINDS:
            known = ", ".join(draw.KINDS)
            hint = errors.suggest(kind, draw.KINDS)
            raise errors.UsageError(f"--kinds={kind}: must be among {known}{hint}")
    return list(dict.fromkeys(_KINDS.value))


def _find_impossible(kinds: list[str], asked: ChaosExperiment) -> dict[str, str]:
    """Returns which of the kinds cannot be tried here, and why."""
    found: dict[str, str] = {}
    counts = topology.role_counts(asked.job.cluster)
    if "network" in kinds:
        alone = sum(counts.values()) == 1
        why = "a single process needs no network" if alone else isolation.find_obstacle()
        found |= {"network": why} if why else {}
    of_disks = [kind for kind in kinds if kind in ("disk", "slow_disk")]
    why = isolation.find_mounts_obstacle() if of_disks else None
    found |= dict.fromkeys(of_disks, why) if why else {}
    if "slow_disk" in of_disks and (why := why or slow_disk.find_obstacle()):
        found["slow_disk"] = why
    if set(of_disks) - set(found):
        isolation.enter_mounts()  # before there are threads
    return found


def _check_some(left_out: Mapping[str, str]) -> None:
    """Raises `UsageError` if no kind is left to try."""
    if not set(_parse_kinds()) - set(left_out):
        why = "; ".join(f"{what}: {why}" for what, why in left_out.items())
        raise errors.UsageError(f"--kinds={','.join(_parse_kinds())}: cannot be tried here ({why})")


def _choose_disk_size(ended: list[BaselineRun], left_out: dict[str, str]) -> int:
    """Returns how large the small disk has to be; 0 without one, with the reason in `left_out`."""
    if "disk" not in _parse_kinds() or "disk" in left_out:
        return 0
    size = max(small_disk.estimate_bytes(one.path) for one in ended)
    why = small_disk.find_obstacle(size)
    if why is None:
        return size
    left_out["disk"] = why
    return 0


@dataclasses.dataclass(frozen=True)
class _Baseline:
    """The runs without faults."""

    asked: ChaosExperiment  # with the length of training they have
    cut: list[str]  # the settings that cut training to it
    ended: list[BaselineRun]

    def train(self, of: int) -> None:
        """Trains once more, with another seed; there will be `of` runs together."""
        known = len(self.ended)
        name = f"undisturbed-{self.asked.job.train.steps}" if self.cut else "undisturbed"
        self.ended.append(
            experiment.train_baseline(
                self.asked,
                f"{name}-{known + 1}",
                [*self.cut, f"train.seed={self.asked.job.train.seed + known}"],
                label=f"undisturbed {known + 1} of {of}",
            )
        )


def _train_baseline(asked: ChaosExperiment) -> _Baseline:
    """Trains as often as asked without faults, cut to the seconds given."""
    within = experiment.length_within(asked.job, _SECONDS.value)
    label = f"undisturbed 1 of {_BASELINE.value}"
    name = f"within-{_SECONDS.value}-s"
    first = experiment.train_baseline(asked, name, [within], label=label, seconds=_SECONDS.value)
    if first.whole:
        baseline = _Baseline(asked, cut=[], ended=[first])
    else:
        print(f"training is cut to {first.step:,} steps, what is done in {_SECONDS.value} s")
        cut = experiment.cut_to(asked.job, first)
        shorter = dataclasses.replace(asked, job=_plan(cut).config)
        baseline = _Baseline(shorter, cut, ended=[])
    while len(baseline.ended) < _BASELINE.value:
        baseline.train(_BASELINE.value)
    return baseline


def _check_all_struck(outcome: Outcome, first: BaselineRun) -> None:
    """Raises `UsageError` if training ended before all faults had happened."""
    struck = sum(fault.struck is not None for fault in outcome.faults)
    if struck < len(outcome.faults):
        more = -(-first.step * len(outcome.faults) // max(1, struck))
        raise errors.UsageError(
            f"--faults={len(outcome.faults)}: training ended after {struck} of them. Give "
            f'FAULTS={max(1, struck)}, or more steps, such as SET="train.steps={more}"'
        )


def _format_command(seed: int) -> str:
    """Returns the command that repeats this one."""
    given = [
        f"CONFIG={_CONFIG.value}",
        f"FAULTS={_FAULTS.value}",
        f"SECONDS={_SECONDS.value}",
        f"SEED={seed}",
    ]
    for name, flag in (("STRATEGY", _STRATEGY), ("WORKERS", _WORKERS), ("PS", _PS)):
        given += [f"{name}={flag.value}"] if flag.value not in (None, "") else []
    given += [f"BASELINE={_BASELINE.value}"] if _BASELINE.value != 2 else []
    given += [f"KINDS={','.join(_parse_kinds())}"] if _parse_kinds() != list(draw.KINDS) else []
    given += [f"STORAGE={_STORAGE.value}"] if _STORAGE.value != "output" else []
    settings = f'SET="{" ".join(_SET.value)}"' if _SET.value else ""
    return " ".join(["make chaos", *map(shlex.quote, given), *filter(None, [settings])])


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[None]:
    """Keeps others from disturbing the same job at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.UsageError(
                f"{str(folder)!r}: another make chaos is running there. Wait for it, or give "
                "another STORAGE="
            ) from None
        yield


if __name__ == "__main__":
    cli.run(main)
