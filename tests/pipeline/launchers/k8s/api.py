"""A double of a Kubernetes API server, for a real kubectl on loopback.

It follows the documented behaviour (Kubernetes' pages "Kubernetes API Concepts" and "API
Discovery"): discovery by `/api` and `/apis`, objects by group, version, namespace and name, label
and field selectors, `dryRun=All`, merge patches, and errors as objects of kind Status. It checks
objects by the schemas in tests/golden/k8s, as `fieldValidation=Strict` does, and JobSets by the
rules of JobSet's webhook. It runs nothing: tests put the states of jobs and pods.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import pathlib
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import yaml

from tests.pipeline.launchers.k8s import jobset_rules
from tests.support import json_schema

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "golden" / "k8s" / "schemas"
_SCHEMAS = json_schema.Schemas(SCHEMAS)
_KUBERNETES = "kubernetes-1.31.json"
# plural: (group and version, kind, definition)
KINDS = {
    "configmaps": ("v1", "ConfigMap", (_KUBERNETES, "io.k8s.api.core.v1.ConfigMap")),
    "services": ("v1", "Service", (_KUBERNETES, "io.k8s.api.core.v1.Service")),
    "pods": ("v1", "Pod", None),
    "events": ("v1", "Event", None),
    "namespaces": ("v1", "Namespace", None),
    "secrets": ("v1", "Secret", None),
    "serviceaccounts": ("v1", "ServiceAccount", None),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim", None),
    "jobs": ("batch/v1", "Job", (_KUBERNETES, "io.k8s.api.batch.v1.Job")),
    "networkpolicies": (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        (_KUBERNETES, "io.k8s.api.networking.v1.NetworkPolicy"),
    ),
    "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet", ("jobset-0.12.0.json", "JobSet")),
    "selfsubjectaccessreviews": ("authorization.k8s.io/v1", "SelfSubjectAccessReview", None),
}
_CLUSTER_WIDE = ("namespaces", "selfsubjectaccessreviews")


@dataclasses.dataclass
class Api:
    """What the server knows; tests change it."""

    port: int = 0
    # (plural, name): object, all in one namespace
    objects: dict[tuple[str, str], dict[str, Any]] = dataclasses.field(default_factory=dict)
    namespaces: list[str] = dataclasses.field(default_factory=lambda: ["default", "team"])
    missing_groups: set[str] = dataclasses.field(default_factory=set)
    # (verb, plural) that the user may not do, or that fail once the server is not only asked to try
    forbidden: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    failing: set[str] = dataclasses.field(default_factory=set)
    unauthorized: bool = False
    requests: list[str] = dataclasses.field(default_factory=list)
    lock: Any = dataclasses.field(default_factory=threading.RLock)

    def of(self, plural: str) -> list[dict[str, Any]]:
        """The objects of a kind."""
        with self.lock:
            return [one for (kind, _), one in self.objects.items() if kind == plural]

    def put(self, plural: str, name: str, **content: Any) -> dict[str, Any]:
        """Adds an object as a controller would."""
        version, kind, _ = KINDS[plural]
        metadata = {"name": name, **content.pop("metadata", {})}
        made = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
        with self.lock:
            self.objects[plural, name] = made
        return made

    def plurals(self, version: str) -> list[str]:
        return [
            plural
            for plural, (known, _, _) in KINDS.items()
            if known == version and version.partition("/")[0] not in self.missing_groups
        ]


class _Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api

    def log_message(self, *arguments: Any) -> None:
        pass

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        self.api.requests.append(f"{self.command} {self.path}")
        try:
            with self.api.lock:
                code, content = 200, self._content(address.path.strip("/"), query, body)
        except _Refused as error:
            code, content = error.code, {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": str(error), "reason": error.reason, "code": error.code,
            }  # fmt: skip
        text = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer

    def _content(self, path: str, query: dict[str, str], body: bytes) -> dict[str, Any]:
        api, parts = self.api, path.split("/")
        if api.unauthorized:
            raise _Refused(401, "Unauthorized", "Unauthorized")
        versions = {version for version, _, _ in KINDS.values()}
        groups = {v for v in versions if "/" in v and v.partition("/")[0] not in api.missing_groups}
        if path == "version":
            return {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
        if path == "api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "apis":
            return _groups(sorted(groups))
        if parts[0] == "openapi":
            return _open_api(parts[1:], sorted({*groups, "v1"}))
        version = "v1" if parts[0] == "api" else "/".join(parts[1:3])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[0] not in ("api", "apis") or not api.plurals(version):
            raise _Refused(404, "NotFound", "the server could not find the requested resource")
        if not rest:
            return _resources(version, api.plurals(version))
        return self._objects(version, rest, query, body)

    def _objects(
        self, version: str, rest: list[str], query: dict[str, str], body: bytes
    ) -> dict[str, Any]:
        api, namespace = self.api, ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name = rest[0], rest[1] if len(rest) > 1 else ""
        group = version.rpartition("/")[0]
        verb = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[self.command]
        if plural == "selfsubjectaccessreviews":
            review = json.loads(body)
            wanted = review["spec"]["resourceAttributes"]
            allowed = (wanted["verb"], wanted["resource"]) not in api.forbidden
            return {**review, "status": {"allowed": allowed}}
        full = f"{plural}.{group}" if group else plural
        if (verb, plural) in api.forbidden:
            named = f' "{name}"' if name else ""
            raise _Refused(
                403,
                "Forbidden",
                f'{full}{named} is forbidden: User "ann" cannot {verb} resource "{plural}" in API '
                f'group "{group}" in the namespace "{namespace}"',
            )
        if self.command == "POST":
            return self._create(plural, full, namespace, query, json.loads(body))
        if self.command == "DELETE" and not name:
            for one in self._selected(plural, query):
                del api.objects[plural, one["metadata"]["name"]]
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if not name:
            kind = f"{KINDS[plural][1]}List"
            items = self._selected(plural, query)
            return {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}
        if (plural, name) not in api.objects:
            raise _Refused(404, "NotFound", f'{full} "{name}" not found')
        found = api.objects[plural, name]
        if self.command == "DELETE":
            del api.objects[plural, name]
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if self.command == "PATCH":
            assert self.headers["Content-Type"] == "application/merge-patch+json"
            self._patch(full, found, json.loads(body))
        return found

    def _patch(self, full: str, found: dict[str, Any], patch: dict[str, Any]) -> None:
        """Metadata may change, and how many pods an Indexed Job has ("Elastic Indexed Jobs")."""
        found["metadata"] |= patch.get("metadata", {})
        spec, name = patch.get("spec", {}), found["metadata"]["name"]
        if not spec:
            return
        elastic = full == "jobs.batch" and found["spec"]["completionMode"] == "Indexed"
        changed = found["spec"] | spec
        if not elastic or changed["completions"] != changed["parallelism"]:
            raise _Refused(422, "Invalid", f'{full} "{name}" is invalid: field is immutable')
        found["spec"] = changed

    def _create(
        self, plural: str, full: str, namespace: str, query: dict[str, str], made: dict[str, Any]
    ) -> dict[str, Any]:
        name = made["metadata"]["name"]
        if namespace not in self.api.namespaces:
            raise _Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        if (plural, name) in self.api.objects:
            raise _Refused(409, "AlreadyExists", f'{full} "{name}" already exists')
        definition = KINDS[plural][2]
        wrong = _SCHEMAS.errors(made, *definition) if definition else []
        if wrong:
            raise _Refused(400, "BadRequest", f"strict decoding error: {'; '.join(wrong)}")
        refused = jobset_rules.refusals(made) if plural == "jobsets" else []
        if refused:
            raise _Refused(
                422, "Invalid", f'JobSet.jobset.x-k8s.io "{name}" is invalid: {"; ".join(refused)}'
            )
        number = len(self.api.requests)
        made["metadata"] |= {"uid": f"uid-{number}", "namespace": namespace}
        if query.get("dryRun") == "All":
            return made
        if plural in self.api.failing:
            raise _Refused(500, "InternalError", "Internal error occurred: the disk is full")
        self.api.objects[plural, name] = made
        return made

    def _selected(self, plural: str, query: dict[str, str]) -> list[dict[str, Any]]:
        wanted = dict(one.split("=", 1) for one in query.get("labelSelector", "").split(",") if one)
        field = query.get("fieldSelector", "")
        return [
            one
            for one in self.api.of(plural)
            if wanted.items() <= one["metadata"].get("labels", {}).items()
            and (not field or one.get(field.partition("=")[0]) == field.partition("=")[2])
            and not (field.startswith("metadata.name"))
        ]


def _groups(versions: list[str]) -> dict[str, Any]:
    groups = []
    for version in versions:
        one = {"groupVersion": version, "version": version.partition("/")[2]}
        name = version.partition("/")[0]
        groups.append({"name": name, "versions": [one], "preferredVersion": one})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _resources(version: str, plurals: list[str]) -> dict[str, Any]:
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    resources = [
        {
            "name": plural,
            "singularName": KINDS[plural][1].lower(),
            "namespaced": plural not in _CLUSTER_WIDE,
            "kind": KINDS[plural][1],
            "verbs": verbs,
        }
        for plural in plurals
    ]
    found = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version}
    return {**found, "resources": resources}


def _open_api(parts: list[str], versions: list[str]) -> dict[str, Any]:
    """What kubectl looks at to learn that the server validates fields itself."""
    if parts[0] != "v3":
        raise _Refused(404, "NotFound", "the server could not find the requested resource")
    if len(parts) == 1:
        places = {v: f"apis/{v}" if "/" in v else f"api/{v}" for v in versions}
        named = {p: {"serverRelativeURL": f"/openapi/v3/{p}?hash=1"} for p in places.values()}
        return {"paths": named}
    version = "/".join(parts[2:])
    group, _, number = version.rpartition("/")
    paths = {}
    for plural, (known, kind, _) in KINDS.items():
        if known == version:
            paths[f"/{'/'.join(parts[1:])}/namespaces/{{namespace}}/{plural}/{{name}}"] = {
                "patch": {
                    "parameters": [{"name": "fieldValidation", "in": "query"}],
                    "x-kubernetes-group-version-kind": {
                        "group": group, "version": number, "kind": kind,
                    },
                    "responses": {},
                }
            }  # fmt: skip
    return {"openapi": "3.0.0", "info": {"title": "t", "version": "v1"}, "paths": paths}


@contextlib.contextmanager
def serve() -> Iterator[Api]:
    """Serves an API on loopback as long as the block runs."""
    api = Api()
    handler = type("Handler", (_Handler,), {"api": api})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_kubeconfig(path: pathlib.Path, port: int, *, namespace: str = "team") -> None:
    """Writes a kubeconfig with the context `here`."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "ann", "user": {"token": "t"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "ann", "namespace": namespace}}
        ],
    }
    path.write_text(yaml.safe_dump(config))
