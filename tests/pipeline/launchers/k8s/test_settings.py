"""What the section `k8s` of a config takes: what Kubernetes does."""

import dataclasses
import pathlib

import hypothesis
import pydantic
import pytest
from hypothesis import strategies as st

from pipeline import errors
from pipeline.launchers.k8s import manifest
from pipeline.launchers.k8s.settings import K8s, amount
from tests.pipeline.jobs.jobs import plan
from tests.pipeline.launchers.k8s import jobset_rules, object_rules
from tests.support import json_schema

SCHEMAS = json_schema.Schemas(pathlib.Path(__file__).parents[3] / "golden" / "k8s" / "schemas")
NAMES = st.sampled_from(["a", "a.b", "a..b", "a-.b", "-a", "A", "a" * 63, "a" * 70, "a" * 254, ""])
WORDS = st.sampled_from(["y", "1e3", "A_b.c", "a" * 63, "a" * 64, "_a", "a.", "a b", "a/b", ""])
OWN = ["estimator-pipeline/run", "app.kubernetes.io/name"]
KEYS = st.sampled_from(
    ["y", "null", "a.b/c", "a..b/c", "/c", "a/", "a" * 64, f"{'a' * 253}/b", f"{'a' * 254}/b", *OWN]
)
WHOLE = st.sampled_from([0, 1, 2222, (1 << 31) - 1, 1 << 31, 99999999999, 1 << 64])
REAL = st.sampled_from([1e-300, 1e-4, 1 / 3, 24.0, 596523.0, 596524.0, 1e6, 1e308])
AMOUNTS = st.sampled_from(["0", "1", "500m", "2Gi", "1e3", "4Ki", 2, 0.5])
SIZES = st.sampled_from(["0", "4Ki", "2Gi", "1e9", 5e8, 1 << 32])
OBJECTS = {"kind": st.sampled_from(["jobset", "job", "tfjob"])}
KINDS = {
    **dict.fromkeys(["namespace", "service_account", "queue", "priority_class"], NAMES),
    **dict.fromkeys(["env_from", "image_pull_secrets"], st.lists(NAMES, max_size=1)),
    **dict.fromkeys(["labels", "node_selector"], st.dictionaries(KEYS, WORDS, max_size=1)),
    **dict.fromkeys(["run_as_user", "max_restarts", "port"], WHOLE),
    **dict.fromkeys(["timeout_hours", "keep_hours", "wait_minutes"], REAL),
    "tolerations": st.lists(st.fixed_dictionaries({"key": KEYS, "value": WORDS}), max_size=1),
    "resources": st.fixed_dictionaries(
        {
            "chief": st.fixed_dictionaries(
                {"cpu": AMOUNTS, "cpu_limit": AMOUNTS, "memory": SIZES, "gpus": WHOLE}
            )
        }
    ),
}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        # The examples of Kubernetes' pages on quantities and on the meaning of memory.
        ("128974848", 128974848),
        ("129e6", 129e6),
        ("129M", 129e6),
        ("123Mi", 123 * 1024**2),
        ("4194304Ki", 4 * 1024**3),
        ("2000k", 2e6),
        ("1.5Gi", 1.5 * 1024**3),
        ("2T", 2e12),
        ("2Ti", 2 * 1024**4),
        ("1P", 1e15),
        ("1Pi", 1024**5),
        ("1E", 1e18),
        ("1Ei", 1024**6),
        ("2000E3", 2e6),
        ("5.e+9", 5e9),
        (".5G", 5e8),
    ],
)
def test_amounts_of_memory_are_those_of_kubernetes(text, number):
    job = plan(f"k8s.resources={{worker: {{memory: '{text}', disk: '{text}'}}}}")
    assert amount(K8s.of(job.config).get_resources("worker").memory) == pytest.approx(number)


@pytest.mark.parametrize("text", ["500m", "0.5", "5e-1", ".5"])
def test_amounts_of_processors_are_those_of_kubernetes(text):
    job = plan(f"k8s.resources={{worker: {{cpu: '{text}', cpu_limit: '{text}'}}}}")
    assert amount(K8s.of(job.config).get_resources("worker").cpu) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "text", ["4ki", "4K", "4mi", "4g", "4GB", "-4Gi", "4 Gi", "400m", "1e", "."]
)
def test_memory_that_kubernetes_does_not_know_is_refused(text):
    with pytest.raises(errors.UsageError, match=r"memory: must look like '10Gi' \(") as caught:
        plan(f"k8s.resources={{worker: {{memory: '{text}'}}}}")
    assert str(caught.value).endswith(
        f"(a number, then nothing, Ki, Mi, Gi, Ti, k, M, G or T), got {text!r}"
    )


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        ("{cpu: 8, memory: 4294967296}", 8, 1 << 32),
        ("{cpu: 0.5, memory: 4.0e9}", 0.5, 4e9),
        ("{cpu: 1.0, cpu_limit: 2}", 1, 1 << 32),
    ],
)
def test_numbers_are_amounts(given, cpu, memory):
    found = K8s.of(plan(f"k8s.resources={{worker: {given}}}").config).get_resources("worker")
    assert (amount(found.cpu), amount(found.memory)) == (cpu, memory)


def test_editors_take_numbers_as_amounts():
    resources = K8s.model_json_schema()["$defs"]["Resources"]["properties"]
    for key in ("cpu", "cpu_limit", "memory", "disk"):
        assert {"type": "number"} in resources[key]["anyOf"]


@pytest.fixture(scope="module")
def job():
    return plan()


@pytest.mark.parametrize("key", KINDS)
def test_what_is_accepted_is_what_kubernetes_accepts(key, job):
    accepted = []

    @hypothesis.settings(deadline=None, max_examples=40)
    @hypothesis.given(st.fixed_dictionaries({key: KINDS[key]}, optional=OBJECTS))
    def check(given):
        try:
            config = job.config.model_copy(update={"k8s": K8s.model_validate(given)})
            documents = manifest.build_documents(
                dataclasses.replace(job, config=config), "5f2c41aa00112233"
            )
        except (pydantic.ValidationError, errors.UsageError):
            return
        accepted.append(given)
        for one in documents:
            assert list(object_rules.refusals(one)) == []
            if one["kind"] in object_rules.DEFINITIONS:
                assert SCHEMAS.errors(one, *object_rules.DEFINITIONS[one["kind"]]) == []
            if one["kind"] == "JobSet":
                assert jobset_rules.refusals(one) == []

    check()
    assert accepted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("keep_hours=1e6", "k8s.keep_hours: "),
        ("wait_minutes=1e308", "k8s.wait_minutes: "),
        ("max_restarts=3000000000", "k8s.max_restarts: "),
        ("run_as_user=99999999999", "k8s.run_as_user: "),
        (f"queue={'q' * 70}", "k8s.queue: must look like"),
        ("env_from=[a..b]", "k8s.env_from.0: must look like"),
        ("namespace=a.b", "k8s.namespace: must look like"),
        ("tolerations=[{key: a, value: a b}]", "k8s.tolerations.0.value: must look like"),
        ("resources={ps: {cpu: '2', cpu_limit: '1500m'}}", "cpu_limit=1500m is below cpu=2: give"),
        ("labels={estimator-pipeline/run: x}", "estimator-pipeline/run: is set by the pipeline;"),
        ("labels={app.kubernetes.io/name: x}", "app.kubernetes.io/name: is set by the pipeline;"),
        ("resources={ps: {cpu: -1}}", "k, M, G or T), got '-1'"),
        ("resources={ps: {cpu: .inf}}", "ps.cpu: must look like '500m' ("),
        (f"labels={{a: {'b' * 64}}}", "between them '-', '_' or '.', at most 63), got 'bbb"),
        ("labels={a: 2024-01-01}", "a: must be a text, got the date 2024-01-01: put it in quotes"),
        ("labels={a: }", "a: must be a text, got nothing: give one, or leave out the key"),
        ("env_from=a", "k8s.env_from: must be a list, such as [a, b], got 'a'"),
    ],
)
def test_what_kubernetes_refuses_is_refused_in_one_line(given, words):
    with pytest.raises(errors.UsageError) as caught:
        plan(f"k8s.{given}")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("labels={job-name: x}", "k8s.labels: job-name: is set by Kubernetes or an operator; use"),
        ("labels={controller-uid: x}", "controller-uid: is set by Kubernetes or"),
        ("labels={batch.kubernetes.io/job-name: x}", "batch.kubernetes.io/job-name: is set by K"),
        ("labels={jobset.sigs.k8s.io/a: x}", "jobset.sigs.k8s.io/a: is set by Kubernetes or"),
        ("labels={training.kubeflow.org/a: x}", "training.kubeflow.org/a: is set by Kubernetes"),
        ("={queue: q, labels: {kueue.x-k8s.io/queue-name: x}}", "is set by k8s.queue; leave out"),
        ("resources={ps: {memory: 0Gi}}", "ps.memory: must be at least 1Mi, got 0Gi, which is 0"),
        ("resources={ps: {disk: 0}}", "ps.disk: must be at least 1Mi, got 0, which is 0 bytes."),
        (
            "resources={ps: {memory: 4096}}",
            "got 4096, which is 4,096 bytes. Give it a unit, such as 4096Mi or 4Gi",
        ),
    ],
)
def test_what_cannot_run_is_refused_once_a_job_is_submitted(given, words):
    """A run that was begun with it elsewhere can still be read."""
    job = plan(f"k8s{given}" if given.startswith("=") else f"k8s.{given}")
    with pytest.raises(errors.UsageError) as caught:
        manifest.build_documents(job, "5f2c41aa00112233")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["0", "0m"])
def test_a_pod_may_reserve_no_processor(text):
    job = plan(f"k8s.resources={{worker: {{cpu: {text}}}}}")
    assert manifest.build_documents(job, "5f2c41aa00112233")


def test_a_queue_may_be_a_label():
    job = plan("k8s.labels={kueue.x-k8s.io/queue-name: x}")
    assert K8s.of(job.config).labels == {"kueue.x-k8s.io/queue-name": "x"}


def test_a_short_time_is_not_none():
    """A deadline of 0 seconds ends a job at once."""
    job = plan("k8s.timeout_hours=0.0001", "k8s.keep_hours=0.0001")
    spec = manifest.build_documents(job, "5f2c41aa00112233")[-1]["spec"]
    assert spec["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] == 1
    assert spec["ttlSecondsAfterFinished"] == 1
