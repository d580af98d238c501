"""README, docs, configs and Makefile name what exists, and say the same."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

from pipeline.config import config_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST = 30  # words of a sentence


def _text(name):
    return (ROOT / name).read_text()


def test_the_readme_names_only_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.M))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", _text("README.md"), re.M))
    assert {"train", "test", "predict"} <= named <= targets


def test_the_readme_s_folders_exist():
    rows = re.findall(r"^\| `([a-z/]+)/` \|", _text("README.md"), re.M)
    assert len(rows) >= 7
    assert all((ROOT / row).is_dir() for row in rows)


def test_make_alone_lists_the_targets():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("setup", "preprocess", "train", "predict", "doctor", "test", "bench"):
        assert f"make {target} " in done.stdout


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (("tensorboard", "STORAGE=it's mine"), "--storage=it's mine"),
        (("bench", "STORAGE=my output"), "--storage=my output"),
        (("train", "CLUSTER=gcp", "PROJECT=it's mine"), '--set=gcp.project="it\'s mine"'),
        (("train", "CLUSTER=gcp", "BUCKET=b"), "--storage=gs://b/estimator-pipeline"),
        (("train", "CLUSTER=gcp", "IMAGE=i:1"), '--set=gcp.image="i:1"'),
        (("train", "CLUSTER=k8s", "IMAGE=i:1"), '--set=k8s.image="i:1"'),
        # The bucket may be in the config; what a launcher says of this names it.
        (("train", "CLUSTER=gcp"), "--storage=output"),
        # Other ways of saying so do not start a job that costs money either.
        (("train", "CLUSTER=gcp", "DRY_RUN=yes"), "--dry_run"),
        (("preprocess", "FORCE=true"), "--force"),
    ],
)
def test_make_hands_on_what_it_is_given(given, word):
    assert word in _made(*given)


def test_tests_that_are_skipped_without_an_extra_have_a_target_that_installs_it():
    needing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").glob("*/**/test_*.py")
        if re.search(r"importorskip\(|find_spec\(", path.read_text())
    }
    assert needing == {word for word in _made("test-gcp") if word.startswith("tests/")}


def _documented_commands():
    """Yields the words of each make command of README and the docs, with all that is optional."""
    pages = [page.read_text() for page in PAGES]
    found = {line for page in pages for line in re.findall(r"`make ([^`\n]+)`", page)}
    for block in re.findall(r"^```sh\n(.*?)^```", "\n".join(pages), re.M | re.S):
        found |= set(re.findall(r"^make ([^#>|\n]*)", block, re.M))
    for line in sorted(found):
        words = shlex.split(re.sub(r"[][]", "", line))
        yield [word for word in words if word != "…"]


@pytest.mark.parametrize("command", _documented_commands(), ids=" ".join)
def test_make_takes_what_the_pages_give_it(command):
    made = _made(*command)
    for name, _, value in (word.partition("=") for word in command[1:]):
        handed_on = all(any(part in word for word in made) for part in value.split())
        assert handed_on or f"--{name.lower()}" in made, name


def test_links_of_the_pages_lead_somewhere():
    broken = [
        f"{page.name}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if not re.match(r"[a-z]+:", link) and not _is_there(page, link)
    ]
    assert not broken


def _is_there(page, link):
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.+)$", target.read_text(), re.M)
    plain = (re.sub(r"[^a-z0-9 _-]", "", heading.lower()) for heading in headings)
    return anchor in {heading.replace(" ", "-") for heading in plain}


def _sentences(text):
    """Yields the sentences of paragraphs, items of lists and cells of tables, without code."""
    text = re.sub(r"^ *```.*?^ *```$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"\n\n(?: {4,}.*\n)+", "\n\n", text)
    text = re.sub(r"`[^`]*`", "X", re.sub(r"\]\([^)]*\)", "]", text))
    text = re.sub(r"X(?:,\sX)+", "X", text)  # a list of names is read as one
    for part in re.split(r"\n\s*\n|\n(?= *(?:[-*|#]|\d+\.))| \|(?=\s|$)", text):
        yield from re.split(r"(?<=[.!?])[)\"*]*\s+(?=\W*\w)", " ".join(part.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_are_short(page):
    counted = {one: len(re.findall(r"\S*\w\S*", one)) for one in _sentences(page.read_text())}
    long = [f"{words} words: {one}" for one, words in counted.items() if words > LONGEST]
    assert not long, f"{page.name}: at most {LONGEST}, split\n" + "\n".join(long)


@pytest.mark.parametrize("off", ["", "0", "no", "false"])
def test_switches_of_make_can_be_turned_off(off):
    assert "--dry_run" not in _made("train", "CLUSTER=gcp", f"DRY_RUN={off}")
    assert "--force" not in _made("preprocess", f"FORCE={off}")


def _made(*given):
    """Returns the words of the command that make would run last."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["make", "--dry-run", *given], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # A command may take several lines.
    return shlex.split(done.stdout.replace("\\\n", " ").splitlines()[-1])


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_configs_load_and_say_what_to_expect(path):
    job = config_file.load(path.stem)
    assert job.name == path.stem
    header = path.read_text().partition("\nname:")[0]
    of_config = "" if path.stem == "mnist" else f" CONFIG={path.stem}"
    assert f"make train{of_config}" in header or f"make preprocess{of_config}" in header
