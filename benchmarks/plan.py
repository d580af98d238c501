"""Topologies that really train, against what a plan from two small runs predicts of them.

Compute sleeps, so that many processes fit on a few cores; links are shaped by `tc` in the network
of the run, and servers kept on one core by their affinity. Each job is calibrated with one worker
and with two, next to a chief and one server, with no limit but that core. Of each topology the
predicted rate and the resource that limits it are compared with what is measured.

Takes about 13 minutes of an idle machine. Each calibration and each topology writes a line to
<storage>/plan.jsonl; called again, it goes on with those that have none. What is predicted is
worked out from these lines each time.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from benchmarks import cells
from benchmarks.cells import Cell
from benchmarks.result import Result
from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table
from pipeline.console import text_table
from pipeline.faults.launched import LaunchedRun
from pipeline.planning import calibration, demands, further_server, prediction
from pipeline.planning.calibration import Bench
from pipeline.planning.demands import Calibration, Machines
from pipeline.planning.further_server import FurtherServer
from pipeline.planning.prediction import Predicted
from pipeline.processes import isolation

_SECONDS, _SETTLE = 8.0, 4.0
# Whatever else runs slows down a host whose cores are full, so the median of some rounds counts.
_ROUNDS = 3
_SIZES = (1, 2)  # workers that are calibrated
_ALONE = "parameter_server"
_FURTHER = "a further server"
_PARAMS = {"floats": 250_000, "server_floats": 0, "seconds": 0.2, "input_seconds": 0.0}
# What differs from that, by job.
JOBS: Mapping[str, Mapping[str, float]] = {
    "slow": {},
    "quick": {"seconds": 0.01},
    "update": {"floats": 8, "server_floats": 32_000_000, "seconds": 0.1},
    "starved": {"seconds": 0.05, "input_seconds": 0.25},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A topology of a job, `workers` besides the chief, that one resource should limit."""

    job: str
    workers: int
    servers: int
    limit: str
    server_link: float | None = None
    worker_link: float | None = None
    one_core: bool = False
    strategy: str = _ALONE

    @property
    def name(self) -> str:
        """Says all that the rate of the case depends on."""
        limits = [*_list_links(self), "servers on one core"] if self.one_core else _list_links(self)
        size = f"{self.workers} workers, {self.servers} ps"
        return ", ".join([f"{self.job} under {self.strategy}", size, *limits])

    def machines(self, cores: float) -> Machines:
        """Returns what its processes have to share."""
        if self.one_core:
            return Machines(shared=cores - 1, server=1 / self.servers)
        return Machines(shared=cores, server_link=self.server_link, worker_link=self.worker_link)


CASES = (
    Case("slow", 4, 1, demands.COMPUTE),
    Case("slow", 8, 2, demands.COMPUTE),
    Case("slow", 11, 4, demands.COMPUTE),
    Case("slow", 4, 1, demands.SERVER_LINK, server_link=10e6),
    Case("slow", 8, 2, demands.SERVER_LINK, server_link=10e6),
    Case("slow", 16, 4, demands.SERVER_LINK, server_link=10e6),
    Case("slow", 2, 1, demands.WORKER_LINK, worker_link=2.5e6),
    Case("slow", 4, 2, demands.WORKER_LINK, worker_link=2.5e6),
    Case("slow", 8, 4, demands.WORKER_LINK, worker_link=2.5e6),
    Case("quick", 8, 1, demands.HOST),
    Case("quick", 11, 2, demands.HOST),
    Case("update", 8, 1, demands.SERVER, one_core=True),
    Case("update", 11, 1, demands.SERVER, one_core=True),
    Case("update", 11, 2, demands.SERVER, one_core=True),
    Case("starved", 4, 1, demands.INPUT),
    Case("starved", 8, 2, demands.INPUT),
    Case("starved", 16, 4, demands.INPUT),
    Case("slow", 4, 1, demands.COMPUTE, strategy="parameter_server_strategy"),
    Case("slow", 8, 2, demands.COMPUTE, strategy="parameter_server_strategy"),
    Case("slow", 4, 1, demands.COMPUTE, strategy="parameter_server_sync"),
    Case("slow", 8, 2, demands.COMPUTE, strategy="parameter_server_sync"),
    Case("slow", 3, 0, demands.COMPUTE, strategy="multi_worker_mirrored"),
    Case("slow", 5, 0, demands.COMPUTE, strategy="multi_worker_mirrored"),
)


def _list_links(case: Case) -> list[str]:
    return [
        f"{what} {rate / 1e6:g} MB/s"
        for what, rate in (("ps link", case.server_link), ("worker link", case.worker_link))
        if rate
    ]


@dataclasses.dataclass(frozen=True)
class Compared:
    """What was predicted of a case, and what it reached, in steps a second."""

    case: Case
    predicted: Predicted
    measured: float

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return self.predicted.rate / self.measured - 1

    @property
    def is_named(self) -> bool:
        """True if the resource that limits it is the one that was predicted."""
        return self.predicted.bottleneck == self.case.limit


def run(storage_root: str) -> list[Result]:
    """Measures all cases, and compares them."""
    found = compare(storage_root, list(JOBS))
    errors_ = [abs(one.error) for one in found]
    named = sum(one.is_named for one in found)
    worst = max(found, key=lambda one: abs(one.error))
    what = f"limit, over {len(found)} topologies"
    gap = f"worst: {worst.case}"
    middle = 100 * statistics.median(errors_)
    return [
        Result("plan median error", middle, "%", against=10, goal="<= 1", peer=what, gap=gap),
        Result(
            "plan worst error", 100 * max(errors_), "%", against=20, goal="<= 1", peer=what, gap=gap
        ),
        Result(
            "plan bottleneck named",
            named,
            "topologies",
            against=len(found),
            goal=">= 1",
            peer="all of them",
            gap="; ".join(_describe_misnamed(one) for one in found if not one.is_named),
        ),
    ]


def _describe_misnamed(one: Compared) -> str:
    return f"{one.case.workers} x {one.case.servers} of {one.case.job}: {one.predicted.bottleneck}"


def compare(
    storage_root: str, names: Sequence[str], cases: Sequence[Case] = CASES
) -> list[Compared]:
    """Calibrates jobs and measures their cases, as far as that has not been done. Raises
    `UsageError` without the right to shape links."""
    _require_links()
    cores = float(len(os.sched_getaffinity(0)))
    wanted = [case for case in cases if case.job in names]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        plan = _plan_cells(pathlib.Path(folder), wanted)
        found = cells.measure(list(plan), pathlib.Path(storage_root, "plan.jsonl"))
    compared = []
    for case in wanted:
        line = found[_calibration_name(case.job, case.strategy)]
        further = FurtherServer.model_validate(found[_FURTHER]["result"])
        calibrated = Calibration.model_validate({**line["result"], "further_server": further})
        predicted = prediction.predict(
            calibrated, case.machines(cores), case.workers, servers=case.servers
        )
        compared.append(Compared(case, predicted, found[case.name]["result"]["rate"]))
    print("\n".join(format_table(compared)))
    return compared


def _plan_cells(folder: pathlib.Path, cases: Sequence[Case]) -> Iterator[Cell]:
    """Yields what a further server takes, and the calibrations that the cases need, each before its
    cases."""
    yield Cell(_FURTHER, lambda: further_server.measure().model_dump(), seconds=15)
    wanted: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        wanted.setdefault((case.job, case.strategy), []).append(case)
    for number, ((job, strategy), of_job) in enumerate(wanted.items()):
        bench = _build_bench(folder / str(number), JOBS[job])
        own = 1 if any(case.one_core for case in of_job) else None
        calibrate = functools.partial(_calibrate, bench, strategy, own)
        yield Cell(_calibration_name(job, strategy), calibrate, seconds=60)
        for case in of_job:
            measure = functools.partial(_measure, bench, case)
            yield Cell(case.name, measure, seconds=(25 + 2 * case.workers) * _count_rounds(case))


def _count_rounds(case: Case) -> int:
    return _ROUNDS if case.limit == demands.HOST else 1


def _calibration_name(job: str, strategy: str) -> str:
    return f"{job} under {strategy}, calibration"


def _calibrate(bench: Bench, strategy: str, server_cores: int | None) -> dict[str, Any]:
    servers = 1 if strategy_table.STRATEGIES[strategy].servers else 0
    sizes = [(workers, servers) for workers in _SIZES]
    found = calibration.calibrate(bench, strategy, sizes, server_cores=server_cores)
    return found.model_dump(mode="json")


def _require_links() -> None:
    why = isolation.find_obstacle()
    if why is None:
        command = [
            "unshare",
            "-rn",
            "tc",
            "qdisc",
            "add",
            "dev",
            "lo",
            "root",
            "handle",
            "1:",
            "htb",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            why = (
                (done.stderr.strip().splitlines() or ["tc fails"])[-1] if done.returncode else None
            )
        except FileNotFoundError as error:
            why = f"{error.filename!r} is not installed"
    if why:
        raise errors.UsageError(
            f"plan: links cannot be shaped here: {why}. Install iproute2 and util-linux, and "
            "permit network namespaces"
        )


def _build_bench(folder: pathlib.Path, params: Mapping[str, float]) -> Bench:
    folder.mkdir(parents=True)
    job = {
        "name": "plan_job",
        "data": {"input_fn": "benchmarks.plan_job:rows"},
        "model": {"name": "benchmarks.plan_job:model_fn", "params": {**_PARAMS, **params}},
        "train": {
            "steps": 10**6,
            "batch_size": 4,
            "optimizer": {"name": "momentum", "learning_rate": 1e-9},
        },
        "eval": {"metric": "loss"},
        "cluster": {"strategy": "parameter_server", "workers": 1, "ps": 1},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    os.environ["PYTHONPATH"] = os.getcwd()
    return Bench(
        config_file.load(str(path)), [f"--config={path}"], folder, str(folder), _SECONDS, ends=True
    )


def _measure(bench: Bench, case: Case) -> dict[str, float]:
    """Returns the examples a second of all processes of a case, the median of its rounds."""
    rates = [_measure_round(bench, case) for _ in range(_count_rounds(case))]
    return {"rate": statistics.median(rates), "slowest": min(rates), "fastest": max(rates)}


def _measure_round(bench: Bench, case: Case) -> float:

    def shape_links(run: LaunchedRun) -> None:
        if case.server_link:
            shape(run, "ps", case.server_link)
        if case.worker_link:
            shape(run, "worker", case.worker_link)
            shape(run, "chief", case.worker_link)
        if case.one_core:
            calibration.keep_servers_apart(run, 1)
        time.sleep(_SETTLE)

    real = dataclasses.replace(bench, started=shape_links, ends=False)
    measured = calibration.measure(real, case.strategy, case.workers, servers=case.servers)
    job = calibration.with_processes(bench.job, case.strategy, case.workers, servers=case.servers)
    return measured.total_rate * topology.examples_per_process(job)


def shape(run: LaunchedRun, role: str, rate: float) -> None:
    """Limits what each process of a role sends to `rate` bytes a second, by the ports that it
    listens on. Whoever receives a tensor asks for it there."""
    tasks = sorted(task for task in run.statuses if task.rpartition("-")[0] == role)
    for number, task in enumerate(tasks):
        pid = run.statuses[task].pid
        if not _has_root(pid):
            _run_tc(pid, "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb")
        flow = f"1:{100 * (1 + len(role)) + number}"
        limit = [f"{rate:.0f}bps", "burst", "128k", "cburst", "128k", "quantum", "66000"]
        _run_tc(
            pid, "class", "add", "dev", "lo", "parent", "1:", "classid", flow, "htb", "rate", *limit
        )
        for port in _find_ports(pid):
            for kind, prio, match in (("ip", "1", "ip"), ("ipv6", "2", "ip6")):
                where = ["dev", "lo", "parent", "1:", "protocol", kind, "prio", prio]
                what = ["u32", "match", match, "sport", str(port), "0xffff", "flowid", flow]
                _run_tc(pid, "filter", "add", *where, *what)


def _has_root(pid: int) -> bool:
    return "htb" in _run_tc(pid, "qdisc", "show", "dev", "lo")


def _run_tc(pid: int, *words: str) -> str:
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", "tc", *words]
    if os.getuid():
        command = ["nsenter", f"--target={pid}", "--user", "--preserve-credentials", *command[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.UsageError(f"plan: links cannot be shaped here: {done.stderr.strip()}")
    return done.stdout


_LISTENING = re.compile(r"^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A (?:\S+\s+){5}(\d+)", re.MULTILINE)


def _find_ports(pid: int) -> set[int]:
    """Returns the ports that a process listens on."""
    own = {os.readlink(one) for one in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for name in ("tcp", "tcp6"):
        text = pathlib.Path(f"/proc/{pid}/net/{name}").read_text()
        found |= {
            int(port, 16) for port, inode in _LISTENING.findall(text) if f"socket:[{inode}]" in own
        }
    return found


def format_table(compared: list[Compared]) -> list[str]:
    """Returns the cases as the docs have them."""
    rows = [
        (
            "job",
            "strategy",
            "workers",
            "ps",
            "limits",
            "predicted",
            "measured",
            "error",
            "limited by",
        )
    ]
    for one in compared:
        case = one.case
        links = _list_links(case) + ["ps on one core"] * case.one_core
        rows.append(
            (
                case.job,
                case.strategy,
                str(case.workers),
                str(case.servers),
                ", ".join(links) or "-",
                f"{one.predicted.rate / 4:.1f}",
                f"{one.measured / 4:.1f}",
                f"{one.error:+.1%}",
                f"{one.predicted.bottleneck}{'' if one.is_named else f' (meant: {case.limit})'}",
            )
        )
    return text_table.lines(rows, right=(2, 3, 5, 6, 7))
