"""PyTorch DistributedDataParallel over gloo: each process has all tables, and gradients of all
processes are averaged at each step. Sparse gradients are gathered."""

from __future__ import annotations

import os
import socket
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from benchmarks.peers import measure
from benchmarks.peers.training import torch_loop


def _train(rank: int, given: dict[str, Any], port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    workers = given["workers"]
    dist.init_process_group("gloo", rank=rank, world_size=workers)
    torch.set_num_threads(1)
    torch.manual_seed(given["seed"])
    model = torch_loop.WideAndDeep(given)
    averaged = nn.parallel.DistributedDataParallel(model)
    updates, loss_of = torch_loop.optimizers(model, given), nn.BCEWithLogitsLoss()
    rows = torch_loop.load(given, "train")
    # A step takes a batch of each process: as many records as all steps of one process.
    steps = given["steps"] // workers
    meter = measure.Meter({**given, "steps": steps, "warm_up": given["warm_up"] // workers})
    order = torch.randperm(len(rows[0]))[rank::workers]
    for step in range(steps):
        at = step * given["batch_size"] % (len(order) - given["batch_size"])
        *features, label = (x[order[at : at + given["batch_size"]]] for x in rows)
        loss = loss_of(averaged(*features), label)
        for update in updates:
            update.zero_grad()
        loss.backward()
        for update in updates:
            update.step()
        meter.step()
    if rank == 0:
        found = meter.result()
        auc = torch_loop.test_auc(model, given)
        measure.report(rate=found["rate"] * workers, cpu=found["cpu"] / workers, auc=auc)
    dist.destroy_process_group()


def main(given: dict[str, Any]) -> None:
    """Starts the processes."""
    os.environ.setdefault(measure.ROOT, str(os.getpid()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(_train, (given, port), nprocs=given["workers"], start_method="spawn")


if __name__ == "__main__":
    main(measure.settings())
