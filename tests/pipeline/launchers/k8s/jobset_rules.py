"""What JobSet refuses to create besides what its schema says, in its own words.

These are the rules of `ValidateCreate` and `validateFailurePolicy` in pkg/webhooks/
jobset_webhook.go, and of `GenJobName` and `GenPodName`, of https://github.com/kubernetes-sigs/jobset
at v0.12.0, and the one rule in CEL of its CRD that concerns a new object. What no job of ours has
(a coordinator, dependencies, claims by template, restarts in place) is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # RFC 1035
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_NOT_MODELLED = ("coordinator", "managedBy", "startupPolicy", "volumeClaimPolicies")


def refusals(job_set: dict[str, Any]) -> list[str]:
    """Returns why JobSet would refuse an object that fits its schema."""
    spec, name = job_set["spec"], job_set["metadata"]["name"]
    found = [f"spec.{key}: not modelled here" for key in _NOT_MODELLED if key in spec]
    found += _check_label("spec.network.subdomain", spec.get("network", {}).get("subdomain", name))
    roles = {one["name"] for one in spec["replicatedJobs"]}
    for number, one in enumerate(spec["replicatedJobs"]):
        path = f"spec.replicatedJobs[{number}]"
        if "dependsOn" in one:
            found.append(f"{path}.dependsOn: not modelled here")
        job = f"{name}-{one['name']}-{one['replicas'] - 1}"
        found += _check_label(f"{path}.name", job)
        # Pods end with five characters of Kubernetes.
        pod = f"{job}-{one['template']['spec']['completions'] - 1}-abcde"
        found += _check_label(f"{path}.name", pod)
    found += [
        f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
        for target in spec.get("successPolicy", {}).get("targetReplicatedJobs", [])
        if target not in roles
    ]
    return [*found, *_check_failure_policy(spec.get("failurePolicy", {}), roles)]


def _check_label(path: str, text: str) -> Iterator[str]:
    if len(text) > 63:
        yield f"{path}: Invalid value: {text!r}: must be no more than 63 characters"
    if not _LABEL.fullmatch(text):
        yield f"{path}: Invalid value: {text!r}: a DNS-1035 label must start with a letter"


def _check_failure_policy(policy: dict[str, Any], roles: set[str]) -> Iterator[str]:
    rules = policy.get("rules", [])
    if policy.get("restartStrategy") == "InPlaceRestart":
        yield "InPlaceRestart restart strategy: not modelled here"
    for rule in rules:
        if not _RULE_NAME.fullmatch(rule["name"]) or len(rule["name"]) > 128:
            yield f"invalid failure policy rule name '{rule['name']}'"
        if rule["action"].startswith("RestartJob") and "JobSet" not in rule["action"]:
            yield f"{rule['action']}: not modelled here"
        for target in rule.get("targetReplicatedJobs", []):
            if target not in roles:
                yield f"invalid replicatedJob name '{target}' in failure policy does not appear"
        for reason in rule.get("onJobFailureReasons", []):
            if reason not in _REASONS:
                yield f"invalid job failure reason '{reason}' in failure policy is not recognized"
    for name in dict.fromkeys(rule["name"] for rule in rules):
        same = [number for number, rule in enumerate(rules) if rule["name"] == name]
        if len(same) > 1:
            indices = " ".join(map(str, same))
            yield f"rule names are not unique, rules with indices [{indices}] are all '{name}'"
