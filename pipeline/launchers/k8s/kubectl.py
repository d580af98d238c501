"""kubectl, which speaks to a cluster with the user's context, credentials and plugins."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Sequence
from typing import Any

from pipeline import errors
from pipeline.launchers import program

_PROGRAM = "kubectl"
# Seconds that the cluster may take.
_REQUEST = 30
# In what kubectl puts out if nothing answers, or not now.
_UNREACHABLE = (
    "unable to connect to the server",
    "connection refused",
    "i/o timeout",
    "no such host",
    "tls handshake timeout",
    "context deadline exceeded",
    "client.timeout",
    "unexpected eof",
    ": eof",
    "(serviceunavailable)",
    "(internalerror)",
    "(timeout)",
    "(servertimeout)",
    "(toomanyrequests)",
    "connection reset",
    "connection to the server",
    "http2: ",
    "currently unable to handle the request",
    "failed calling webhook",
)
_BEFORE = re.compile(
    r"^(?:error: |Error from server(?: \(\w+\))?: |error when creating \"[^\"]*\": )+"
)


class NotThereError(errors.UsageError):
    """The cluster has no such object, or no such kind."""


class ForbiddenError(errors.UsageError):
    """The user may not do that."""


@dataclasses.dataclass(frozen=True)
class ClusterNamespace:
    """A namespace of the cluster that a context stands for."""

    context: str
    namespace: str

    def ask(self, *arguments: str, text: str | None = None) -> str:
        """Returns what kubectl puts out.

        Raises `RetryableError` if the cluster does not answer, `NotThereError` for what does not
        exist, `ForbiddenError` for what the user may not do, and `UsageError` for what the cluster
        refuses otherwise.
        """
        place = (f"--context={self.context}", f"--namespace={self.namespace}")
        return _call(*place, f"--request-timeout={_REQUEST}s", *arguments, text=text)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Returns an object, or a list of objects. Raises as `ask`."""
        found: dict[str, Any] = json.loads(self.ask("get", *arguments, "--output=json"))
        return found

    def items(self, resource: str, selector: str) -> list[dict[str, Any]]:
        """Returns the objects with a label. Raises as `ask`."""
        found = self.get(resource, f"--selector={selector}")
        return list(found.get("items", []))

    def has_kind(self, resource: str) -> bool:
        """True if the cluster has the kind `<plural>.<group>`. Raises as `ask`."""
        _, _, group = resource.partition(".")
        listed = self.ask("api-resources", f"--api-group={group}", "--output=name")
        return resource in listed.split()

    def create(self, documents: Sequence[dict[str, Any]], *, dry_run: bool) -> list[dict[str, Any]]:
        """Creates objects, in this order, and returns them. In a `dry_run` the cluster checks them
        and keeps nothing. Raises as `ask`."""
        extra = ["--dry-run=server"] if dry_run else []
        # One after the other: of a list, kubectl cannot have the server check the fields.
        text = "\n".join(map(json.dumps, documents))
        said = self.ask("create", "--filename=-", "--output=json", *extra, text=text)
        return _parse_objects(said)


def _parse_objects(said: str) -> list[dict[str, Any]]:
    """Returns the objects that kubectl puts out, whether as a list or one after the other."""
    decoder, found, rest = json.JSONDecoder(), list[dict[str, Any]](), said.strip()
    while rest:
        one, end = decoder.raw_decode(rest)
        found += one["items"] if one.get("kind") == "List" else [one]
        rest = rest[end:].lstrip()
    return found


def require() -> None:
    """Raises `UsageError` on a machine without kubectl."""
    if shutil.which(_PROGRAM) is None:
        raise errors.UsageError(
            "CLUSTER=k8s: no kubectl on this machine. Install it (Kubernetes' own page: Install "
            "Tools), and run the command again"
        )


def cluster_of(context: str | None, namespace: str | None) -> ClusterNamespace:
    """Returns the cluster that a config means, by the user's kubeconfig. Raises `UsageError` if
    there is no such context."""
    require()
    try:
        current = context or _call("config", "current-context").strip()
    except errors.UsageError:
        raise errors.UsageError(
            "CLUSTER=k8s: kubectl has no current context. Choose one of kubectl config "
            "get-contexts with k8s.context, or with kubectl config use-context"
        ) from None
    view = json.loads(_call("config", "view", "--output=json"))
    known = {one["name"]: one.get("context") or {} for one in view.get("contexts") or []}
    if current not in known:
        listed = ", ".join(known) or "none"
        raise errors.UsageError(
            f"CLUSTER=k8s: kubectl has no context {current!r}; it has {listed}. Choose one with "
            "k8s.context"
        )
    return ClusterNamespace(current, namespace or known[current].get("namespace") or "default")


def _call(*arguments: str, text: str | None = None) -> str:
    return program.ask(_PROGRAM, *arguments, place="k8s", refusal=refusal, text=text)


def refusal(said: str) -> errors.PipelineError:
    """Returns the error that kubectl's output stands for."""
    # Credential plugins and klog write lines of their own before the error.
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if _BEFORE.match(line)] or lines[-1:]
    words = "; ".join(dict.fromkeys(_BEFORE.sub("", one).rstrip(".") for one in ours))
    words, low = words or "it gives no reason", said.lower()
    if any(text in low for text in _UNREACHABLE):
        return errors.RetryableError(f"kubectl: {words}. {program.AGAIN}")
    if "unauthorized" in low or "must be logged in" in low:
        return errors.UsageError(f"kubectl: {words}. Log in to the cluster again")
    if "exceeded quota" in low:
        return errors.UsageError(f"kubectl: {words}. Ask for less in k8s.resources, or for quota")
    if "(forbidden)" in low:
        return ForbiddenError(
            f"kubectl: {words}. Ask the cluster's administrator for a role that may (docs/"
            "kubernetes.md lists what is needed), or choose another k8s.namespace"
        )
    if "namespaces " in low and "not found" in low:
        return NotThereError(f"kubectl: {words}. Create it, or choose another k8s.namespace")
    if "(notfound)" in low or "doesn't have a resource type" in low or "no matches for" in low:
        return NotThereError(f"kubectl: {words}")
    return errors.UsageError(f"kubectl: {words}")
