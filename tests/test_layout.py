"""Who may import whom, what README and Makefile promise, and what may not be in the repository."""

import ast
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from pipeline.config import config_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a training image, a Beam worker and `make help` need not have.
FORBIDDEN = {
    "pipeline": {"preprocessing", "serving", "trainer", "apache_beam", "tests", "benchmarks"},
    "preprocessing": {"serving", "trainer", "tensorflow", "tests", "benchmarks"},
    "serving": {"trainer", "tests", "benchmarks"},
    "trainer": {"preprocessing", "serving", "apache_beam", "tests", "benchmarks"},
}
# The parts of each package, lowest layer first: a part is a sub-package, or a module at the top. It
# may import parts of the layers before its own, and no others. Of the folder of a place, `settings`
# is a part of its own, on which the config stands; the rest is `launchers.*`.
LAYERS = {
    "pipeline": (
        ("errors", "redaction", "sections"),
        ("launchers.*.settings", "places"),
        ("command", "console", "pages", "processes", "steps", "versions"),
        ("storage",),
        ("config",),
        ("cli", "cluster"),
        ("runs",),
        ("records", "supervision"),
        ("reports",),
        ("jobs",),
        ("launchers", "scripts"),
        ("launchers.*",),
        (
            "api",
            "doctor",
            "launch",
            "list_runs",
            "logs",
            "report",
            "run_script",
            "show_config",
            "start_project",
            "status",
            "stop",
            "tensorboard",
            "verify",
        ),
        ("__main__", "completion"),
    ),
    "preprocessing": (
        ("arrow", "sample_data"),
        ("sources",),
        ("rows",),
        ("statistics",),
        ("shards",),
        ("dead_letters", "runners", "schema_inference"),
        ("build",),
        ("clean_records", "compare_records", "fetch", "infer_schema", "main"),
        ("replay_dead_letters", "stats"),
    ),
    "serving": (("batch",), ("rest",), ("predict", "serve")),
    "trainer": (
        ("distribution", "optimizers"),
        ("checkpoints",),
        ("models",),
        ("input",),
        ("metrics", "monitoring"),
        ("exactly_once", "export"),
        ("evaluation", "lifecycle"),
        ("model_function",),
        ("experiment",),
        ("comparison", "divergence_replay", "migration", "reevaluation", "roles"),
        ("compare", "evaluate", "ledger_report", "migrate", "replay", "task"),
    ),
}
# What may lie at the top of a package besides its commands: what all of it stands on or comes to.
CENTRES = {
    "pipeline": {"api", "cli", "errors", "places", "redaction", "sections", "versions"},
    "preprocessing": set(),
    "serving": set(),
    "trainer": {"divergence_replay", "experiment", "model_function", "reevaluation", "roles"},
}


def _imported(path):
    """The top-level packages a module imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            yield node.module.partition(".")[0]


def _modules(package):
    found = sorted((ROOT / package).rglob("*.py"))
    assert found
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_import_only_what_they_may(package):
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in _modules(package)
        for name in set(_imported(path)) & FORBIDDEN[package]
    }
    assert not wrong


def test_no_module_imports_a_private_name_of_another():
    """What two modules use is public; helpers of several tests lie in a module of their own."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {alias.name} of {node.module}"
        for package in (*FORBIDDEN, "tests", "benchmarks")
        for path in _modules(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in (*FORBIDDEN, "tests", "benchmarks")
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert not wrong, "\n".join(wrong)


def _name(path):
    """Returns the dotted name of a module or package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _part(path):
    """Returns the part of its package that a module belongs to; "" for the package's own file."""
    inside = path.relative_to(ROOT).parts[1:]
    if len(inside) == 1:
        return "" if inside[0] == "__init__.py" else inside[0].removesuffix(".py")
    if inside[0] == "launchers" and len(inside) > 2:
        return "launchers.*.settings" if inside[-1] == "settings.py" else "launchers.*"
    return ".".join(inside[:-1])


def _own_imports(path, parts):
    """Yields line, name and part of what a module imports of its package, at its top or inside a
    function. `parts` are those of all modules of the package, by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in parts else node.module for name in inner]
        yield from ((node.lineno, name, parts[name]) for name in names if name in parts)


@pytest.mark.parametrize("package", LAYERS)
def test_every_part_of_a_package_has_a_layer(package):
    listed = [part for layer in LAYERS[package] for part in layer]
    assert len(listed) == len(set(listed))
    assert {_part(path) for path in _modules(package)} - {""} == set(listed)


@pytest.mark.parametrize("package", LAYERS)
def test_parts_import_only_from_layers_below(package):
    parts = {_name(path): _part(path) for path in _modules(package)}
    level = {part: n for n, layer in enumerate(LAYERS[package]) for part in layer}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}, but {part} is not in a layer before "
        f"{_part(path) or package}: see LAYERS, and move what both need to an earlier one"
        for path in _modules(package)
        for line, name, part in _own_imports(path, parts)
        if part not in ("", _part(path)) and level[part] >= level.get(_part(path), -1)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_place_imports_nothing_of_another_but_its_settings():
    """Other modules do not import anything else of a place either: the table names it for them."""
    parts = {_name(path): _part(path) for path in _modules("pipeline")}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}: reach it through pipeline.places"
        for package in LAYERS
        for path in _modules(package)
        for line, name, part in _own_imports(path, parts)
        if part == "launchers.*" and _folder(name) != _folder(_name(path))
    ]
    assert not wrong, "\n".join(wrong)


def _folder(name):
    """Returns the place whose folder a module lies in, if it does."""
    return name.split(".")[2] if name.startswith("pipeline.launchers.") else ""


@pytest.mark.parametrize("package", LAYERS)
def test_every_package_says_what_it_holds(package):
    silent = [
        str(path.relative_to(ROOT))
        for path in _modules(package)
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, f"no docstring in {', '.join(silent)}"


@pytest.mark.parametrize("package", CENTRES)
def test_only_commands_and_the_centre_lie_at_the_top_of_a_package(package):
    others = {
        path.stem
        for path in (ROOT / package).glob("*.py")
        if path.name != "__init__.py" and ' "__main__":' not in path.read_text()
    }
    assert others == CENTRES[package], (
        f"{package}/: what is no command goes into a sub-package that is named after what it holds"
    )


@pytest.mark.parametrize(
    "module",
    [
        *("pipeline.launch", "pipeline.status", "pipeline.verify", "preprocessing.main"),
        *("serving.predict", "serving.serve"),
    ],
)
def test_commands_start_without_tensorflow_and_beam(module):
    """Importing TensorFlow takes seconds, and these must answer at once."""
    heavy = "{'tensorflow', 'apache_beam'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_wheel_has_every_package():
    """What setup.py looks for is folders with an `__init__.py`."""
    assert f"_PACKAGES = {tuple(FORBIDDEN)}".replace("'", '"') in _text("setup.py")
    plain = {
        str(path.parent.relative_to(ROOT))
        for package in FORBIDDEN
        for path in _modules(package)
        if not (path.parent / "__init__.py").exists()
    }
    assert not plain


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
        # The bucket may be in the config; what a launcher says of this names it.
        (("train", "CLUSTER=gcp"), "--storage=output"),
        # Whoever says so in another way does not mean to pay for a job either.
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
    pages = [_text("README.md"), *(path.read_text() for path in sorted(ROOT.glob("docs/*.md")))]
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
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{page.name}: {link}"
        for page in pages
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


@pytest.mark.parametrize("off", ["", "0", "no", "false"])
def test_switches_of_make_can_be_said_to_be_off(off):
    assert "--dry_run" not in _made("train", "CLUSTER=gcp", f"DRY_RUN={off}")
    assert "--force" not in _made("preprocess", f"FORCE={off}")


def _made(*given):
    """Returns the words of the command that make would run last."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["make", "--dry-run", *given], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # A command may go on over several lines.
    return shlex.split(done.stdout.replace("\\\n", " ").splitlines()[-1])


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_configs_load_and_say_what_to_expect(path):
    job = config_file.load(path.stem)
    assert job.name == path.stem
    header = path.read_text().partition("\nname:")[0]
    of_config = "" if path.stem == "mnist" else f" CONFIG={path.stem}"
    assert f"make train{of_config}" in header or f"make preprocess{of_config}" in header


def test_lock_files_pin_and_name_no_host():
    """Packages come by name from wherever the machine gets them, and are checked by hash."""
    for extra in ("", "-dev", "-bench", "-gcp"):
        name = f"requirements{extra}.lock"
        text = _text(name)
        assert "://" not in text
        pinned = re.findall(r"^([a-z0-9._-]+)==", text, re.M)
        assert {"tensorflow", "tensorflow-estimator", "apache-beam"} <= set(pinned)
        assert text.count("--hash=sha256:") >= len(pinned)
