"""What made-up jobs take on topologies of the measured calibration."""

from __future__ import annotations

from pipeline.planning import costs, prediction
from pipeline.planning.demands import Machines
from tests.pipeline.planning.measured import calibration

MACHINES = Machines(server=8, worker=8)


def outlooks(workers=(1, 2, 4, 8), machines=MACHINES, **job):
    """Returns one for each number of workers, with one server."""
    found = calibration()
    asked = costs.Workload(**{"examples": 1e7, "save_examples": 1e5, "usd_per_machine": 0.5, **job})
    return [
        costs.outlook(found, asked, prediction.predict(found, machines, count, servers=1))
        for count in workers
    ]
