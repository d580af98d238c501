"""The pages of the docs say all there is, and the example in them runs."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest
import tensorflow as tf

from pipeline.config import config_file, reference
from pipeline.models import MODELS
from pipeline.places import PLACES
from pipeline.source_table import SOURCES
from pipeline.steps import STEPS
from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.export import serving_graph
from trainer.features.transforms import Transforms

DOCS = config_file.SHIPPED.parent / "docs"
ROOT = DOCS.parent
PITFALLS = DOCS / "tensorflow-pitfalls.md"


def test_every_transform_is_documented_with_its_formula():
    cell = r"((?:[^|\\\n]|\\.)*)\|"  # \| is no end of one
    rows = re.findall(rf"^\| `(\w+)` \|{cell * 3}$", (DOCS / "features.md").read_text(), re.M)
    assert [row[0] for row in rows] == list(STEPS), (
        "docs/features.md has a row for each step, in alphabetical order"
    )
    without = [row[0] for row in rows if len(row[3].strip()) <= 3]
    assert not without, f"docs/features.md: give {without} a formula in the last column"


def test_the_reference_of_the_config_is_current():
    if (DOCS / "config.md").read_text() != reference.page():
        pytest.fail("docs/config.md is not what the config's models say; run: make docs", False)


def test_every_source_is_documented():
    text = (DOCS / "raw-data.md").read_text()
    missing = [name for name in SOURCES if f"\n| `{name}` |" not in text]
    assert not missing, f"docs/raw-data.md#sources: add a row for {missing}"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("docs/raw-data.md", r"`make schema DATA=.*?It writes"),
        ("docs/serving.md", r"File types are .*? file\. "),
        ("preprocessing/infer_schema.py", r"Takes .*?\."),
        ("serving/predict.py", r"--input is .*?\."),
    ],
)
def test_every_kind_of_file_that_is_recognised_is_documented(page, sentence):
    named = re.findall(sentence, (DOCS.parent / page).read_text().replace("\n", " "))[0]
    missing = [kind.called for kind in SOURCES.values() if kind.called not in named]
    assert not missing, f"{page}: name {missing} in {named!r}"


def test_every_source_with_columns_in_paths_is_documented():
    text = (DOCS / "raw-data.md").read_text()
    (named,) = re.findall(r"Of files in folders .*?have a column", text, re.S)
    wanted = {name for name, kind in SOURCES.items() if kind.in_folders}
    assert set(re.findall(r"`(\w+)`", named)) == wanted, f"docs/raw-data.md: {named!r}"


def test_every_model_is_documented():
    text = (DOCS / "models.md").read_text()
    missing = [name for name in MODELS if f"`{name}`" not in text]
    assert not missing, f"docs/models.md: say what {missing} is for"


@pytest.mark.parametrize("page", ["README.md", "docs/how-to.md", "mkdocs.yml"])
def test_every_page_of_a_place_is_linked(page):
    """The page of a place links its section of the config."""
    pages = {path.name: path.read_text() for path in DOCS.glob("*.md") if path.name != "config.md"}
    linked = (ROOT / page).read_text()
    missing = []
    for name in (name for name, place in PLACES.items() if place.settings):
        own = [file for file, text in pages.items() if re.search(rf"config\.md#{name}\b", text)]
        if not any(file in linked for file in own):
            missing.append(name)
    assert not missing, f"{page}: link the pages in docs/ of {missing}, by their files"


def _anchors(text):
    """The anchors that Markdown gives to the headings of a page."""
    headings = re.findall(r"^#{2,} (.+)$", text, re.M)
    return [re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in headings]


def _sources():
    """Text files of the project that may refer to the page, by path."""
    folders = ("pipeline", "preprocessing", "serving", "trainer", "tests", "benchmarks", "docs")
    nested = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    found = [path for path in (*ROOT.glob("*"), *nested) if path.is_file()]
    texts = [path for path in found if path.suffix in (".py", ".md") or path.name == "Makefile"]
    assert len(texts) > 100
    return {path.relative_to(ROOT): path.read_text() for path in texts}


def test_every_reference_to_a_pitfall_finds_its_heading():
    anchors = _anchors(PITFALLS.read_text())
    assert len(anchors) == len(set(anchors)) > 50
    wrong = {
        f"{path}: {anchor}"
        for path, text in _sources().items()
        for references in re.findall(
            r"tensorflow-pitfalls\.md(#[\w-]+(?:,\s+(?:# )?#[\w-]+)*)", text
        )
        for anchor in re.findall(r"#([\w-]+)", references)
        if anchor not in anchors
    }
    within = re.findall(r"\]\(#([\w-]+)\)", PITFALLS.read_text())
    assert not wrong
    assert set(within) <= set(anchors)


def test_comments_name_pitfalls_by_their_heading():
    """Not by numbers, such as "traps" and A20, of a list that readers do not have."""
    number = re.compile(r"\btraps?[\s#]+[A-Z]\d", re.I)
    assert not [str(path) for path, text in _sources().items() if number.search(text)]


def test_the_pitfalls_name_what_exists():
    """Modules of this project, and functions of the installed packages."""
    text = PITFALLS.read_text()
    own = re.findall(r"`((?:pipeline|preprocessing|serving|trainer|tests)/[\w/]+\.py)`", text)
    assert len(own) > 50
    moved = [path for path in own if not (ROOT / path).exists()]
    assert not moved, f"{PITFALLS.name} names modules that have moved: {moved}"
    cited = re.findall(r"`((?:tensorflow|apache_beam)\w*/[\w/]+\.py)`\s+\(([^)]+)\)", text)
    assert len(cited) > 40
    for path, names in cited:
        spec = importlib.util.find_spec(path.partition("/")[0])
        source = (pathlib.Path(spec.origin).parent.parent / path).read_text()
        assert not [name for name in re.findall(r"`(\w+)`", names) if name not in source], path


def test_what_the_docs_name_for_code_of_ones_own_is_there():
    text = "".join(path.read_text() for path in DOCS.glob("*.md"))
    named = re.findall(r"`((?:pipeline|preprocessing|serving|trainer)(?:\.\w+)+)", text)
    assert len(named) > 10
    means = [f"trainer.models.means.{name}" for name in re.findall(r"\bmeans\.(\w+)", text)]
    assert means
    for name in (*named, *means):
        _require(name)


def _require(name):
    """Modules of commands are found, not imported: each declares flags of the same names."""
    module, found = "", None
    for part in name.split("."):
        if module and found.submodule_search_locations is None:
            break  # what follows is inside of a module
        module = f"{module}.{part}".lstrip(".")
        found = importlib.util.find_spec(module)
        if found is None:
            break
    if module != name or found is None:
        pkgutil.resolve_name(name)  # an error says which part is missing


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The example as a user keeps it: a file in a folder on PYTHONPATH."""
    [code] = re.findall(r"^```python\n(.*?)^```$", (DOCS / "models.md").read_text(), re.M | re.S)
    assert len(code.splitlines()) <= 40
    (tmp_path / "my_model.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_model:model_fn"
    sys.modules.pop("my_model")


def test_the_example_learns_its_quantile_and_is_served(own, tmp_path):
    features = {"weight": {"steps": [{"clip": {"min": 0}}]}}
    job = make(features, model={"name": own, "params": {"quantile": 0.9}})
    transforms = Transforms(job, contents(job))
    params = {**job.model.params, "optimizer": optimizers.Updates("adam", 0.1)}
    found = models.build_model(own, params, None, transforms=transforms)
    rng = tf.random.Generator.from_seed(1)
    rows = {"weight": rng.uniform([2000]), "late": tf.cast(rng.uniform([2000], 0, 100), tf.int64)}

    def input_fn():
        data = tf.data.Dataset.from_tensors({n: v.numpy() for n, v in values.items()}).repeat(400)
        return data.map(lambda batch: transforms.examples(batch, training=True))

    values = rows
    config = tf.estimator.RunConfig(str(tmp_path / "run"), tf_random_seed=1)
    estimator = tf.estimator.Estimator(found.model_fn, config=config, params=params)
    tf.keras.utils.set_random_seed(1)  # as every role does; some beginnings learn nothing
    estimator.train(input_fn)
    assert estimator.evaluate(input_fn, steps=1)["below"] == pytest.approx(0.9, abs=0.05)
    path = estimator.export_saved_model(
        str(tmp_path), serving_graph.build_serving_input_fn(transforms)
    )
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    [answer] = serve(weight=tf.constant([0.5])).values()
    assert 75 < float(answer[0]) < 105


def test_the_pages_are_built_as_a_site_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert 'not included in the "nav"' not in done.stderr
    first = (tmp_path / "index.html").read_text()
    assert "make train" in first and 'href="exactly-once/' in first
    fetched = re.findall(r"""<(?:script|link|img)[^>]*(?:src|href)=["']?(https?:[^"' >]*)""", first)
    assert [url for url in fetched if "github.com" not in url] == []
