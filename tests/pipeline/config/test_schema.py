import pickle

import pydantic
import pytest

from pipeline import config, places
from pipeline.config import Optimizer, config_file
from pipeline.launchers.slurm.settings import Slurm


@pytest.mark.parametrize("name", ["mnist", "a", "0", "a.b_c-d", "x" * 63])
def test_good_names(name):
    pydantic.TypeAdapter(config.Name).validate_python(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/", "A", "-a", "x" * 64, "a b", "a\n", "ä"]
)
def test_names_that_could_leave_their_folder_are_refused(name):
    with pytest.raises(pydantic.ValidationError, match="must look like 'flights-2024'"):
        pydantic.TypeAdapter(config.Name).validate_python(name)


def test_sections_do_not_change():
    optimizer = Optimizer(learning_rate=0.2)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        optimizer.learning_rate = 0.3


def test_digests_name_values():
    job = config_file.load("mnist")
    assert config.digest(job) == config.digest(config_file.load("mnist"))
    assert config.digest(job) != config.digest(config_file.load("mnist", ["train.steps=1"]))
    assert config.digest({"a": 1, "b": 2}) == config.digest({"b": 2, "a": 1})
    assert len(config.digest(job)) == 64


def test_every_place_with_settings_has_its_section_at_the_end():
    assert [*config.Config.model_fields][-len(places.settings()) :] == [*places.settings()]
    assert config.Config.model_json_schema()["description"] == "One job."
    wanted = config_file.load("mnist", ["slurm.cpus=3"])
    assert Slurm.of(wanted).cpus == 3
    assert pickle.loads(pickle.dumps(wanted)) == wanted
