"""Predicts how fast a job would train with other numbers of workers and servers, and its limits.

    estimator-pipeline plan --config=mnist --workers=1,2,4,8 --ps=1,2
    make plan CONFIG=mnist [WORKERS=1,2,4,8] [PS=1,2] [TARGET="examples_per_second=9000"]

Calibrates for about a minute: one worker, then two, next to the chief, with one server. What is
predicted is for processes that share this machine's cores, or, with --cores, for a machine of so
many cores each; --link is what the network of each can send. Writes plan.html and plan.json to
<storage>/plan/<job>. Exits with 64 if no topology that was asked for is sure to reach --target.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable

from absl import flags

from pipeline import cli, config, errors, storage, versions
from pipeline.config import price_table, raw_data, strategy_table
from pipeline.console import terminal
from pipeline.jobs import job as jobs
from pipeline.planning import (
    calibration,
    costs,
    further_server,
    page,
    prediction,
    target,
    topologies,
)
from pipeline.planning.calibration import Bench
from pipeline.planning.costs import Outlook
from pipeline.planning.demands import Calibration, Machines
from pipeline.planning.further_server import FurtherServer
from pipeline.processes import environment, isolation
from pipeline.runs import run_folder
from pipeline.storage import strict_json

_CONFIG, _SET = cli.config_flags()
_STORAGE = cli.local_storage_flag()
_STRATEGIES = flags.DEFINE_list(
    "strategy", [], "Strategies of several processes. Default: the config's, or parameter_server."
)
_WORKERS = flags.DEFINE_list("workers", ["1", "2", "4", "8"], "Workers besides the chief.")
_PS = flags.DEFINE_list("ps", ["1", "2"], "Parameter servers.")
_CORES = flags.DEFINE_float(
    "cores",
    None,
    "Each process has a machine of so many cores. Default: all share this one.",
    lower_bound=0.1,
)
_LINK = flags.DEFINE_float(
    "link",
    None,
    "Megabits a second that each machine can send. Default: no limit.",
    lower_bound=0.001,
)
_DISK = flags.DEFINE_float(
    "disk",
    None,
    "MB a second that storage gives to all together. Default: no limit.",
    lower_bound=0.001,
)
_TARGET = flags.DEFINE_string("target", None, "examples_per_second=…, hours=… or usd=…")
_PREEMPTIONS = flags.DEFINE_float(
    "preemptions", 0.0, "How often each machine is lost in a day.", lower_bound=0.0
)
_MACHINE = flags.DEFINE_string("machine", None, "A name of the price table: USD for each process.")
_SECONDS = flags.DEFINE_integer(
    "seconds", 12, "Seconds that each calibration run is measured for.", lower_bound=4
)
_CALIBRATE_WORKERS = flags.DEFINE_integer(
    "calibrate_workers", 2, "Workers of the larger calibration run.", lower_bound=2
)
_CALIBRATE_PS = flags.DEFINE_integer(
    "calibrate_ps", 1, "Servers of the calibration runs.", lower_bound=1
)

_USUAL = "parameter_server"


def main() -> None:
    """Calibrates, predicts, and shows the plan."""
    versions.require_estimators()
    wanted = target.parse(_TARGET.value) if _TARGET.value is not None else None
    workers, servers = _parse_counts("workers", _WORKERS.value), _parse_counts("ps", _PS.value)
    usd = _read_price()
    if wanted is not None and wanted.kind == "usd" and usd is None:
        raise errors.UsageError(
            f"--target={wanted}: needs MACHINE=, what each process costs, among "
            f"{', '.join(price_table.read().usd)}"
        )
    planned = jobs.plan(
        _CONFIG.value, _SET.value, run=None, storage_root=_STORAGE.value, look=False
    ).config
    strategies = _choose_strategies(planned)
    selected = {one: _select(one, workers, servers) for one in strategies}
    _require_counting(strategies)
    root = storage.make_absolute(_STORAGE.value)
    if storage.is_remote(root):
        raise errors.UsageError(f"--storage {root!r}: calibration runs here; give a local folder")
    raw_data.require(planned.data, _CONFIG.value)
    folder = pathlib.Path(root, "plan", run_folder.run_name(planned))
    words = [f"--config={_CONFIG.value}", *(f"--set={one}" for one in _SET.value)]
    bench = Bench(planned, words, folder, root, _SECONDS.value)
    sizes = [size for one in selected.values() for size in one.sizes]
    prediction.check_size("workers", sorted({w for w, _ in sizes}), _CALIBRATE_WORKERS.value)
    for line in [line for one in selected.values() for line in one.left_out]:
        print(line, flush=True)
    further = None
    if any(strategy_table.STRATEGIES[strategy].servers for strategy in strategies):
        asked = sorted({ps for _, ps in sizes if ps})
        prediction.check_size("ps", asked, _CALIBRATE_PS.value)
        if asked != [_CALIBRATE_PS.value]:
            further = further_server.measure()
    found = [_calibrate(bench, strategy, further) for strategy in strategies]
    records = calibration.train_records(planned, str(folder))[0]
    outlooks = []
    for one in found:
        for count, ps in selected[one.strategy].sizes:
            workload = costs.compute_workload(
                calibration.with_processes(planned, one.strategy, count, servers=ps),
                records=records,
                usd_per_machine=usd,
                preemptions=_PREEMPTIONS.value / 24,
            )
            predicted = prediction.predict(one, _describe_machines(), count, servers=ps)
            outlooks.append(costs.outlook(one, workload, predicted))
    _show(folder, found, outlooks, wanted=wanted)


def _parse_counts(name: str, given: list[str]) -> list[int]:
    try:
        counts = sorted({int(one) for one in given})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise errors.UsageError(
            f"--{name}={','.join(given)}: must be whole numbers from 1, with commas between them"
        )
    return counts


def _choose_strategies(planned: config.Config) -> list[str]:
    """Returns the strategies asked for. Raises `UsageError` for what has no cluster to plan."""
    own = planned.cluster.strategy
    several = [name for name, one in strategy_table.STRATEGIES.items() if one.own_evaluator]
    given = _STRATEGIES.value or [own if own in several else _USUAL]
    for name in given:
        if name not in several:
            hint = errors.suggest(name, several)
            raise errors.UsageError(f"--strategy={name}: must be among {', '.join(several)}{hint}")
        together = strategy_table.STRATEGIES[name].synchronous
        if together and planned.train.batch_size_is == "global":
            raise errors.UsageError(
                f"--strategy={name}: with train.batch_size_is=global each number of workers has "
                "other batches; plan with train.batch_size_is=per_replica"
            )
        if "backup_workers" in strategy_table.STRATEGIES[name].keys and (
            planned.cluster.backup_workers
        ):
            raise errors.UsageError(
                f"--strategy={name}: steps that do not wait for all processes are not predicted; "
                "plan with cluster.backup_workers=0"
            )
    return list(dict.fromkeys(given))


def _select(strategy: str, workers: list[int], servers: list[int]) -> topologies.Selection:
    """Returns the topologies to plan. Raises `UsageError` for those that make train refuses, if
    they were asked for or are to be calibrated."""
    found = topologies.select(
        strategy,
        topologies.Counts("workers", workers, given=_WORKERS.present > 0),
        topologies.Counts("ps", servers, given=_PS.present > 0),
        check=functools.partial(_check, calibration.override_cluster),
    )
    calibrated = [1, _CALIBRATE_WORKERS.value], [_CALIBRATE_PS.value]
    topologies.select(
        strategy,
        topologies.Counts("calibrate_workers", calibrated[0], given=True),
        topologies.Counts("calibrate_ps", calibrated[1], given=True),
        check=functools.partial(_check, calibration.override_run),
    )
    return found


def _check(
    override: Callable[[str, int, int], list[str]], strategy: str, size: topologies.Size
) -> None:
    """Raises `UsageError` if the config cannot be trained with such processes."""
    settings = [*_SET.value, *override(strategy, *size)]
    jobs.plan(_CONFIG.value, settings, run=None, storage_root=_STORAGE.value, look=False)


def _require_counting(strategies: list[str]) -> None:
    """Raises `UsageError` if a link is to be planned for, and what goes over it cannot be known."""
    reducing = [
        name for name in strategies if strategy_table.STRATEGIES[name].reduces_between_processes
    ]
    if _LINK.value is not None and reducing and (why := isolation.find_obstacle()):
        raise errors.UsageError(
            f"--link={_LINK.value:g}: what processes of {reducing[0]} send each other is counted "
            f"in a network of the run's own, which cannot be made here: {why}. Plan it without "
            "--link"
        )


def _read_price() -> float | None:
    if _MACHINE.value is None:
        return None
    prices = price_table.read().usd
    if _MACHINE.value not in prices:
        hint = errors.suggest(_MACHINE.value, prices)
        raise errors.UsageError(
            f"--machine={_MACHINE.value}: must be among {', '.join(prices)}{hint}"
        )
    return prices[_MACHINE.value]


def _describe_machine() -> Machines:
    return Machines(shared=float(environment.processors()))


def _describe_machines() -> Machines:
    """Returns what is planned for: this machine, or one for each process."""
    link = None if _LINK.value is None else _LINK.value * 1e6 / 8
    disk = None if _DISK.value is None else _DISK.value * 1e6
    cores = _CORES.value
    return Machines(
        shared=_describe_machine().shared if cores is None else None,
        server=cores,
        worker=cores,
        server_link=link,
        worker_link=link,
        ethernet=link is not None,
        disk=disk,
    )


def _calibrate(bench: Bench, strategy: str, further: FurtherServer | None) -> Calibration:
    servers = _CALIBRATE_PS.value if strategy_table.STRATEGIES[strategy].servers else 0
    sizes = [(workers, servers) for workers in (1, _CALIBRATE_WORKERS.value)]
    own = None if _CORES.value is None else max(1, int(_CORES.value))
    return calibration.calibrate(bench, strategy, sizes, server_cores=own, further_server=further)


def _show(
    folder: pathlib.Path,
    found: list[Calibration],
    outlooks: list[Outlook],
    *,
    wanted: target.Target | None,
) -> None:
    """Prints the plan and writes it, then says what meets the target."""
    measured = [line for one in found for line in page.format_measured(one)]
    print("\n".join([*measured, *page.lines(outlooks), *page.knees(outlooks)]))
    refused: errors.UsageError | None = None
    chosen = None
    try:
        chosen = target.choose(wanted, outlooks) if wanted else target.find_fastest(outlooks)
    except errors.UsageError as error:
        refused = error
    limits = page.limits(
        _describe_machines(), machine=_MACHINE.value or "", preemptions=_PREEMPTIONS.value
    )
    lead = (
        f"{_CONFIG.value}, calibrated on {_describe_machine().shared:g} cores, planned for {limits}"
    )
    title = f"Plan: {found[0].config}"
    text = page.render(title, outlooks, found, lead=lead, chosen=chosen)
    path = str(folder / "plan.html")
    storage.write_text(path, text)
    content = {
        "calibration": [one.model_dump(mode="json") for one in found],
        "machines": _describe_machines().model_dump(mode="json"),
        "topologies": [dataclasses.asdict(one) for one in outlooks],
    }
    storage.write_text(str(folder / "plan.json"), strict_json.dumps(content, indent=1) + "\n")
    if chosen is not None:
        print(f"{chosen.name}:\n{page.settings(chosen)}")
    print(f"page in {terminal.display_path(path)}")
    if refused is not None:
        raise refused


if __name__ == "__main__":
    cli.run(main)
