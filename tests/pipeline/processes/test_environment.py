import os
import pathlib
import re

import pytest

from pipeline import packages
from pipeline.processes import environment

ROOT = pathlib.Path(__file__).resolve().parents[3]

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "AKIA0123456789",
    "GITHUB_TOKEN": "ghp_secret",
    "DB_PASSWORD": "hunter2",
    "SSH_AUTH_SOCK": "/tmp/agent",
}


def test_secrets_stay_behind():
    assert not set(environment.filter_for_children(SECRETS)) & set(SECRETS)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "TF_NUM_INTRAOP_THREADS",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "LD_LIBRARY_PATH",
        "OMP_NUM_THREADS",
        "KMP_AFFINITY",
        "NCCL_DEBUG",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GCS_STAT_CACHE_MAX_AGE",
        "CURL_CA_BUNDLE",
        "HTTPS_PROXY",
        "NO_PROXY",
        "PIPELINE_ANYTHING",
    ],
)
def test_what_processes_need_gets_through(name):
    assert environment.filter_for_children({name: "value"})[name] == "value"


@pytest.mark.parametrize("name", ["TF_CONFIG", "CLUSTER_SPEC", "TF_USE_MODULAR_FILESYSTEM"])
def test_what_would_mislead_tensorflow_is_removed(name):
    assert name not in environment.filter_for_children({name: "1"})


@pytest.mark.parametrize(
    "name", ["http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "no_proxy"]
)
def test_grpc_sees_no_proxy(name):
    assert name not in environment.filter_for_children({name: "http://127.0.0.1:9"})


def test_a_lowercase_proxy_still_serves_gs():
    given = {"https_proxy": "http://lower:1", "all_proxy": "socks5://any:1", "no_proxy": "local"}
    found = environment.filter_for_children(given)
    assert (found["HTTPS_PROXY"], found["NO_PROXY"]) == ("http://lower:1", "local")
    assert found["ALL_PROXY"] == "socks5://any:1"
    given["HTTPS_PROXY"] = "http://upper:1"
    assert environment.filter_for_children(given)["HTTPS_PROXY"] == "http://upper:1"


def test_proxies_of_this_process_are_hidden_from_grpc_alone():
    given = {"http_proxy": "http://h:1", "grpc_proxy": "http://g:1", "https_proxy": "http://s:1"}
    given |= {"HTTP_PROXY": "http://upper:1", "HTTPS_PROXY": "http://upper:1", **SECRETS}
    environment.hide_proxies_from_grpc(given)
    assert given == {"HTTP_PROXY": "http://upper:1", "HTTPS_PROXY": "http://upper:1", **SECRETS}


def test_the_user_can_have_more_of_tensorflows_log():
    assert environment.filter_for_children({})["TF_CPP_MIN_LOG_LEVEL"] == "2"
    assert (
        environment.filter_for_children({"TF_CPP_MIN_LOG_LEVEL": "0"})["TF_CPP_MIN_LOG_LEVEL"]
        == "0"
    )


def _of(role, given=None, processors=8, trainers=1):
    return environment.build_for_role(role, given or {}, processors=processors, trainers=trainers)


@pytest.mark.parametrize(
    ("gpus", "seen"),
    [(None, {}), ([], {"CUDA_VISIBLE_DEVICES": ""}), (["2", "3"], {"CUDA_VISIBLE_DEVICES": "2,3"})],
)
def test_a_process_sees_the_gpus_that_it_is_given(gpus, seen):
    found = environment.build_for_role("worker", {}, processors=8, trainers=1, gpus=gpus)
    assert found == seen


def test_parameter_servers_leave_the_gpus_alone():
    assert _of("ps") == {"CUDA_VISIBLE_DEVICES": ""}
    assert _of("worker") == {}


@pytest.mark.parametrize(
    ("processors", "trainers", "threads"), [(8, 2, "4"), (2, 2, "1"), (8, 3, "2"), (1, 4, "1")]
)
def test_trainers_share_the_processors(processors, trainers, threads):
    for role in ("chief", "worker", "ps"):
        found = _of(role, processors=processors, trainers=trainers)
        assert found["TF_NUM_INTRAOP_THREADS"] == threads
    # It works while the others wait, at the end.
    assert _of("evaluator", processors=processors, trainers=trainers) == {}


def test_threads_that_the_user_has_set_stay():
    assert _of("worker", {"TF_NUM_INTRAOP_THREADS": "3"}, trainers=2) == {}


def test_processors_are_counted_on_other_systems_too(monkeypatch):
    assert 1 <= environment.processors() <= os.cpu_count()
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.delattr("os.sched_getaffinity")
    assert environment.processors() == os.cpu_count()


def test_a_script_gets_all_that_its_user_has_but_another_s_place():
    given = {**SECRETS, "TF_CONFIG": "{}", "CLUSTER_SPEC": "{}", "http_proxy": "http://p"}
    assert environment.filter_for_scripts({**given, "TF_CPP_MIN_LOG_LEVEL": "0"}) == {
        **SECRETS,
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "PYTHONUNBUFFERED": "1",
    }


def test_a_page_says_which_variables_reach_code_of_the_users_own():
    text = (ROOT / "docs" / "security.md").read_text()
    named = set(re.findall("`([A-Z_]+)`", text))
    assert {"PIPELINE_MY_TOKEN", "EMB_LOG"} <= named
    given = dict.fromkeys(named, "x")
    assert set(environment.filter_for_children(given)) & named == {"PIPELINE_MY_TOKEN", "PIPELINE_"}
    for page in ("models.md", "own-input.md"):
        assert "security.md#secrets" in (ROOT / "docs" / page).read_text()


def test_the_variable_of_native_logs_is_named_in_one_module():
    named_in = [
        str(path.relative_to(ROOT))
        for package in packages.NAMES
        for path in sorted((ROOT / package).rglob("*.py"))
        if f'"{environment.NATIVE_LOG}"' in path.read_text()
    ]
    assert named_in == ["pipeline/processes/environment.py"]
