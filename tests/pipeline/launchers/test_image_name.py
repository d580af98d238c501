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
    "path",
    [
        "Reg.example.org/Trainer",
        "https://reg/trainer",
        "reg//trainer",
        " reg/trainer",
        "reg/tr ainer",
        "reg/tr\u00e4iner",
        "reg/-a",
        "reg/a___b",
        "reg:700000/trainer",
    ],
)
@pytest.mark.parametrize("behind", ["", ":1", f"@{DIGEST}"])
def test_a_name_that_no_registry_can_have_is_refused(path, behind):
    with pytest.raises(errors.UsageError) as caught:
        image_name.check(path + behind, "k8s")
    assert str(caught.value) == (
        f"CLUSTER=k8s: IMAGE={path + behind}: {path!r} must be the name of a registry and parts "
        "behind slashes, as registry.example.org:5000/team/trainer. Parts are of lower-case "
        "letters and digits, with '.', '_', '__' or dashes only between them; nothing like "
        "https:// goes before"
    )


def test_a_name_longer_than_a_registry_takes_is_refused():
    for path in ("a" * 255, f"registry.example.org:5000/{'a' * 255}"):
        image_name.check(f"{path}:1", "k8s")
    with pytest.raises(errors.UsageError, match=r"has 256 characters .* at most 255 are allowed"):
        image_name.check(f"{'a' * 256}:1", "k8s")


@pytest.mark.parametrize("tag", ["", "-x", ".x", "a" * 129, "a b", "a+b"])
@pytest.mark.parametrize("behind", ["", f"@{DIGEST}"])
def test_a_tag_that_no_image_can_have_is_refused(tag, behind):
    with pytest.raises(errors.UsageError) as caught:
        image_name.check(f"foo:{tag}{behind}", "k8s")
    assert str(caught.value) == (
        f"CLUSTER=k8s: IMAGE=foo:{tag}{behind}: the tag must be 1 to 128 letters, digits, '_', '.' "
        f"or '-', and begin with none of the last two, got {tag!r}. Use the digest that make image "
        "prints"
    )


@pytest.mark.parametrize(
    "name",
    [
        "pipeline:1",
        "GCR.io/project-1/a__b--c.d:V1.0_x-y",
        "[::1]:5000/a:1",
        f"host/pipeline@{DIGEST}",
        f"host/pipeline:latest@{DIGEST}",
    ],
)
def test_a_tag_or_a_digest_is_taken(name):
    image_name.check(name, "gcp")
