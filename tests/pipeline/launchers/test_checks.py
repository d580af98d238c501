import pytest

from pipeline import errors
from pipeline.launchers import checks
from tests.support.packages import pretend_versions


def test_a_tensorflow_without_estimators():
    finding = checks.check_tensorflow(pretend_versions(tensorflow="2.16.1"))
    assert str(finding) == (
        "FIX  tensorflow 2.16.1 has no Estimators; 2.15 is the last that has: run make setup"
    )


def test_no_ports():
    def reserve(_):
        raise errors.RetryableError("cannot find 3 free ports. End the programs that listen there")

    assert str(checks.check_ports(reserve)).startswith("FIX  cannot find 3 free ports")


@pytest.mark.parametrize(("free", "start"), [(3 << 30, "ok   3.0 GiB"), (1 << 30, "FIX  1.0 GiB")])
def test_free_disk(free, start):
    assert str(checks.check_disk("output", free)).startswith(start)


def test_the_report_is_bad_if_one_finding_is():
    lines = []
    findings = [
        checks.Finding("a"),
        checks.Finding("b", "mend it"),
        checks.Finding("c"),
    ]
    assert checks.report(iter(findings), lines.append) is False
    assert lines == ["ok   a", "FIX  b: mend it", "ok   c"]
    assert checks.report(iter(findings[:1]), lines.append) is True
