"""What is given to kubectl, held by files. To write them again after a change that is meant:
REGENERATE=1 python -m pytest tests/pipeline/launchers/k8s, and read the difference."""

import functools
import os
import pathlib
import re
import typing

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from pipeline import errors, versions
from pipeline.config import config_file
from pipeline.launchers.k8s import launcher, manifest
from tests.pipeline.jobs.jobs import plan
from tests.pipeline.launchers.k8s import jobset_rules, object_rules
from tests.support import json_schema

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "golden" / "k8s"
SUBMISSION = "5f2c41aa00112233"
EVERYTHING = (
    "cluster.strategy=parameter_server",
    "cluster.workers=3",
    "cluster.ps=2",
    "k8s.resources={worker: {cpu: '4', cpu_limit: '8', memory: 16Gi, disk: 50Gi, gpus: 2}}",
    "k8s.service_account=trainer",
    "k8s.queue=team",
    "k8s.priority_class=low",
    "k8s.env_from=[keys]",
    "k8s.image_pull_secrets=[registry]",
    "k8s.labels={team: vision}",
    "k8s.node_selector={example.org/pool: gpu}",
    "k8s.tolerations=[{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
    "k8s.pvc=data",
    "k8s.mount_path=/shared",
    "k8s.timeout_hours=1.5",
)
MODES = ("multi_worker_mirrored", "parameter_server", "parameter_server_sync")
CASES = {
    **{mode: (f"cluster.strategy={mode}", "cluster.workers=2") for mode in MODES},
    "parameter_server_strategy": ("cluster.strategy=parameter_server_strategy",),
    "single": ("cluster.strategy=none",),
    "everything": EVERYTHING,
    "plain-jobs": ("k8s.kind=job", "cluster.workers=2"),
    "tfjob": ("k8s.kind=tfjob", *EVERYTHING),
}


@functools.cache
def wanted(case: str):
    root = "/shared/output" if "k8s.pvc=data" in CASES[case] else "gs://my-bucket/root"
    return plan(*CASES[case], storage_root=root)


def documents(case: str) -> list[dict]:
    return manifest.build_documents(wanted(case), SUBMISSION)


def pod_templates(case: str) -> list[dict]:
    """The pod template of each role, whatever kind the job is of."""
    *others, last = documents(case)
    if last["kind"] == "JobSet":
        return [one["template"]["spec"]["template"] for one in last["spec"]["replicatedJobs"]]
    if last["kind"] == "TFJob":
        return [one["template"] for one in last["spec"]["tfReplicaSpecs"].values()]
    return [one["spec"]["template"] for one in (*others, last) if one["kind"] == "Job"]


@pytest.mark.parametrize("case", CASES)
def test_objects_are_those_of_the_golden_files(case, monkeypatch):
    monkeypatch.setattr(versions, "code_version", lambda: "0123456789ab")
    made = documents(case)
    del made[0]["data"]  # the config, which names files of this machine
    path, text = GOLDEN / f"{case}.yaml", manifest.dump_yaml(made)
    if os.environ.get("REGENERATE"):
        path.write_text(text)
    assert text == path.read_text()
    assert [*yaml.safe_load_all(text)] == made


@pytest.mark.parametrize("case", CASES)
def test_objects_fit_the_schemas_of_kubernetes_and_jobset(case):
    schemas = json_schema.Schemas(GOLDEN / "schemas")
    for one in documents(case):
        if one["kind"] != "TFJob":
            assert schemas.errors(one, *object_rules.DEFINITIONS[one["kind"]]) == []
        if one["kind"] == "JobSet":
            assert jobset_rules.refusals(one) == []
            for of_role in one["spec"]["replicatedJobs"]:
                job = {"apiVersion": "batch/v1", "kind": "Job", **of_role["template"]}
                assert schemas.errors(job, *object_rules.DEFINITIONS["Job"]) == []
    for template in pod_templates(case):
        assert schemas.errors(template, *object_rules.DEFINITIONS["PodTemplate"]) == []


def test_a_schema_finds_what_is_wrong():
    schemas = json_schema.Schemas(GOLDEN / "schemas")
    job_set = documents("single")[-1]
    job_set["spec"]["failurePolicy"]["rules"][0]["action"] = "Explode"
    job_set["spec"]["sucessPolicy"] = {}
    job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = "1"
    assert schemas.errors(job_set, *object_rules.DEFINITIONS["JobSet"]) == [
        ".spec.failurePolicy.rules[0].action: 'Explode' is none of ['FailJobSet', "
        "'RestartJobSet', 'RestartJobSetAndIgnoreMaxRestarts', 'RestartJob', "
        "'RestartJobAndIgnoreMaxRestarts']",
        ".spec.replicatedJobs[0].template.spec.completions: '1' is no integer",
        ".spec.sucessPolicy: unknown",
    ]


def _damage(spec: dict, damage: str) -> None:
    rules = spec["failurePolicy"]["rules"]
    if damage == "no such role":
        spec["successPolicy"]["targetReplicatedJobs"] = ["judge"]
    elif damage == "no such reason":
        rules[0]["onJobFailureReasons"] = ["Bored"]
    elif damage == "one name twice":
        rules[1]["name"] = rules[0]["name"]
    elif damage == "a bad name":
        rules[0]["name"] = "failed-for-good"
    else:
        spec["network"]["subdomain"] = "1st"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("no such role", "invalid replicatedJob name 'judge' does not appear"),
        ("no such reason", "invalid job failure reason 'Bored' in failure policy"),
        ("one name twice", "rule names are not unique, rules with indices [0 1]"),
        ("a bad name", "invalid failure policy rule name 'failed-for-good'"),
        ("a bad host name", "spec.network.subdomain: Invalid value: '1st'"),
    ],
)
def test_rules_of_jobset_find_what_its_schema_allows(damage, words):
    job_set = documents("parameter_server")[-1]
    _damage(job_set["spec"], damage)
    (found,) = jobset_rules.refusals(job_set)
    assert words in found


@pytest.mark.parametrize("case", CASES)
def test_pods_pass_the_restricted_pod_security_standard(case):
    """By the rules in Kubernetes' page Pod Security Standards, profile Restricted."""
    volumes = {"configMap", "csi", "downwardAPI", "emptyDir", "persistentVolumeClaim", "secret"}
    for template in pod_templates(case):
        spec = template["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & {*spec}
        assert all(({*one} - {"name"}) <= volumes for one in spec["volumes"])
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] != 0
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert not security.get("privileged")
            assert not any("hostPort" in port for port in container.get("ports", []))


@pytest.mark.parametrize("case", CASES)
def test_only_the_pods_of_the_job_reach_its_servers(case):
    policy = documents(case)[1]["spec"]
    selected = policy["podSelector"]["matchLabels"].items()
    assert policy["ingress"][0]["from"] == [{"podSelector": policy["podSelector"]}]
    for template in pod_templates(case):
        assert selected <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("case", ["single", "parameter_server", "plain-jobs"])
def test_pods_find_the_config_that_was_planned(case, tmp_path):
    config_map = documents(case)[0]
    for template in pod_templates(case):
        (container,) = template["spec"]["containers"]
        volume = next(one for one in template["spec"]["volumes"] if one["name"] == "config")
        assert volume["configMap"]["name"] == config_map["metadata"]["name"]
        mount = next(one for one in container["volumeMounts"] if one["name"] == "config")
        (name,) = config_map["data"]
        assert f"--config={mount['mountPath']}/{name}" in container["args"]
    (tmp_path / name).write_text(config_map["data"][name])
    assert config_file.load(str(tmp_path / name)) == wanted(case).config


@pytest.mark.parametrize(
    ("case", "unit"),
    [
        ("parameter_server", "task"),
        ("parameter_server_strategy", "task"),
        ("single", "task"),
        ("multi_worker_mirrored", "gang"),
        ("parameter_server_sync", "gang"),
    ],
)
def test_what_is_restarted_is_a_task_or_the_gang(case, unit):
    jobs = {one["name"]: one for one in documents(case)[-1]["spec"]["replicatedJobs"]}
    for role, one in jobs.items():
        spec = one["template"]["spec"]
        final, *others = spec["podFailurePolicy"]["rules"]
        assert final["action"] == "FailJob" and final["onExitCodes"]["values"] == [64, 65, 70]
        if unit == "task" or role == "evaluator":
            assert spec["backoffLimitPerIndex"] == 10 and spec["maxFailedIndexes"] == 0
            assert [rule["action"] for rule in others] == ["Ignore"]
        else:
            assert spec["backoffLimit"] == 0 and not others


def test_success_is_that_of_the_evaluator_or_of_a_chief_alone():
    for case, role in (("parameter_server", "evaluator"), ("single", "chief")):
        policy = documents(case)[-1]["spec"]["successPolicy"]
        assert policy == {"operator": "All", "targetReplicatedJobs": [role]}


def test_plain_jobs_cannot_restart_a_gang():
    job = plan("k8s.kind=job", "cluster.strategy=multi_worker_mirrored")
    with pytest.raises(
        errors.UsageError,
        match=r"'multi_worker_mirrored' restarts all processes together, which plain Jobs cannot. "
        r"Install JobSet in the cluster, or use strategy 'parameter_server'$",
    ):
        manifest.build_documents(job, SUBMISSION)


def test_a_text_that_looks_like_a_number_stays_a_text():
    text = manifest.dump_yaml([{"value": "1e5", "other": "12", "same": "3f", "word": "a"}])
    assert text == 'value: "1e5"\nother: "12"\nsame: "3f"\nword: a\n'


class _Yaml11(yaml.SafeLoader):
    """YAML 1.1 as kubectl's reader has it: PyYAML's, with `y` and `n`, and 1e3 as a number."""


class _Yaml12(yaml.SafeLoader):
    """YAML 1.2's core schema, https://yaml.org/spec/1.2.2/#103-core-schema."""

    yaml_implicit_resolvers: typing.ClassVar = {}


_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
for reader, pattern in (
    (_Yaml11, r"[yYnN]|" + _FLOAT),
    (_Yaml12, r"~|null|Null|NULL|true|True|TRUE|false|False|FALSE|0o[0-7]+|0x[0-9a-fA-F]+"),
    (_Yaml12, _FLOAT + r"|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"),
):
    reader.add_implicit_resolver("!no-text", re.compile(f"({pattern})$"), None)
    reader.add_constructor("!no-text", lambda _, node: (node.value,))
WORDS = [
    "y", "Y", "n", "N", "yes", "no", "On", "off", "true", "False", "null", "~", "", "=", "<<",
    "1e3", "0x1f", "0o17", "017", "1_000", "12:30:45", ".inf", "-.INF", ".nan", "+1", "-", ".",
    "2001-01-01", "2001-12-14t21:59:43.10-05:00", "---", "# a", "a: b", "- a", "!x", "&a", "*a",
]  # fmt: skip


@hypothesis.given(
    st.dictionaries(
        st.sampled_from(WORDS) | st.text(), st.sampled_from(WORDS) | st.text(), min_size=1
    )
)
@hypothesis.example({word: word for word in WORDS})
def test_every_reader_of_yaml_finds_the_texts_that_were_written(texts):
    written = manifest.dump_yaml([{"labels": texts, "args": [*texts.values()]}])
    for reader in (yaml.SafeLoader, _Yaml11, _Yaml12):
        (found,) = yaml.load_all(written, reader)
        assert found == {"labels": texts, "args": [*texts.values()]}


@pytest.mark.parametrize("case", ["single", "plain-jobs"])
def test_a_dry_run_says_what_nobody_will_delete(case):
    """Owners are known only once the objects are there: `launcher._set_owner`."""
    shown = launcher.K8sLauncher().show(wanted(case))
    made = [*yaml.safe_load_all(shown.document)]
    (command,) = re.findall(r"kubectl delete (\S+) --selector=(\S+)$", shown.notes, re.MULTILINE)
    key, _, name = command[1].partition("=")
    others = [one for one in made if one["kind"] not in ("Job", "JobSet")]
    assert all(one["metadata"]["labels"][key] == name for one in others)
    plural = {"ConfigMap": "configmaps", "NetworkPolicy": "networkpolicies", "Service": "services"}
    kinds = {kind.partition(".")[0] for kind in command[0].split(",")}
    assert {plural[one["kind"]] for one in others} <= kinds
