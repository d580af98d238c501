"""Nodes that a job cannot train on, and the commands of its steps."""

from __future__ import annotations

import itertools
import json
import sys
import time
import types

import pytest

from pipeline import errors, versions
from pipeline.launchers.slurm import check, commands, steps
from pipeline.processes import environment
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

OWN = {"python": ".".join(map(str, sys.version_info[:3])), "code": versions.code_version()}
TRACEBACK = """\
Traceback (most recent call last):
  File "/shared/project/pipeline/launchers/slurm/main.py", line 11, in <module>
    from absl import flags
ModuleNotFoundError: No module named 'absl'"""


def check_nothing_is_waited_for(seconds):
    assert not seconds


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    """An allocation of two nodes, and what a step there answers."""
    answers = [{"node": "n1", **OWN, "taken": []}, {"node": "n2", **OWN, "taken": []}]
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    run = RunFolder(str(tmp_path / "run"))
    counts = {"chief": 1, "worker": 2}
    listed = [steps.Node("n1", "10.0.0.1"), steps.Node("n2", "10.0.0.2")]
    allocation = steps.Allocation(run, "/s", listed, counts, "7", cpus=2)

    def answer(
        *,
        errors_of: str = "",
        bare: str = OWN["python"],
        tries: int = 20,
        outage: str = "",
        lasts: int = 0,
        ends: int = 0,
        hangs: bool = False,
        wait=check_nothing_is_waited_for,
        **changes,
    ):
        """Of the first calls of srun as many as the outage `lasts` fail with its words, or never
        end at all."""
        answers[1].update(changes)
        calls = tmp_path / "calls"
        (folder / "srun").write_text(
            f"""#!{sys.executable}
import json, sys, time
assert "--export=ALL" in sys.argv, "tasks would get no variables after sbatch --export=NONE"
calls = open({str(calls)!r}, "a")
print(file=calls, flush=True)
if len(open({str(calls)!r}).readlines()) <= {lasts}:
    print({outage!r}, file=sys.stderr, flush=True)
    time.sleep(600 if {hangs} else 0)
    sys.exit(1)
if "-c" in sys.argv:
    print({bare!r})
    sys.exit()
nonce = json.load(open({f"{run.path}/{check.SEEN}"!r}))["nonce"]
for one in {answers!r}:
    if one["node"]:
        print(json.dumps({{"nonce": nonce, **one}}))
print({errors_of!r}, file=sys.stderr)
sys.exit({ends})
"""
        )
        (folder / "srun").chmod(0o755)
        return allocation.ports(0, lowest=10240, highest=32767, tries=tries, wait=wait)

    return answer


def test_nodes_that_are_fit(nodes):
    assert nodes() == 10240 + 7 * 977


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nonce": None}, r"^node n2: does not see '.*run'. Use a STORAGE= that all nodes share"),
        ({"python": "3.9.1"}, "^node n2: its Python is 3.9.1, that of the job "),
        ({"code": "abc"}, "^node n2: its code is abc, that of the job .*. Install the same on all"),
        (
            {"node": "", "errors_of": "slurmstepd-n2: error: execve(): x: No such file"},
            r"^node n2: cannot run .*: execve\(\): x: No such file. Install the pipeline where all",
        ),
        (
            {"node": "", "errors_of": f"{TRACEBACK}\nsrun: error: n2: task 1: Exited with 1"},
            "^node n2: cannot run .* pipeline.launchers.slurm.main: ModuleNotFoundError: No module "
            "named 'absl'. Install the pipeline where all",
        ),
        (
            {"node": "", "errors_of": TRACEBACK, "bare": "3.9.1"},
            "^node n2: its Python is 3.9.1, that of the job 3.*. Install the same on all nodes$",
        ),
    ],
)
def test_nodes_that_are_not(nodes, changes, words):
    with pytest.raises(errors.UsageError, match=words):
        nodes(**changes)


OUTAGES = (
    "srun: error: Unable to confirm allocation for job 7: Unable to contact slurm controller",
    "srun: error: Unable to create step for job 7: Requested nodes are busy",
    "srun: error: Unable to create step for job 7: Zero Bytes were transmitted or received",
    "srun: error: Munge encode failed: Failed to access '/run/munge/socket': No such file",
    "srun: error: Task launch for StepId=7.1 failed on node n2: Communication connection failure",
)


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_controller_that_does_not_answer_is_waited_for(nodes, capsys, outage):
    waited = []
    assert nodes(outage=outage, lasts=3, wait=waited.append) == 10240 + 7 * 977
    assert [seconds for seconds in waited if seconds] == [10.0] * 3
    words = outage.removeprefix("srun: error: ")
    assert capsys.readouterr().out == f"node n1, n2: {words}; waiting\n", "once"


def test_a_controller_that_never_answers_ends_the_job_for_now(nodes):
    waited = []
    words = "^node n1, n2: Unable to confirm .* slurm controller. Run the same command again.$"
    with pytest.raises(errors.RetryableError, match=words):
        nodes(outage=OUTAGES[0], lasts=1000, wait=waited.append)
    assert [seconds for seconds in waited if seconds] == [10.0] * 30


def test_the_wait_for_a_controller_ends_when_the_job_is_to_end(nodes):
    def stop(seconds):
        raise errors.StoppedError("stopped by SIGTERM")

    with pytest.raises(errors.StoppedError, match=r"^stopped by SIGTERM$"):
        nodes(outage=OUTAGES[0], lasts=1000, wait=stop)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """What Slurm lists of the steps of the job; it is asked at each look, once srun has begun."""
    calls = tmp_path / "calls"
    made = types.SimpleNamespace(answers=["7.batch\n"], asked=[])

    def ask(*words):
        while not (calls.exists() and calls.read_text()):
            time.sleep(0.01)
        made.asked.append(words)
        answer = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
        if answer == "away":
            raise errors.RetryableError("Unable to contact slurm controller")
        return answer

    monkeypatch.setattr(commands, "ask", ask)
    # A later step may take its time.
    silences = itertools.chain([0.0], itertools.repeat(60.0))
    monkeypatch.setattr(run_folder, "silence", lambda run: next(silences))
    monkeypatch.setattr(steps, "_POLL", 0.05)
    return made


def test_a_check_whose_srun_never_ends_is_tried_again(nodes, slurm, capsys):
    """The controller was away when it started, and does not know its step."""
    slurm.answers = ["away", "away", "7.batch\n7.1\n", "7.batch\n"]
    waited = []
    assert nodes(hangs=True, lasts=1, wait=waited.append) == 10240 + 7 * 977
    assert [seconds for seconds in waited if seconds] == [10.0]
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "node check: not done after 0 s; waiting",
        "node check: srun waits for a step that Slurm does not list: ending srun",
    ]
    assert said[2:] == ["node n1, n2: it printed nothing; waiting"]
    assert not [words for words in slurm.asked if words[0] == "scancel"]


def test_a_check_that_slurm_lists_is_waited_for_until_the_job_is_to_end(nodes, slurm, capsys):
    slurm.answers = ["7.batch\n7.1\n"]

    def wait(seconds):
        if len(slurm.asked) == 5:
            raise errors.StoppedError("stopped by SIGTERM")

    with pytest.raises(errors.StoppedError, match=r"^stopped by SIGTERM$"):
        nodes(hangs=True, lasts=1, wait=wait)
    assert capsys.readouterr().out == "node check: not done after 0 s; waiting\n", "once"


def test_a_node_where_the_check_fails_for_good(nodes):
    with pytest.raises(errors.DataError, match=r"^node n2: error: run.json: not JSON$"):
        nodes(node="", errors_of="error: run.json: not JSON", ends=65)


def test_ports_that_are_always_taken(nodes, capsys):
    with pytest.raises(
        errors.RetryableError, match=r"^no 3 free ports in a row on n1, n2, tried 2 t"
    ):
        nodes(taken=[12000], tries=2)
    assert "n2:12000 taken; trying others" in capsys.readouterr().out


def test_a_training_step(tmp_path):
    listed = [steps.Node("n1", "10.0.0.1")]
    made = steps.Allocation(RunFolder("/s/runs/r"), "/s", listed, {"chief": 1, "ps": 1}, "7", 4)
    words = made.command(gpus=1)
    assert words[:3] == ["srun", "--ntasks=2", "--nodes=1"]
    assert {"--kill-on-bad-exit=1", "--wait=0", "--cpus-per-task=4", "--gpus-per-task=1"} < {*words}
    assert "--export=ALL" in words
    assert words[-3:] == ["--part=agent", "--run=r", "--storage=/s"]
    told = json.loads(made.variables(9000)["PIPELINE_SLURM"])
    counts = {"chief": 1, "ps": 1}
    assert told == {"hosts": ["10.0.0.1"], "port": 9000, "counts": counts, "places": []}


def test_workers_that_may_join_have_addresses_on_the_first_node():
    listed = [steps.Node("n1", "10.0.0.1"), steps.Node("n2", "10.0.0.2")]
    counts = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    made = steps.Allocation(RunFolder("/s/runs/r"), "/s", listed, counts, "7", places=2)
    told = json.loads(made.variables(9000)["PIPELINE_SLURM"])
    assert told["places"] == ["10.0.0.1:9004", "10.0.0.1:9005"]
    assert made.command(gpus=0)[1] == "--ntasks=4"


def test_nodes_by_their_addresses(monkeypatch):
    said = {
        "hostnames": "n1\nn2\n",
        "node": "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1 Version=22\n"
        "NodeName=n2 Arch=x86_64 NodeAddr=10.0.0.2 NodeHostName=n2 Version=22\n",
    }
    asked = []
    monkeypatch.setattr(commands, "ask", lambda *words: asked.append(words) or said[words[-2]])
    found = steps.nodes_of({"SLURM_JOB_NODELIST": "n[1-2]"})
    assert found == [steps.Node("n1", "10.0.0.1"), steps.Node("n2", "10.0.0.2")]
    assert {words[-1] for words in asked} == {"n[1-2]"}


@pytest.mark.parametrize(
    ("variables", "processors"),
    [({}, 8), ({"SLURM_CPUS_ON_NODE": "3"}, 3), ({"SLURM_CPUS_ON_NODE": "16"}, 8)],
)
def test_the_processors_of_a_job_are_not_all_of_a_node(monkeypatch, variables, processors):
    monkeypatch.setattr(environment, "processors", lambda: 8)
    assert steps.processors(variables) == processors
