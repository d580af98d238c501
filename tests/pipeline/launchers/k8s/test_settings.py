"""What the section `k8s` of a config takes: what Kubernetes does."""

import pytest

from pipeline import errors
from pipeline.launchers.k8s.settings import K8s, amount
from tests.pipeline.jobs.jobs import plan


@pytest.mark.parametrize(
    ("text", "number"),
    [
        # The examples of Kubernetes' pages on quantities and on the meaning of memory.
        ("128974848", 128974848),
        ("129e6", 129e6),
        ("129M", 129e6),
        ("123Mi", 123 * 1024**2),
        ("4194304Ki", 4 * 1024**3),
        ("1k", 1e3),
        ("1.5Gi", 1.5 * 1024**3),
        ("2T", 2e12),
        ("2Ti", 2 * 1024**4),
        ("1P", 1e15),
        ("1Pi", 1024**5),
        ("1E", 1e18),
        ("1Ei", 1024**6),
        ("1E3", 1e3),
        ("5.e+9", 5e9),
        (".5G", 5e8),
    ],
)
def test_amounts_of_memory_are_those_of_kubernetes(text, number):
    job = plan(f"k8s.resources={{worker: {{memory: '{text}', disk: '{text}'}}}}")
    assert amount(K8s.of(job.config).of_role("worker").memory) == pytest.approx(number)


@pytest.mark.parametrize("text", ["500m", "0.5", "5e-1", ".5"])
def test_amounts_of_processors_are_those_of_kubernetes(text):
    job = plan(f"k8s.resources={{worker: {{cpu: '{text}', cpu_limit: '{text}'}}}}")
    assert amount(K8s.of(job.config).of_role("worker").cpu) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "text", ["4ki", "4K", "4mi", "4g", "4GB", "-4Gi", "4 Gi", "400m", "1e", "."]
)
def test_memory_that_kubernetes_does_not_know_is_refused(text):
    with pytest.raises(errors.UsageError, match=r"memory: must look like '10Gi', got") as caught:
        plan(f"k8s.resources={{worker: {{memory: '{text}'}}}}")
    assert "\n" not in str(caught.value)
