import pytest

from pipeline import errors, versions
from tests.support.packages import pretend_versions


def test_the_installed_tensorflow_has_estimators():
    versions.require_estimators()


@pytest.mark.parametrize("newer", ["2.16.0", "2.20.1", "3.0.0rc1"])
def test_a_tensorflow_without_estimators_is_refused(newer):
    with pytest.raises(
        errors.UsageError,
        match=rf"^tensorflow {newer} has no Estimators; 2\.15 is the last that has: run make setup",
    ):
        versions.require_estimators(
            pretend_versions(tensorflow=newer, tensorflow_estimator="2.15.0")
        )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({}, "^tensorflow is not installed: run make setup"),
        ({"tensorflow": "2.15.1"}, "^tensorflow-estimator is not installed"),
    ],
)
def test_missing_packages_are_named(found, text):
    with pytest.raises(errors.UsageError, match=text):
        versions.require_estimators(pretend_versions(**found))


@pytest.mark.parametrize("running", [(3, 9), (3, 12), (4, 0)])
def test_a_python_without_wheels_is_refused(running):
    with pytest.raises(errors.UsageError, match=r"^Python \d+\.\d+: must be 3\.10 or 3\.11"):
        versions.require_python(running)


def test_what_is_installed_is_recorded():
    found = versions.list_installed(pretend_versions(tensorflow="2.15.1"))
    assert set(found) == {"python", "tensorflow"}
