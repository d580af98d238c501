"""Builds the container images of training and of Dataflow's workers, and pushes them.

    estimator-pipeline image --image=europe-west4-docker.pkg.dev/p/images/estimator-pipeline:1

With docker, podman or Cloud Build, whichever is installed. Takes some minutes. Prints both images
by digest, as the config wants them.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, errors
from pipeline.launchers import image_build

_IMAGE = flags.DEFINE_string("image", "", "Registry, path and tag of the image.")
_CUDA = flags.DEFINE_bool("cuda", False, "Include CUDA, for machines with GPUs.")
_BUILDER = flags.DEFINE_enum(
    "builder",
    "",
    ["", *image_build.BUILDERS],
    "Program that builds the image; gcloud stands for Cloud Build.",
)


def main() -> None:
    """Builds both, and says how to use them."""
    if not _IMAGE.value:
        raise errors.UsageError(
            "image: name it: make image IMAGE=europe-west4-docker.pkg.dev/my-project/images/"
            "estimator-pipeline:1"
        )
    made = image_build.run(image_build.ImageBuild(_IMAGE.value, _CUDA.value), _BUILDER.value)
    print(f"training    gcp.image={made['trainer']}")
    print(f"Dataflow    gcp.dataflow.image={made['preprocessor']}")


if __name__ == "__main__":
    cli.run(main)
