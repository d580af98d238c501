"""What Slurm's programs say, through stand-ins for them."""

from __future__ import annotations

import pathlib
import re

import pytest

from pipeline import errors
from pipeline.launchers.slurm import commands


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a program of Slurm in place that says something and ends with a code."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def put(name: str, *, out: str = "", err: str = "", code: int = 0) -> pathlib.Path:
        path = tmp_path / name
        given = tmp_path / f"{name}.given"
        path.write_text(
            f'#!/bin/sh\necho "$@" > {given}\ncat >> {given}\n'
            f"cat <<'END'\n{out}\nEND\ncat >&2 <<'END'\n{err}\nEND\nexit {code}\n"
        )
        path.chmod(0o755)
        return given

    return put


def test_a_machine_without_slurm(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.UsageError, match=r"^CLUSTER=slurm: no sbatch, squeue, scontrol on"):
        commands.require()
    with pytest.raises(errors.UsageError, match="no squeue on this machine"):
        commands.state("1")


def test_a_job_is_submitted_by_its_script(program):
    given = program("sbatch", out="17;other")
    assert commands.submit("#!/bin/bash\nexec true\n") == "17"
    assert given.read_text() == "--parsable\n#!/bin/bash\nexec true\n"


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (
            "sbatch: error: invalid partition specified: x\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified",
            errors.UsageError,
            "^sbatch: invalid partition specified: x; Batch job submission failed: Invalid "
            r"partition name specified\. Choose one that sinfo shows, with slurm\.partition$",
        ),
        (
            "sbatch: error: Batch job submission failed: User's group not permitted to use this "
            "partition",
            errors.UsageError,
            r"User's group not permitted to use this partition\. Choose a partition that",
        ),
        (
            "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
            "squeue: fatal: Could not establish a configuration source",
            errors.UsageError,
            r"Could not establish a configuration source\. This machine is of no cluster\. Run",
        ),
        (
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
            errors.RetryableError,
            "sleeping and retrying. Run the same command again.$",
        ),
        (
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            errors.RetryableError,
            "Unable to contact slurm controller .*. Run the same command again.$",
        ),
        (
            "slurm_load_jobs error: Zero Bytes were transmitted or received",
            errors.RetryableError,
            "or received. The controller is busy, or munge has another key or clock here than "
            "there. Run the same command again.$",
        ),
        (
            "sbatch: error: Munge encode failed: Failed to access '/run/munge/socket': Connection "
            "refused\nsbatch: error: Batch job submission failed: Protocol authentication error",
            errors.RetryableError,
            "Protocol authentication error. Ask the cluster's administrator: munge has to run here,"
            " with the key of the cluster. Run the same command again.$",
        ),
        ("", errors.UsageError, "^sbatch: it gives no reason$"),
    ],
)
def test_refusals_are_reported_in_slurm_s_own_words(program, said, kind, words):
    program("sbatch", err=said, code=1)
    with pytest.raises(kind, match=words):
        commands.submit("#!/bin/bash\n")


def test_states(program):
    program("squeue", out="PENDING|Resources")
    assert commands.state("3") == ("PENDING", "Resources")
    program("squeue", out="RUNNING|None")
    assert commands.state("3") == ("RUNNING", "")
    program("squeue", err="slurm_load_jobs error: Invalid job id specified", code=1)
    assert commands.state("3") == ("COMPLETED", "")  # forgotten
    program("squeue", err="slurm_load_jobs error: Socket timed out on send/recv", code=1)
    with pytest.raises(errors.RetryableError, match="Socket timed out"):
        commands.state("3")


def test_states_of_an_array(program):
    given = program("squeue", out="3_0|RUNNING|None\n3_1|PENDING|JobArrayTaskLimit")
    assert commands.states("3") == {"3_0": ("RUNNING", ""), "3_1": ("PENDING", "JobArrayTaskLimit")}
    assert "--array" in given.read_text()
    program("squeue", err="slurm_load_jobs error: Invalid job id specified", code=1)
    assert commands.states("3") == {}
    program("squeue")
    assert commands.state("3_1") == ("CANCELLED", "")  # before it started


def test_jobs_of_an_array_are_found_by_their_comment(program):
    program("squeue", out="3_0|COMPLETED|a:/x\n3_2|RUNNING|a:/x\n3_10|PENDING|a:/x\n4|RUNNING|b")
    assert commands.find_array("a:/x") == {2: "3_2", 10: "3_10"}


def test_a_job_is_found_by_its_comment(program):
    program("squeue", out="3|COMPLETED|a:/x\n4|RUNNING|a:/y\n5|PENDING|a:/x|b")
    assert commands.find("a:/y") == "4"
    assert commands.find("a:/x|b") == "5"
    assert commands.find("a:/x") is None


def test_a_configuration_that_is_not_there_is_not_waited_for(program, tmp_path, monkeypatch):
    program("squeue", out="RUNNING|None")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "nowhere.conf"))
    with pytest.raises(errors.UsageError, match=r"^SLURM_CONF='.*nowhere.conf': not found\. Name"):
        commands.state("3")


@pytest.mark.parametrize("name", ["sbatch", "squeue", "scancel", "sinfo", "sacctmgr", "scontrol"])
def test_variables_of_the_shell_do_not_change_what_a_program_is_asked(tmp_path, monkeypatch, name):
    """SQUEUE_PARTITION hides a job, SBATCH_TIMELIMIT counts more than its script, and what an
    allocation has set may contradict it."""
    for given in (
        "SQUEUE_PARTITION", "SQUEUE_STATES", "SCANCEL_STATE", "SINFO_FORMAT", "SACCT_FORMAT",
        "SBATCH_TIMELIMIT", "SBATCH_EXPORT", "SLURM_EXPORT_ENV", "SLURM_MEM_PER_CPU",
        "SLURM_JOB_ID", "SALLOC_PARTITION", "SRUN_EXPORT_ENV",
    ):  # fmt: skip
        monkeypatch.setenv(given, "x")
    conf = tmp_path / "slurm.conf"
    conf.touch()
    monkeypatch.setenv("SLURM_CONF", str(conf))
    monkeypatch.setenv("SLURM_CLUSTERS", "big")
    path = tmp_path / name
    path.write_text("#!/bin/sh\nenv\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    seen = {line.partition("=")[0] for line in commands.ask(name).splitlines()}
    assert {one for one in seen if re.match("S[A-Z]+_", one) and "SSL" not in one} == {
        "SLURM_CONF",
        "SLURM_CLUSTERS",
    }


def test_variables_of_sbatch_that_are_ignored_are_named(program, monkeypatch, capsys):
    program("sbatch", out="17")
    commands.submit("#!/bin/bash\n")
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("SBATCH_TIMELIMIT", "1")
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    commands.submit("#!/bin/bash\n")
    assert capsys.readouterr().out == (
        "note: SBATCH_PARTITION, SBATCH_TIMELIMIT: not used for this job. Set the same in the "
        "slurm section of the config\n"
    )
