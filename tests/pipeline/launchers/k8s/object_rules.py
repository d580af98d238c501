"""What Kubernetes refuses of an object that fits its schema: names, labels and numbers.

These are the rules of its pages on names and on labels, and of `ValidatePodSpec` in pkg/apis/core/
validation of https://github.com/kubernetes/kubernetes at v1.31.0, for the fields that jobs of ours
have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# By kind: the file with the schemas, and the name there.
DEFINITIONS = {
    "ConfigMap": ("kubernetes-1.31.json", "io.k8s.api.core.v1.ConfigMap"),
    "NetworkPolicy": ("kubernetes-1.31.json", "io.k8s.api.networking.v1.NetworkPolicy"),
    "Service": ("kubernetes-1.31.json", "io.k8s.api.core.v1.Service"),
    "Job": ("kubernetes-1.31.json", "io.k8s.api.batch.v1.Job"),
    "JobSet": ("jobset-0.12.0.json", "JobSet"),
    "PodTemplate": ("kubernetes-1.31.json", "io.k8s.api.core.v1.PodTemplateSpec"),
}
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABELS = ("labels", "matchLabels", "nodeSelector", "selector")
_NAMES = ("claimName", "serviceAccountName", "priorityClassName")
_INT32 = ("runAsUser", "runAsGroup", "fsGroup", "maxRestarts", "ttlSecondsAfterFinished")


def refusals(value: Any, path: str = "") -> Iterator[str]:
    """Yields why the API server would refuse an object, or a part of one; a line each."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from refusals(one, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    for key, one in value.items():
        where = f"{path}.{key}"
        if key in _LABELS:
            yield from _check_labels(one, where)
        elif key in _NAMES:
            yield from _check_name(one, where)
        elif key in ("secretRef", "configMap", "metadata") and "name" in one:
            yield from _check_name(one["name"], f"{where}.name")
        elif key == "imagePullSecrets":
            for named in one:
                yield from _check_name(named["name"], where)
        elif key == "tolerations":
            for toleration in one:
                if "key" in toleration:
                    yield from _check_labels(
                        {toleration["key"]: toleration.get("value", "")}, where
                    )
        elif key == "activeDeadlineSeconds" and one < 1:
            yield f"{where}: {one} ends a job at once"
        elif key in _INT32 and not 0 <= one < 1 << 31:
            yield f"{where}: {one} is no integer of 32 bits"
        if key not in _LABELS:
            yield from refusals(one, where)


def _check_labels(labels: dict[str, str], where: str) -> Iterator[str]:
    for key, text in labels.items():
        prefix, slash, name = key.rpartition("/")
        if slash:
            yield from _check_name(prefix, where)
        for word in (name, *([text] if text else [])):
            if len(word) > 63 or not _WORD.fullmatch(word):
                yield f"{where}: {key}: {text}: {word!r} is no part of a label"


def _check_name(name: str, where: str) -> Iterator[str]:
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield f"{where}: {name!r} is no RFC 1123 subdomain"
