"""The command, as a process of its own: a config that make preprocess takes at once."""

from __future__ import annotations

from tests.support import commands


def test_from_data_to_records(tmp_path):
    out = tmp_path / "first.yaml"
    flags = ("--data=data/flights/sample.csv.gz", f"--out={out}")
    done = commands.run("preprocessing.infer_schema", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{out}: 19 columns of 5,000 rows. Look it over" in done.stdout
    assert "\nlabel: arr_delay, a guess: its name is an outcome's; another: " in done.stdout
    done = commands.run("preprocessing.main", f"--config={out}", f"--storage={tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert ": 4,841 records in" in done.stdout
    done = commands.run("preprocessing.infer_schema", *flags)
    assert done.returncode == 64 and "is there already" in done.stderr


def test_numbers_that_float32_makes_equal_are_named(tmp_path):
    rows = "".join(f"{1e9 + n / 1000:.3f},{n % 7},{n / 3}\n" for n in range(400))
    (tmp_path / "far.csv").write_text("far,n,near\n" + rows)
    flags = (f"--data={tmp_path / 'far.csv'}", f"--out={tmp_path / 'far.yaml'}")
    done = commands.run("preprocessing.infer_schema", *flags)
    assert "warning: 'far' has 400 different numbers, of which float32 makes 1: " in done.stdout
    assert "'near' has" not in done.stdout


def test_values_that_keep_a_column_from_being_numbers_are_named(tmp_path):
    rows = [[f"{n / 7:.3f}", f"{n % 9}.5"] for n in range(400)]
    rows[7][0], rows[9][1] = "12a", "1e39"
    lines = ["size,y", *map(",".join, rows), ""]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    flags = (f"--data={tmp_path / 'a.csv'}", f"--out={tmp_path / 'a.yaml'}")
    why = "1 of 400 values cannot be read as float32: "
    for more, label in (((), "label 'y' (a guess: by its name)"), (("--label=y",), "LABEL=y")):
        done = commands.run("preprocessing.infer_schema", *flags, *more)
        # On a busy machine progress is shown before.
        assert done.returncode == 64 and "Look it over" not in done.stdout
        wanted = f"error: {label}: {why}'1e39'; correct these or remove the rows\n"
        assert done.stderr == wanted
    lines[10] = lines[10].replace("1e39", "1e38")
    (tmp_path / "a.csv").write_text("\n".join(lines))
    done = commands.run("preprocessing.infer_schema", *flags)
    assert done.returncode == 0
    kept = f"warning: 'size' is kept as text: {why}'12a'. Correct them to make it a number\n"
    assert kept in done.stdout


def test_a_table_without_features_is_reported_as_none_to_train_on(tmp_path):
    rows = "".join(
        f"{n},{1960 + n // 12} {'JFMASOND'[n % 8]}ay,{n * 0.37:.2f}\n" for n in range(99)
    )
    (tmp_path / "gas.csv").write_text("rownames,Month,Volume\n" + rows)
    done = commands.run(
        "preprocessing.infer_schema",
        f"--data={tmp_path / 'gas.csv'}",
        f"--out={tmp_path / 'gas.yaml'}",
        "--label=Volume",
    )
    assert done.returncode == 0
    assert "make train" not in done.stdout
    assert (
        "warning: no column makes a feature, so a model has nothing to learn from: 'rownames' "
        "(another value in every row), 'Month' (fewer than 2 rows each on average). Add columns "
        f"that vary to the data, or write features and a model in {tmp_path / 'gas.yaml'}\n"
    ) in done.stdout
    assert done.stdout.count("'Month'") == 1


def test_the_label_is_a_flag(tmp_path):
    flags = ("--data=data/flights/sample.csv.gz", f"--out={tmp_path / 'first.yaml'}")
    done = commands.run("preprocessing.infer_schema", *flags, "--label=orgin")
    assert (done.returncode, done.stdout) == (64, "")
    assert "LABEL=orgin: no such column (did you mean 'origin'" in done.stderr
    assert commands.run("preprocessing.infer_schema", *flags, "--label=origin").returncode == 0


def test_whether_there_is_a_header_is_printed_and_can_be_given(tmp_path):
    (tmp_path / "n.csv").write_text(
        "".join(f"{n / 7:.3f},{n % 4},{n % 2 + 5}\n" for n in range(99))
    )
    out = tmp_path / "n.yaml"
    flags = (f"--data={tmp_path / 'n.csv'}", f"--out={out}")
    done = commands.run("preprocessing.infer_schema", *flags)
    doubt = "the first row ('0.000', '0', '5') is taken for values; if it is names: make schema "
    assert f"warning: taken as without a header: {doubt}HEADER=1 DATA=" in done.stdout
    out.unlink()
    done = commands.run("preprocessing.infer_schema", *flags, "--header=1")
    assert done.returncode == 0 and f"{out}: 3 columns of 98 rows" in done.stdout
    (tmp_path / "p.jsonl").write_text('{"a": 1}\n')
    flags = (f"--data={tmp_path / 'p.jsonl'}", "--header=0")
    line = commands.read_error_line(commands.run("preprocessing.infer_schema", *flags))
    assert "HEADER=0 is for CSV, and " in line


def test_what_is_not_there():
    done = commands.run("preprocessing.infer_schema", "--data=absent.csv")
    assert commands.read_error_line(done, 65).startswith("error: 'absent.csv': no such file")
