"""The message types of Vertex AI's client library, without the library.

    python -m tests.golden.vertex_messages

writes them anew to `jobs/vertex_messages.pb`, where google-cloud-aiplatform is installed: the
descriptors of its CustomJob, of the requests about it, and of all they are made of. The library is
an extra that most machines do not have; protobuf itself makes message types of descriptors.
"""

from __future__ import annotations

import pathlib
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PATH = pathlib.Path(__file__).parent / "jobs" / "vertex_messages.pb"
_PACKAGE = "google.cloud.aiplatform.v1"


def find_message(name: str, descriptors: bytes | None = None) -> Any:
    """Returns a message class of the library, such as `CustomJob`."""
    pool = descriptor_pool.DescriptorPool()
    content = PATH.read_bytes() if descriptors is None else descriptors
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def read_from_library() -> bytes:
    """Returns the descriptors as the installed library has them."""
    from google.cloud.aiplatform_v1 import types

    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for message in (types.CustomJob, types.CreateCustomJobRequest, types.ListCustomJobsResponse):
        _collect(message.pb().DESCRIPTOR.file, found)
    whole = descriptor_pb2.FileDescriptorSet(file=found.values())
    return whole.SerializeToString(deterministic=True)


def _collect(file: Any, found: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    """Adds a file after those that it needs."""
    if file.name in found:
        return
    for needed in file.dependencies:
        _collect(needed, found)
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    found[file.name] = proto


if __name__ == "__main__":
    PATH.write_bytes(read_from_library())
