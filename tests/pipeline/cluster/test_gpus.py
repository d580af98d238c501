import pytest

from pipeline.cluster import gpus


@pytest.fixture
def devices(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidia-uvm", "nvidiactl", "sda"):
        (tmp_path / name).touch()
    return str(tmp_path)


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 2), ("", 0), ("-1", 0), ("0", 1), ("1,0", 2), ("0,-1,1", 1), ("0,1,2", 2)],
)
def test_devices_are_counted_as_cuda_sees_them(devices, visible, count):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpus.count(environment, devices) == count


def test_a_machine_without_any_has_none(tmp_path):
    assert gpus.count({}, str(tmp_path)) == 0
    assert gpus.count({}, str(tmp_path / "absent")) == 0
