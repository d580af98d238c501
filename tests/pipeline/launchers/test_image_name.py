import pytest

from pipeline import errors
from pipeline.launchers import image_name

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pipeline", "pipeline"),
        ("pipeline:1", "pipeline"),
        ("host:5000/pipeline", "host:5000/pipeline"),
        ("host:5000/pipeline:1", "host:5000/pipeline"),
        (f"host:5000/pipeline@{DIGEST}", "host:5000/pipeline"),
        (f"host/pipeline:1@{DIGEST}", "host/pipeline"),
    ],
)
def test_the_path_is_without_tag_and_digest(name, path):
    assert image_name.path(name) == path


@pytest.mark.parametrize("name", ["pipeline", "host:5000/pipeline", "host/pipeline:latest"])
def test_a_name_whose_image_changes_is_refused(name):
    match = rf"^CLUSTER=gcp: IMAGE={name}: means another image .* digest that make image prints"
    with pytest.raises(errors.UsageError, match=match):
        image_name.check(name, "gcp")


@pytest.mark.parametrize("digest", ["sha256:abc", "", "a" * 64, f"sha256:{'g' * 64}", "sha1:abc"])
def test_a_digest_that_no_image_can_have_is_refused(digest):
    with pytest.raises(errors.UsageError) as caught:
        image_name.check(f"foo@{digest}", "k8s")
    assert str(caught.value) == (
        f"CLUSTER=k8s: IMAGE=foo@{digest}: the digest must be sha256: with 64 hexadecimal digits "
        f"behind it, got {digest!r}. Use the one that make image prints"
    )


@pytest.mark.parametrize(
    "name", ["pipeline:1", f"host/pipeline@{DIGEST}", f"host/pipeline:latest@{DIGEST}"]
)
def test_a_tag_or_a_digest_is_taken(name):
    image_name.check(name, "gcp")
