"""PyTorch, `DistributedDataParallel` over gloo: every process holds the whole model, and
gradients are added up in each step. The features lie in memory, ready made. It writes no
checkpoints."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel

from benchmarks.peers import measure
from benchmarks.peers.training import torch_loop


def main(given: dict[str, Any], trainers: int) -> None:
    """Trains in as many processes."""
    os.environ.setdefault(measure.ROOT, str(os.getpid()))
    with tempfile.TemporaryDirectory() as folder:
        place = f"file://{folder}/rendezvous"
        multiprocessing.spawn(train, ((given, trainers, place),), trainers)


def train(rank: int, job: tuple[dict[str, Any], int, str]) -> None:
    """Trains one process's share of the steps; the first scores the test split."""
    given, trainers, place = job
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // trainers))
    torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=trainers)
    torch.manual_seed(given["seed"])
    model, rows = torch_loop.WideAndDeep(given), torch_loop.load(given, "train")
    rows = [x[rank::trainers] for x in rows]
    updates = torch_loop.build_optimizers(model, given)
    together, batch, marks = DistributedDataParallel(model), given["batch_size"], []
    made = torch_loop.train_steps(together, updates, rows, batch=batch)
    for step in range(trainers, given["steps"] + trainers, trainers):
        next(made)
        if (not marks and step >= given["warm_up"]) or step >= given["steps"]:
            marks.append(measure.take_mark(step))
    if rank == 0:
        found = measure.compute_rates(marks[0], marks[-1], batch)
        measure.report(**found, auc=torch_loop.score_test(model, given))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(measure.read_settings(), *measure.read_sizes())
