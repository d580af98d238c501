"""Who may import whom, how functions are called, and what may not be in the repository."""

import ast
import collections
import pathlib
import re
import subprocess
import sys

import pytest

from pipeline import packages

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
        ("packages", "redaction", "run_module", "sections", "source_table"),
        ("errors",),
        ("launchers.*.settings", "places"),
        (
            "command_line",
            "console",
            "faults.moved_clock",
            "models",
            "pages",
            "processes",
            "steps",
            "versions",
        ),
        ("storage",),
        ("config",),
        ("cli", "cluster"),
        ("runs",),
        ("records", "supervision"),
        ("reports",),
        ("jobs",),
        ("faults", "launchers", "scripts", "tuning"),
        ("launchers.*", "planning"),
        ("api", "commands", "launch"),
        ("__main__",),
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
        ("distribution", "features", "optimizers"),
        ("checkpoints", "heads"),
        ("networks",),
        ("models",),
        ("input",),
        ("metrics", "monitoring"),
        ("exactly_once", "export"),
        ("evaluation", "lifecycle"),
        ("model_function",),
        ("experiment",),
        ("comparison", "divergence_replay", "migration", "reevaluation", "roles"),
        ("joining",),
        ("script",),
        ("compare", "evaluate", "ledger_report", "migrate", "replay", "run_estimator", "task"),
    ),
}
# What may lie at the top of a package besides its commands: what all of it stands on or comes to.
CENTRES = {
    "pipeline": {
        "api",
        "cli",
        "errors",
        "packages",
        "places",
        "redaction",
        "sections",
        "source_table",
        "versions",
    },
    "preprocessing": set(),
    "serving": set(),
    "trainer": {
        "divergence_replay",
        "experiment",
        "joining",
        "model_function",
        "reevaluation",
        "roles",
        "run_estimator",  # `trainer.run`
        "script",  # what it does
    },
}
# What takes at most three arguments by position, so that no call is read by counting.
SIGNATURES = (*FORBIDDEN, "benchmarks", "tests/support")
# Names of functions that are no verbs, and name no value either.
VAGUE = re.compile(
    "_*(asked|called|chosen|counted|described|explained|form|found|given|held|judge|kept|known|left"
    "|made|named|of|over|plain|put|said|say|seen|settle|shown|taken|told)"
)
# What a function name must not begin with, such as `_found_columns`: `find_columns` is called.
PARTICIPLE = re.compile(
    "_*([a-z0-9]+ed|[a-z0-9]+ing|begun|broken|built|chosen|done|drawn|driven|fallen|found|gone|given"
    "|held|hidden|kept|known|laid|left|lost|made|meant|said|seen|sent|shown|spent|spoken|taken"
    "|thrown|told|unknown|worn|written)(_.*)?"
)
# First words that end as participles do, and are verbs or nouns.
VERB_OR_NOUN = re.compile("_*(embed|encoding|learning|need|ping|proceed|ring|seed|warning)(_.*)?")
# What the steps of users have, by docs/features.md; a method of TensorFlow's heads; a metric.
OTHERS_NAMES = {"filled", "masked", "_processed_labels", "normalized_entropy"}
# What a model function takes, in TensorFlow's order.
MODEL_FN = ("features", "labels", "mode", "params", "config")
# The library that calls a method, and by position.
CALLED_BY = {
    "BestExporter.export": "tf.estimator.Exporter",
    "Head.create_estimator_spec": "tf.estimator.Head",
    "OfSome.update_metrics": "tf.estimator.Head",
    "_Environment.from_runner_api_parameter": "apache_beam.transforms.environments.Environment",
    "_Handler.__init__": "apache_beam's worker_handlers.GrpcWorkerHandler",
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


def test_nothing_imports_a_module_of_tests():
    """What several of them use lies in tests/support, or in a module beside them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
        for path in _modules("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _of_tests(node)
    ]
    assert not wrong, "\n".join(wrong)


def _of_tests(node):
    """Yields the modules of tests that a statement imports."""
    of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        parts = f"{of}{alias.name}".split(".")
        if parts[0] == "tests" and any(part.startswith("test_") for part in parts):
            yield ".".join(parts)


def test_a_class_name_has_one_meaning():
    """Two classes of one name in different modules are confused where both are read."""
    modules = collections.defaultdict(set)
    for package in FORBIDDEN:
        for path in _modules(package):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    modules[node.name].add(str(path.relative_to(ROOT)))
    wrong = [
        f"class {name} is in {', '.join(sorted(paths))}: name each after what it holds"
        for name, paths in sorted(modules.items())
        if len(paths) > 1
    ]
    assert not wrong, "\n".join(wrong)


def test_functions_say_what_they_do():
    """`builds.of` and `errors.explained` are understood only by whoever has read them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: name it by a verb"
        for package in FORBIDDEN
        for path in _modules(package)
        for outer in ast.walk(ast.parse(path.read_text()))
        if isinstance(outer, ast.Module | ast.ClassDef)
        for node in outer.body
        if isinstance(node, ast.FunctionDef) and VAGUE.fullmatch(node.name)
        # A property is a value, and what makes an object may be `Gcp.of(config)`.
        if not {"classmethod", "property"} & {ast.unparse(one) for one in node.decorator_list}
    ]
    assert not wrong, "\n".join(wrong)


def _defined(path):
    """Yields the functions of a module that are no property, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            made_by = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
            if not made_by & {"property", "cached_property", "setter"}:
                yield node


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_function_is_named_by_a_participle(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: name it by a verb"
        for path in _modules(package)
        for node in _defined(path)
        if PARTICIPLE.fullmatch(node.name)
        and not VERB_OR_NOUN.fullmatch(node.name)
        and node.name not in OTHERS_NAMES
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", SIGNATURES)
def test_functions_take_at_most_three_positional_parameters(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {name}({', '.join(given)}): put `*,` after the third"
        for path in _modules(package)
        for name, line, given in _signatures(ast.parse(path.read_text()))
        if len(given) > 3 and name not in CALLED_BY and not _is_model_fn(given)
    ]
    assert not wrong, "\n".join(wrong)


def _signatures(node, outer=()):
    """Yields name, line and positional parameters of all functions, of methods without `self`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _signatures(child, (child.name,))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [one.arg for one in (*child.args.posonlyargs, *child.args.args)]
            own = 1 if given[:1] in (["self"], ["cls"]) else 0
            yield ".".join((*outer, child.name)), child.lineno, given[own:]
            yield from _signatures(child)
        else:
            yield from _signatures(child, outer)


def _is_model_fn(given):
    without_params = [name for name in MODEL_FN if name != "params"]
    return given in (list(MODEL_FN[: len(given)]), without_params)


@pytest.mark.parametrize("package", (*FORBIDDEN, "benchmarks", "tests"))
def test_nothing_is_unpacked_that_could_be_written_out(package):
    """`f(*(a, b), c)` is `f(a, b, c)`, over as many lines as it takes."""
    wrong = [
        f"{path.relative_to(ROOT)}:{one.lineno} {ast.unparse(one)}"
        for path in _modules(package)
        for node in ast.walk(ast.parse(path.read_text()))
        for one in (node.args if isinstance(node, ast.Call) else getattr(node, "elts", ()))
        if isinstance(one, ast.Starred) and isinstance(one.value, ast.Tuple | ast.List)
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
        # The file of the package itself is above all of its parts.
        if part not in ("", _part(path)) and level[part] >= level.get(_part(path), len(level))
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
        "pipeline.launch",
        "pipeline.commands.status",
        "pipeline.commands.verify",
        "preprocessing.main",
        "serving.predict",
        "serving.serve",
        "trainer.ledger_report",
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
    assert tuple(FORBIDDEN) == packages.NAMES
    plain = {
        str(path.parent.relative_to(ROOT))
        for package in FORBIDDEN
        for path in _modules(package)
        if not (path.parent / "__init__.py").exists()
    }
    assert not plain


def _text(name):
    return (ROOT / name).read_text()


def test_no_file_name_begins_with_a_dash():
    """A command that takes an option for a path writes such a file, and others take it for one."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [pathlib.PurePath(name) for name in listed.stdout.split("\0")]
    wrong = [str(path) for path in paths if any(part.startswith("-") for part in path.parts)]
    assert not wrong


def test_lock_files_pin_and_name_no_host():
    """Packages come by name from wherever the machine gets them, and are checked by hash."""
    for extra in ("", "-dev", "-bench", "-gcp", "-tune"):
        name = f"requirements{extra}.lock"
        text = _text(name)
        assert "://" not in text
        pinned = re.findall(r"^([a-z0-9._-]+)==", text, re.M)
        assert {"tensorflow", "tensorflow-estimator", "apache-beam"} <= set(pinned)
        assert text.count("--hash=sha256:") >= len(pinned)
