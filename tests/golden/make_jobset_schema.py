"""Writes JobSet's schema from its CustomResourceDefinition, without descriptions:

    python -m tests.golden.make_jobset_schema jobset.x-k8s.io_jobsets.yaml

An API server drops fields that a CRD does not list, and refuses them with `fieldValidation=Strict`:
here they are not allowed. Its rules in CEL and those of JobSet's webhook are in
`tests/pipeline/launchers/k8s/jobset_rules.py`.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import yaml

SCHEMA = pathlib.Path(__file__).parent / "k8s" / "schemas" / "jobset-0.12.0.json"
# What an API server does with lists and defaults is nothing that an object may violate.
_LEFT_OUT = ("description", "default", "format")


def simplify(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema without what validates nothing, with the other fields in plain words."""
    made = {
        key: value
        for key, value in schema.items()
        if key not in _LEFT_OUT and not key.startswith("x-kubernetes-")
    }
    if schema.get("x-kubernetes-int-or-string"):
        del made["anyOf"]
        made["type"] = ["integer", "string"]
    if "properties" in made:
        made["properties"] = {name: simplify(one) for name, one in made["properties"].items()}
        made["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = simplify(made[key])
    return made


def main() -> None:
    crd = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
    (version,) = crd["spec"]["versions"]
    assert version["name"] == "v1alpha2"
    schema = simplify(version["schema"]["openAPIV3Schema"])
    # The schema of a CRD leaves to the API server what all objects have.
    schema["required"] = ["apiVersion", "kind", "metadata"]
    schema["properties"] |= {
        "apiVersion": {"enum": [f"{crd['spec']['group']}/{version['name']}"]},
        "kind": {"enum": [crd["spec"]["names"]["kind"]]},
        "metadata": {
            "$ref": "kubernetes-1.31.json#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        },
    }
    SCHEMA.write_text(json.dumps({"$defs": {"JobSet": schema}}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
