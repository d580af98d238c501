import pydantic
import pytest

from pipeline import config, config_file
from pipeline.config import Column, Data, EvalSplit

INPUTS = {"train": {"images": "i", "labels": "l"}}


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((3,), 3), ((28, 28, 1), 784)])
def test_the_size_of_a_column(shape, size):
    assert Column(type="uint8", shape=shape).size == size


@pytest.mark.parametrize("name", ["mnist", "a", "0", "a.b_c-d", "x" * 63])
def test_good_names(name):
    pydantic.TypeAdapter(config.Name).validate_python(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/", "A", "-a", "x" * 64, "a b", "a\n", "ä"]
)
def test_names_that_could_leave_their_folder_are_refused(name):
    with pytest.raises(pydantic.ValidationError, match="should match pattern"):
        pydantic.TypeAdapter(config.Name).validate_python(name)


def test_sections_do_not_change():
    split = EvalSplit(share=0.2)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        split.share = 0.3


def test_the_label_must_be_a_column():
    with pytest.raises(pydantic.ValidationError, match=r"'digit' is not among the columns \['x'\]"):
        Data(inputs=INPUTS, columns={"x": Column(type="int64")}, label="digit")


def test_digests_name_values():
    job = config_file.load("mnist")
    assert config.digest(job) == config.digest(config_file.load("mnist"))
    assert config.digest(job) != config.digest(config_file.load("mnist", ["train.steps=1"]))
    assert config.digest({"a": 1, "b": 2}) == config.digest({"b": 2, "a": 1})
    assert len(config.digest(job)) == 64
