"""The digest of a public image, asked of its registry without a program for containers.

How a client gets a token: https://distribution.github.io/distribution/spec/auth/token/. Where the
digest of a tag is: https://distribution.github.io/distribution/spec/api/#content-digests.
"""

from __future__ import annotations

import dataclasses
import json
import re
import urllib.parse
import urllib.request

_TIMEOUT = 20.0  # seconds
# An index of one image for each kind of processor, or what was before it.
_INDEX = (
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class Registry:
    """Where tokens and manifests are: of Docker Hub."""

    tokens: str = "https://auth.docker.io/token?service=registry.docker.io"
    manifests: str = "https://registry-1.docker.io/v2"

    def digest(self, name: str) -> str:
        """Returns the digest of an image, such as `python:3.11-slim`.

        Raises `OSError` if the registry does not answer or does not have it, and `ValueError` for
        an answer without a digest.
        """
        path, _, tag = name.rpartition(":")
        path = path if "/" in path else f"library/{path}"  # Docker's own images
        scope = urllib.parse.quote(f"repository:{path}:pull")
        with urllib.request.urlopen(f"{self.tokens}&scope={scope}", timeout=_TIMEOUT) as answer:
            token = json.load(answer)["token"]
        request = urllib.request.Request(
            f"{self.manifests}/{path}/manifests/{tag}",
            headers={"Accept": _INDEX, "Authorization": f"Bearer {token}"},
            method="HEAD",
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            found = str(answer.headers.get("Docker-Content-Digest"))
        if not _DIGEST.fullmatch(found):
            raise ValueError(f"its digest is {found!r}")
        return found
