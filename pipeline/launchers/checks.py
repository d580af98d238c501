"""What `make doctor` finds on this machine, each with what to do about it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator
from importlib import metadata

from pipeline import errors, storage, versions
from pipeline.launchers import products
from pipeline.storage import gcs_preflight
from pipeline.supervision import ports

_GIB = 1 << 30
# What the records, checkpoints and exports of a small job take, with room to spare.
_ENOUGH_DISK = 2 * _GIB
_MATRIX = 1024


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report: what was found, and if that is bad, what to do."""

    text: str
    fix: str = ""

    def __str__(self) -> str:
        return f"FIX  {self.text}: {self.fix}" if self.fix else f"ok   {self.text}"


def report(findings: Iterator[Finding], show: Callable[[str], None] = print) -> bool:
    """Shows findings as they come; true if all are well."""
    well = True
    for finding in findings:
        show(str(finding))
        well = well and not finding.fix
    return well


def check_installation(storage_root: str) -> Iterator[Finding]:
    """Yields what a machine needs that only submits jobs."""
    yield check_python()
    yield check_tensorflow()
    yield from check_storage(storage_root)


def check_machine(storage_root: str) -> Iterator[Finding]:
    """Yields what a machine needs that runs the processes of a job, quick checks first. Checks that
    need TensorFlow are left out when the installed one cannot be used."""
    yield check_python()
    usable = check_tensorflow()
    yield usable
    yield check_ports()
    yield from check_storage(storage_root)
    if not usable.fix:
        yield from check_devices()


def attempt(check: Callable[[], None], well: str) -> Finding:
    """Returns the finding `well` if a check raises nothing, and otherwise one of its error."""
    try:
        check()
    except errors.PipelineError as error:
        return _build_finding(error)
    return Finding(well)


def check_python() -> Finding:
    """Is this a Python that TensorFlow has wheels for?"""
    python = versions.list_installed()["python"]
    return attempt(versions.require_python, f"Python {python}")


def check_tensorflow(version: Callable[[str], str] = metadata.version) -> Finding:
    """Is there a TensorFlow, and does it have Estimators?"""
    try:
        versions.require_estimators(version)
    except errors.UsageError as error:
        return _build_finding(error)
    return Finding(f"tensorflow {version('tensorflow')} with Estimators")


def check_ports(reserve: Callable[[int], ports.Reservation] = ports.Reservation) -> Finding:
    """Can the processes of a cluster listen?"""
    try:
        with reserve(3) as reservation:
            listed = ", ".join(map(str, reservation.ports))
    except errors.PipelineError as error:
        return _build_finding(error)
    return Finding(f"ports can be bound ({listed})")


def check_storage(root: str) -> Iterator[Finding]:
    """Can STORAGE be written, and is there room?"""
    folder = storage.make_absolute(root)
    probe = storage.join(folder, f".doctor-{os.getpid()}")
    try:
        storage.makedirs(folder)
        storage.write_text(probe, "written by make doctor\n")
        storage.remove(probe)
        gcs_preflight.check(folder)
    except Exception as error:
        yield _build_finding(error, f"STORAGE {root!r} cannot be written")
        return
    yield Finding(f"STORAGE {root!r} can be written")
    if not storage.is_remote(folder):
        yield check_disk(root, shutil.disk_usage(folder).free)


def check_disk(root: str, free: int) -> Finding:
    """Is there room for a job? `free` is in bytes."""
    text = f"{free / _GIB:.1f} GiB free at {root!r}"
    if free >= _ENOUGH_DISK:
        return Finding(text)
    return Finding(text, f"make room for {_ENOUGH_DISK / _GIB:.0f} GiB, or choose another STORAGE=")


def check_devices(clock: Callable[[], float] = time.perf_counter) -> Iterator[Finding]:
    """Does each device work, and how fast is it?"""
    import tensorflow as tf

    names = products.devices()
    cpus, gpus = os.cpu_count() or 1, sum(name.startswith("GPU") for name in names)
    yield Finding(f"{cpus} CPUs, {gpus} GPUs{'' if gpus else ' (none is needed)'}")
    for name in names:
        try:
            yield Finding(str(products.product(name, _MATRIX, "float32", clock=clock)))
        except tf.errors.OpError as error:
            yield _build_finding(error, f"{name} does not work")


def _build_finding(error: Exception, text: str = "") -> Finding:
    """Turns an error, whose text says what to do after a colon, into a finding."""
    found, _, fix = str(error).partition(": ")
    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    return Finding(text, first_line) if text else Finding(found, fix or "see above")
