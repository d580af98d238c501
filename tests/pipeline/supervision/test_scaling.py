"""Another number of workers: which processes that starts and ends, with fake roles."""

import dataclasses
import json
import pathlib

import pytest

from pipeline.config import config_file
from pipeline.runs import run_folder
from tests.pipeline.supervision.stage import CLUSTER, QUICK

pytestmark = pytest.mark.heavy


class Script:
    """Asks for numbers of workers one after the other, each once the one before is reached; then
    lets the chief end its work."""

    def __init__(self, stage, *wanted, strategy="parameter_server", **cluster):
        self.stage, self.wanted, self.count = stage, list(wanted), 1
        job = config_file.load("mnist", [f"cluster.strategy={strategy}"])
        job = job.model_copy(update={"cluster": job.cluster.model_copy(update=cluster)})
        stage.path.mkdir(parents=True, exist_ok=True)
        pathlib.Path(stage.run_folder.config_path).write_text(config_file.dump(job))
        stage.notes.react = self.look
        self.noted = []
        stage.options["scaled"] = lambda workers, step: self.noted.append(workers)

    def look(self, statuses):
        trains = [n for n, s in statuses.items() if s.state == "training" and "worker" in n]
        if len(trains) != self.count or "chief-0" not in statuses:
            return
        if not self.wanted:
            (self.stage.path / "go").touch()
            return
        self.count = self.wanted.pop(0)
        self.stage.run_folder.write(run_folder.SCALE, {"workers": self.count})


def workers(**plays):
    return {f"worker_{n}": ["train"] for n in range(4)} | plays


def test_workers_join_and_leave_and_no_other_process_is_restarted(stage):
    script = Script(stage, 3, 2, 3, max_workers=4)
    stage.run(worker_places=4, chief_0=["work_on_go"], **workers())
    attempts = {name: len(stage.attempts(name)) for name in stage.names()}
    once = dict.fromkeys(["chief-0", "ps-0", "evaluator-0", "worker-0", "worker-1"], 1)
    assert attempts == {**once, "worker-2": 2}
    assert stage.boss.restarts == []
    assert script.noted == [3, 2, 3]
    (left,) = [line for line in stage.notes.lines if line.endswith("has left")]
    assert left == "worker-2: has left"
    clusters = {cluster for name in stage.names() for _, cluster in stage.attempts(name)}
    (cluster,) = map(json.loads, clusters)  # all know all places
    assert len(cluster["worker"]) == 4


def test_a_worker_that_does_not_leave_is_killed(stage):
    Script(stage, 2, 1, max_workers=2)
    hangs = {"worker_1": ["train_and_ignore"]}
    graces = dataclasses.replace(QUICK, training=0.5)
    stage.run(worker_places=2, graces=graces, chief_0=["work_on_go"], **workers(**hangs))
    assert len(stage.attempts("worker-1")) == 1
    assert stage.boss.restarts == []


def test_a_worker_that_leaves_has_its_grace_to_save(stage):
    Script(stage, 2, 1, max_workers=2)
    late = {"worker_1": ["train_and_save_late"]}
    graces = dataclasses.replace(QUICK, training=60.0)
    stage.run(worker_places=2, graces=graces, chief_0=["work_on_go"], **workers(**late))
    assert (stage.path / "saved-worker-1.json").exists()


def test_a_worker_that_is_lost_meanwhile_comes_back_only_if_it_is_to_stay(stage):
    Script(stage, 2, max_workers=2)
    plays = workers(worker_1=["die", "train"])
    stage.run(worker_places=2, chief_0=["work_on_go"], **plays)
    assert [len(stage.attempts(f"worker-{n}")) for n in (0, 1)] == [1, 2]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (3, "SCALE.json: --workers=3: the parameter servers keep places for 2"),
        (0, "SCALE.json: --workers=0: must be at least 1"),
    ],
)
def test_a_request_that_cannot_be_met_changes_nothing(stage, wanted, text):
    script = Script(stage, wanted, max_workers=2)
    seen = stage.notes.react

    def react(statuses):
        script.count = 1
        seen(statuses)

    stage.notes.react = react
    stage.run(worker_places=2, chief_0=["work_on_go"], **workers())
    assert any(line.startswith(text) for line in stage.notes.lines)
    assert script.noted == []
    assert set(stage.names()) == {"chief-0", "ps-0", "evaluator-0", "worker-0"}


@pytest.mark.parametrize("request_", ['{"workers": "many"}', "["])
def test_rubbish_in_the_place_of_a_request_is_passed_over(stage, request_):
    Script(stage, max_workers=2)
    stage.notes.react = lambda statuses: (
        (stage.path / run_folder.SCALE).write_text(request_),
        (stage.path / "go").touch(),
    )
    stage.run(worker_places=2, chief_0=["work_on_go"], **workers())


def test_all_that_make_each_step_together_save_and_start_again(stage):
    Script(stage, 3, strategy="parameter_server_sync")
    stage.run(unit="gang", chief_0=["train", "work_on_go"], **workers())
    attempts = {name: len(stage.attempts(name)) for name in stage.names()}
    assert attempts == {
        "chief-0": 2,
        "ps-0": 2,
        "evaluator-0": 1,
        "worker-0": 2,
        "worker-1": 1,
        "worker-2": 1,
    }
    assert stage.boss.restarts == []
    assert (stage.path / "saved-chief-0.json").exists()
    assert config_file.load(stage.run_folder.config_path).cluster.workers == 3
    _, second = stage.attempts("chief-0")
    assert len(json.loads(second[1])["worker"]) == 3


def test_the_usual_cluster_has_no_place_to_spare(stage):
    Script(stage)
    stage.run(CLUSTER, chief_0=["work_on_go"], **workers())
    assert len(json.loads(stage.attempts("chief-0")[0][1])["worker"]) == 1
