"""A calibration as a job would have been measured whose demands are known."""

from __future__ import annotations

from pipeline.planning import queueing
from pipeline.planning.demands import Calibration, Machines, Measured
from pipeline.planning.queueing import Station

CORES = 4.0


def calibration(strategy="parameter_server", **changes):
    """A job that computes for 40 ms, takes 4 ms of a worker's core and 6 ms of a server's."""
    runs = [run(workers, **changes) for workers in (1, 2)]
    return Calibration(
        config="job",
        strategy=strategy,
        machines=Machines(shared=CORES),
        examples_per_process=100,
        record_bytes=1000.0,
        runs=runs,
    )


def run(workers, *, think=0.04, worker_cpu=0.004, server_cpu=0.006, **changes):
    station = Station("host cores", worker_cpu + server_cpu, CORES)
    rate = queueing.solve(think, [station], workers + 1).rate / (workers + 1)
    values = {
        "workers": workers,
        "servers": 1,
        "rate": rate,
        "rates": [rate] * 4,
        "worker_cpu": worker_cpu,
        "server_cpu": server_cpu,
        "pulled": 1e6,
        "pushed": 5e5,
        "seconds": {"step": 1 / rate},
        "periods": [1 / rate],
        "staleness": float(workers),
        "start_seconds": 10.0,
        "save_seconds": 1.0,
        "evaluation_seconds": 5.0,
        "server_memory": 300_000_000,
        "checkpoint_bytes": 100_000_000,
    }
    return Measured(**{**values, **changes})
