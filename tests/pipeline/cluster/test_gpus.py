import pytest

from pipeline import errors
from pipeline.cluster import gpus, topology
from pipeline.config import config_file


@pytest.fixture
def devices(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidia-uvm", "nvidiactl", "sda"):
        (tmp_path / name).touch()
    return str(tmp_path)


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 2), ("", 0), ("-1", 0), ("0", 1), ("1,0", 2), ("0,-1,1", 1), ("0,1,2", 2)],
)
def test_devices_are_counted_as_cuda_sees_them(devices, visible, count):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpus.count(environment, devices) == count


def test_a_machine_without_any_has_none(tmp_path):
    assert gpus.count({}, str(tmp_path)) == 0
    assert gpus.count({}, str(tmp_path / "absent")) == 0


ALL_REDUCE, ON_SERVERS = "multi_worker_mirrored", "parameter_server_strategy"


def load(strategy, *settings):
    return config_file.load("mnist", [f"cluster.strategy={strategy}", *settings])


def shared(there, trainers, each):
    """What chief, workers, evaluator and parameter server of a cluster see."""
    tasks = [("chief", 0), *(("worker", n) for n in range(trainers - 1))]
    tasks += [("evaluator", 0), ("ps", 0)]
    workers = ("h:2",) * (trainers - 1)
    cluster = {"chief": ("h:1",), "ps": ("h:3",)} | ({"worker": workers} if workers else {})
    return [gpus.share(topology.Task(*t, cluster), there=there, each=each) for t in tasks]


@pytest.mark.parametrize(
    ("there", "trainers", "each", "seen"),
    [
        ("abcd", 2, 2, ["ab", "cd", "", ""]),
        ("abcde", 2, 2, ["ab", "cd", "e", ""]),
        ("abcd", 2, 1, ["a", "b", "c", ""]),
        ("ab", 3, 1, ["a", "b", "a", "", ""]),
        ("a", 2, 1, ["a", "a", "", ""]),
        ("", 2, 1, [None, None, None, ""]),
        ("abcd", 1, 4, [None, None, ""]),
    ],
)
def test_each_process_gets_its_own_and_the_evaluator_what_is_left(there, trainers, each, seen):
    expected = [None if names is None else list(names) for names in seen]
    assert shared(list(there), trainers, each) == expected


def test_an_evaluator_with_a_strategy_of_its_own_sees_all():
    task = topology.Task("evaluator", 0, {"chief": ("h:1",), "worker": ("h:2",)})
    assert gpus.share(task, there=["a", "b"], each=1) == []
    assert gpus.share(task, there=["a", "b"], each=1, evaluating="mirrored") is None


@pytest.mark.parametrize(
    ("strategy", "settings", "there", "each"),
    [
        (ALL_REDUCE, [], 4, 2),
        (ALL_REDUCE, [], 5, 2),
        (ALL_REDUCE, [], 1, 1),
        (ALL_REDUCE, [], 0, 1),
        (ALL_REDUCE, ["cluster.replicas=1"], 4, 1),
        (ALL_REDUCE, ["cluster.devices=[/cpu:0,/cpu:1]"], 0, 2),
        (ON_SERVERS, [], 5, 2),
        (ON_SERVERS, ["cluster.replicas=1"], 4, 1),
        ("parameter_server", [], 4, 1),
    ],
)
def test_strategies_of_tf_distribute_use_all_gpus_and_others_one_a_process(
    strategy, settings, there, each
):
    assert gpus.gpus_per_process(load(strategy, *settings).cluster, there) == each


def test_more_replicas_than_there_are_gpus_are_refused():
    job = load(ALL_REDUCE, "cluster.replicas=3")
    match = r"^cluster\.replicas: 3 in each of 2 processes, but this machine has 4 GPUs; use repl"
    with pytest.raises(errors.UsageError, match=match):
        gpus.gpus_per_process(job.cluster, 4)
    assert gpus.gpus_per_process(job.cluster, 0) == 3  # on logical CPUs


def test_replicas_of_visible_gpus_count_in_the_step_the_rate_and_the_batch():
    settings = ("train.optimizer={name: sgd, learning_rate: 0.1, scale: linear}",)
    job = load(ALL_REDUCE, "train.batch_size=64", *settings)
    assert topology.examples_per_step(job) == 2 * 64
    counted = gpus.with_replicas(job, 4)
    assert counted.cluster.replicas == 4
    assert topology.examples_per_step(counted) == 2 * 4 * 64
    assert topology.examples_per_process(counted) == 4 * 64
    assert topology.learning_rate(counted) == pytest.approx(0.8)
    whole = load(ALL_REDUCE, "train.batch_size=64", "train.batch_size_is=global")
    assert topology.batch_per_replica(gpus.with_replicas(whole, 4)) == 8


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        (ALL_REDUCE, ["cluster.replicas=2"]),
        (ALL_REDUCE, ["cluster.devices=[/gpu:1]"]),
        ("parameter_server", []),
        ("parameter_server_sync", []),
        ("none", []),
    ],
)
def test_where_the_config_says_it_or_one_is_used_nothing_is_counted(strategy, settings):
    job = load(strategy, *settings)
    assert gpus.with_replicas(job, 4) == job


def test_replicas_of_processes_that_step_by_themselves_count_in_their_own_steps():
    settings = ("train.batch_size=64", "train.optimizer={name: sgd, scale: linear}")
    job = load(ON_SERVERS, *settings, "train.optimizer.learning_rate=0.1")
    counted = gpus.with_replicas(job, 4)
    assert topology.examples_per_process(counted) == topology.examples_per_step(counted) == 4 * 64
    assert topology.learning_rate(counted) == pytest.approx(0.4)
    whole = load(ON_SERVERS, "train.batch_size=64", "train.batch_size_is=global")
    assert topology.batch_per_replica(gpus.with_replicas(whole, 4)) == 16


def test_a_promised_gpu_that_is_not_there_is_refused():
    match = r"^this machine has 2 GPUs by the config, and TensorFlow sees none\. Use an image with"
    with pytest.raises(errors.UsageError, match=match):
        gpus.check_promised({gpus.PROMISED: "2"}, 0)


@pytest.mark.parametrize(("promised", "seen"), [("2", 1), ("", 0), ("0", 0)])
def test_a_machine_with_what_was_promised_is_taken(promised, seen):
    gpus.check_promised({gpus.PROMISED: promised}, seen)
    gpus.check_promised({}, 0)
