"""PyTorch: all tables of single ids as one, an `EmbeddingBag` for lists, sparse gradients. The
features lie in memory, ready made: nothing is read, parsed or looked up while it trains."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers import measure


class WideAndDeep(nn.Module):
    """The same layers and tables as the others."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        sizes = [len(of["values"]) + 1 for of in given["ids"]]
        self.register_buffer("starts", torch.tensor([0, *np.cumsum(sizes)[:-1]]))
        self.deep_ids = nn.Embedding(sum(sizes), given["width"], sparse=True)
        self.wide_ids = nn.EmbeddingBag(sum(sizes), 1, mode="sum", sparse=True)
        # One more row, of what is behind the last item of a list.
        lists = [len(of["values"]) + 2 for of in given["lists"]]
        self.deep_lists = nn.ModuleList(
            nn.EmbeddingBag(n, given["width"], mode="mean", sparse=True, padding_idx=n - 1)
            for n in lists
        )
        self.wide_lists = nn.ModuleList(
            nn.EmbeddingBag(n, 1, mode="sum", sparse=True, padding_idx=n - 1) for n in lists
        )
        for table in (self.wide_ids, *self.wide_lists):
            nn.init.zeros_(table.weight)
        for table in (self.deep_ids, *self.deep_lists):
            nn.init.normal_(table.weight, std=given["width"] ** -0.5)
        width = 2 * len(given["numbers"]) + (len(sizes) + len(lists)) * given["width"]
        layers: list[nn.Module] = []
        for units in given["hidden_units"]:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.network = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, numbers, ids, *lists):
        """Returns the logit of each row."""
        ids = ids + self.starts
        deep = [numbers, self.deep_ids(ids).flatten(1)]
        deep += [table(of) for table, of in zip(self.deep_lists, lists, strict=True)]
        wide = self.wide_ids(ids)
        for table, of in zip(self.wide_lists, lists, strict=True):
            wide = wide + table(of)
        return (self.network(torch.cat(deep, 1)) + wide).squeeze(1)


def load(given: dict[str, Any], split: str) -> list[torch.Tensor]:
    """Returns numbers, ids, each list, and the label, of all rows."""
    folder = pathlib.Path(given["arrays"], split)
    arrays = [np.load(folder / "numbers.npy"), np.load(folder / "ids.npy").astype(np.int64)]
    for of in given["lists"]:
        ids = np.load(folder / f"{of['name']}.npy").astype(np.int64)
        arrays.append(np.where(ids < 0, len(of["values"]) + 1, ids))
    return [torch.from_numpy(x) for x in (*arrays, np.load(folder / "label.npy"))]


def build_optimizers(model: nn.Module, given: dict[str, Any]) -> list[torch.optim.Optimizer]:
    """Returns Adam for the tables, and for the rest."""
    of_tables = (nn.Embedding, nn.EmbeddingBag)
    tables = [m.weight for m in model.modules() if isinstance(m, of_tables)]
    rest = [p for p in model.parameters() if all(p is not table for table in tables)]
    rate = given["learning_rate"]
    return [torch.optim.SparseAdam(tables, lr=rate), torch.optim.Adam(rest, lr=rate)]


def main(given: dict[str, Any]) -> None:
    """Trains, and scores the test split."""
    torch.manual_seed(given["seed"])
    model, rows = WideAndDeep(given), load(given, "train")
    meter = measure.Meter(given)
    updates = build_optimizers(model, given)
    for _ in itertools.islice(
        train_steps(model, updates, rows, batch=given["batch_size"]), given["steps"]
    ):
        meter.step()
    measure.report(**meter.result(), auc=score_test(model, given))


def train_steps(
    model: nn.Module,
    updates: list[torch.optim.Optimizer],
    rows: list[torch.Tensor],
    *,
    batch: int,
) -> Iterator[None]:
    """Trains on shuffled batches without end, and yields after each."""
    loss_of, order, at = nn.BCEWithLogitsLoss(), torch.tensor([]), 0
    while True:
        if at + batch > len(order):
            order, at = torch.randperm(len(rows[0])), 0
        *features, label = (x[order[at : at + batch]] for x in rows)
        at += batch
        loss = loss_of(model(*features), label)
        for update in updates:
            update.zero_grad()
        loss.backward()
        for update in updates:
            update.step()
        yield


def score_test(model: nn.Module, given: dict[str, Any]) -> float:
    """Scores the test split."""
    *features, label = load(given, "test")
    with torch.no_grad():
        logit = torch.cat([model(*x) for x in zip(*(f.split(4096) for f in features), strict=True)])
    return measure.compute_auc(label.numpy(), logit.numpy())


if __name__ == "__main__":
    main(measure.read_settings())
