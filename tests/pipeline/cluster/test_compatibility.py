"""Every strategy with every kind of setting that cannot work with it, refused before a start."""

from __future__ import annotations

import itertools
import re

import pytest

from pipeline import errors
from pipeline.cluster import compatibility, topology
from pipeline.config import config_file
from pipeline.config.strategy_table import STRATEGIES

# Those of one process, and those that need a second one.
ALONE = [name for name, row in STRATEGIES.items() if not row.own_evaluator]
NEEDS_WORKER = [name for name, row in STRATEGIES.items() if row.workers[0] > 0]


def job(strategy, *overrides):
    # The shipped config names a strategy; its own keys must not get in the way.
    cluster = [f"cluster={{strategy: {strategy}}}"]
    return config_file.load("mnist", [*cluster, *overrides])


def refusal(strategy, *overrides, gpus=0):
    with pytest.raises(errors.UsageError) as caught:
        accept(strategy, *overrides, gpus=gpus)
    return str(caught.value)


def accept(strategy, *overrides, gpus=0):
    wanted = job(strategy, *overrides)
    compatibility.check(wanted)
    compatibility.check_machine(wanted.cluster, gpus)


@pytest.mark.parametrize(
    ("strategy", "workers", "ps"),
    [*itertools.product(STRATEGIES, (None, 0, 1, 3), (None, 0, 1, 2))],
)
def test_every_strategy_with_every_topology(strategy, workers, ps):
    """Refused exactly where TensorFlow would hang or train alone
    (docs/tensorflow-pitfalls.md#strategies-and-clusters)."""
    counts = {"workers": workers, "ps": ps}
    overrides = [f"cluster.{key}={n}" for key, n in counts.items() if n is not None]
    bad = (
        {"workers": bool(workers), "ps": bool(ps)}
        if strategy in ALONE
        else {
            "workers": workers == 0 and strategy in NEEDS_WORKER,
            "ps": bool(ps) if STRATEGIES[strategy].reduces_between_processes else ps == 0,
        }
    )
    if not any(bad.values()):
        accept(strategy, *overrides)
        return
    key = next(key for key, refused in bad.items() if refused)
    nearest = 1 if counts[key] == 0 else 0
    assert re.match(
        rf"cluster\.{key}: strategy '{strategy}' \(.+\) cannot run with {counts[key]}; "
        rf"use {key}={nearest}( or strategy '\w+')?$",
        refusal(strategy, *overrides),
    )


ALL_REDUCE = "multi_worker_mirrored"
REPLICATED = [name for name, row in STRATEGIES.items() if row.replicas[2] is None]
OWN_KEYS = {
    "devices": ("[/cpu:0]", ("one_device", *REPLICATED)),
    "cross_device_ops": ("reduction_to_one_device", ("mirrored",)),
    "communication": ("ring", ("multi_worker_mirrored",)),
    "parameter_device": ("/cpu:1", ("central_storage",)),
    "backup_workers": ("1", ("parameter_server_sync",)),
    "partition_bytes": ("1000", ("parameter_server", "parameter_server_sync")),
    "max_workers": ("3", ("parameter_server", "parameter_server_strategy")),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("key", OWN_KEYS)
def test_keys_a_strategy_would_ignore_are_refused(strategy, key):
    value, owners = OWN_KEYS[key]
    if strategy in owners:
        accept(strategy, f"cluster.{key}={value}")
        return
    said = refusal(strategy, f"cluster.{key}={value}")
    named = " and ".join(repr(owner) for owner in owners)
    assert said == (
        f"cluster.{key}: strategy '{strategy}' ignores it; it belongs to {named}. Remove it, or "
        f"use strategy '{owners[0]}'"
    )


def test_a_stored_config_may_spell_out_an_earlier_default():
    accept("none", f"cluster.partition_bytes={4 << 20}")


def test_several_replicas_are_for_those_that_have_them():
    for strategy in STRATEGIES:
        if strategy in REPLICATED:
            accept(strategy, "cluster.replicas=3")
        else:
            assert "cannot run with 3; use replicas=1 or strategy 'mirrored'" in refusal(
                strategy, "cluster.replicas=3"
            )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replicas_may_be_those_that_evaluate(strategy):
    overrides = (f"cluster.strategy={strategy}", "cluster.eval_strategy=mirrored")
    cluster = config_file.load("mnist", [*overrides, "cluster.replicas=3"]).cluster
    accept(strategy, *overrides, "cluster.replicas=3")
    assert topology.count_evaluating_replicas(cluster) == 3
    own = strategy in REPLICATED
    assert topology.replicas_per_process(cluster) == (3 if own else 1)


@pytest.mark.parametrize("evaluating", ["mirrored", "central_storage", "one_device"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_evaluating_otherwise_than_training_uses_keys_of_its_own(strategy, evaluating):
    own = (f"cluster.eval_strategy={evaluating}", "cluster.devices=[/cpu:0]")
    accept(strategy, *own)
    value = "cluster.parameter_device=/cpu:1"
    if "central_storage" in (strategy, evaluating):
        accept(strategy, *own, value)
    else:
        assert "belongs to 'central_storage'" in refusal(strategy, *own, value)


@pytest.mark.parametrize(
    ("strategy", "overrides", "gpus", "text"),
    [
        (
            "multi_worker_mirrored",
            ["train.keep_checkpoints=2"],
            0,
            r"train\.keep_checkpoints: 2 is too few for .* use keep_checkpoints=3$",
        ),
        (
            "parameter_server_sync",
            ["cluster.workers=2", "cluster.backup_workers=3"],
            0,
            r"cluster\.backup_workers: 3 of 3 training processes .* use backup_workers=2 at most$",
        ),
        *(
            (
                "mirrored",
                [f"cluster.cross_device_ops={ops}", *devices],
                gpus,
                rf"cluster\.cross_device_ops: '{ops}' adds up between several GPUs and hangs "
                r"without them; use 'reduction_to_one_device'$",
            )
            for ops in ("nccl", "hierarchical_copy")
            for devices, gpus in [
                ([], 0),
                (["cluster.replicas=1"], 1),
                (["cluster.devices=[/cpu:0, /cpu:1]"], 4),
                (["cluster.devices=[/gpu:0]"], 4),
                (["cluster.devices=[/gpu:0, /cpu:0]"], 4),
            ]
        ),
        (
            "multi_worker_mirrored",
            ["cluster.communication=nccl"],
            0,
            r"cluster\.communication: 'nccl' adds up on GPUs, and .* has none; use 'ring'$",
        ),
        (
            "one_device",
            ["cluster.devices=[/gpu:0]"],
            0,
            r"cluster\.devices: '/gpu:0' does not exist, this machine has no GPU; use /cpu:0$",
        ),
        (
            "mirrored",
            ["cluster.devices=[/gpu:1, /gpu:4]"],
            2,
            r"cluster\.devices: '/gpu:4' does not exist, .* has only 2 GPUs; use /gpu:1$",
        ),
        (
            "central_storage",
            ["cluster.parameter_device=/gpu:0"],
            0,
            r"cluster\.parameter_device: '/gpu:0' does not exist, .* use /cpu:0$",
        ),
        (
            "central_storage",
            ["cluster.parameter_device=gpu"],
            0,
            r"cluster\.parameter_device: 'gpu' is not a device such as /cpu:0 or /gpu:1$",
        ),
        (
            "mirrored",
            ["cluster.devices=[/cpu:0, '/device:CPU:0']"],
            0,
            r"cluster\.devices: '/device:CPU:0' is named twice; name each once$",
        ),
        (
            "mirrored",
            ["cluster.devices=[/cpu:0, /cpu:1]", "cluster.replicas=3"],
            0,
            r"cluster\.replicas: 3, but cluster\.devices names 2; use replicas=2$",
        ),
        (
            "mirrored",
            ["cluster.replicas=4"],
            2,
            r"cluster\.replicas: 4, but this machine has 2 GPUs; use replicas=2, or name the CPUs",
        ),
        (
            "one_device",
            ["cluster.devices=[/cpu:0, /cpu:1]"],
            0,
            r"cluster\.replicas: strategy 'one_device' .* cannot run with 2; use replicas=1",
        ),
    ],
)
def test_what_would_hang_or_lose_checkpoints_is_refused(strategy, overrides, gpus, text):
    assert re.match(text, refusal(strategy, *overrides, gpus=gpus))


@pytest.mark.parametrize(
    ("strategy", "overrides", "gpus"),
    [
        ("multi_worker_mirrored", ["train.keep_checkpoints=3"], 0),
        ("mirrored", ["train.keep_checkpoints=2"], 0),
        ("parameter_server_sync", ["cluster.workers=2", "cluster.backup_workers=2"], 0),
        ("mirrored", ["cluster.cross_device_ops=nccl"], 2),
        ("mirrored", ["cluster.cross_device_ops=hierarchical_copy"], 2),
        ("mirrored", ["cluster.devices=[/cpu:0, /cpu:5]", "cluster.replicas=2"], 0),
        ("mirrored", ["cluster.devices=['/device:GPU:0', '/gpu:1']"], 2),
        ("multi_worker_mirrored", ["cluster.communication=nccl"], 1),
        ("central_storage", ["cluster.parameter_device=/gpu:0"], 2),
    ],
)
def test_valid_combinations_are_accepted(strategy, overrides, gpus):
    accept(strategy, *overrides, gpus=gpus)


@pytest.mark.parametrize("override", ["train.summary_steps=0", "train.save_steps=0"])
def test_summaries_and_checkpoints_cannot_be_switched_off(override):
    """Without summaries multi_worker_mirrored writes no checkpoint at all
    (docs/tensorflow-pitfalls.md#no-summaries-no-checkpoints)."""
    with pytest.raises(errors.UsageError, match=r"train\.\w+_steps: input should be greater than"):
        job("multi_worker_mirrored", override)


@pytest.mark.parametrize(
    ("strategy", "overrides", "text"),
    [
        (
            "mirrored",
            ["train.optimizer.average=0.9"],
            r"train\.optimizer\.average: strategy 'mirrored' keeps copies of parameters.* use none",
        ),
        (
            "parameter_server",
            ["train.optimizer.average=0.9", "cluster.ps=2"],
            r"train\.optimizer\.average: 2 parameter servers share large variables.*cluster\.ps=1",
        ),
        (
            "none",
            ["train.optimizer.average=0.9", "cluster.eval_strategy=mirrored"],
            r"train\.optimizer\.average: cluster\.eval_strategy 'mirrored' .* eval_strategy=none",
        ),
        (
            "none",
            ["train.steps=50", "train.optimizer.schedule={name: cosine, warm_up_steps: 50}"],
            r"train\.optimizer\.schedule: of 50 steps 50 are warm-up",
        ),
    ],
)
def test_updates_that_cannot_be_made_are_refused(strategy, overrides, text):
    assert re.match(text, refusal(strategy, *overrides))


@pytest.mark.parametrize("strategy", ["none", "parameter_server", "parameter_server_sync"])
def test_averages_where_a_parameter_is_one_variable(strategy):
    accept(strategy, "train.optimizer.average=0.9")
    accept(strategy, "train.optimizer.average=0.9", "cluster.eval_strategy=central_storage")


def test_fewer_places_than_workers_are_refused():
    said = refusal("parameter_server", "cluster.workers=3", "cluster.max_workers=2")
    assert said == (
        "cluster.max_workers: 2 is less than the 3 workers that the run starts with; use "
        "max_workers=3 or more"
    )


def test_an_all_reduce_adds_up_between_devices_of_one_kind():
    accept(ALL_REDUCE, "cluster.devices=[/cpu:0,/cpu:1]")
    said = refusal(ALL_REDUCE, "cluster.devices=[/cpu:0,/gpu:0]", gpus=1)
    assert said.startswith("cluster.devices: strategy 'multi_worker_mirrored' adds up between dev")
    assert said.endswith("not /cpu:0, /gpu:0; name only CPUs or only GPUs")


def test_training_without_rows_for_eval_is_refused():
    assert refusal("none", "data.split.eval=0") == (
        "data.split: holds out nothing for eval, and training evaluates; hold rows out, such as "
        "split: {eval: 0.1}, or name files in data.inputs.eval"
    )
    accept("none", "data.split.eval=0", "data.inputs.eval={images: a, labels: b}")
    accept("none", "data.split={by: column, column: label, values: {1: train, 2: eval}}")
