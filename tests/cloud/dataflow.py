"""Dataflow's job service on loopback, as far as submitting, following and cancelling a job goes."""

from __future__ import annotations

import json
import re
from typing import Any

PLACE = "projects/my-project/locations/europe-west4"


class Dataflow:
    """The jobs of one project in one region. A job goes through `states`, one at each look."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.states: list[str] = []
        self.messages: list[str] = []
        self._reached: dict[str, str] = {}

    def clear(self) -> None:
        """Forgets all jobs."""
        self.__init__()

    def answer(self, method: str, path: str, body: bytes) -> Any:
        """Returns the answer to a request of the REST API, or `None` for one that is none."""
        if path == f"/v1b3/{PLACE}/jobs" and method == "POST":
            self.created.append(json.loads(body))
            number = f"2026-11-21_{len(self.created)}"
            self._reached[number] = "JOB_STATE_PENDING"
            return self._describe(number)
        found = re.fullmatch(rf"/v1b3/{PLACE}/jobs/([^/]+)(/messages|/metrics)?", path)
        if found is None:
            return None
        if found[2] == "/messages":
            return {"jobMessages": [{"messageText": text} for text in self.messages]}
        if found[2] == "/metrics":
            return {"metrics": []}
        if method == "PUT":
            self.cancelled.append(found[1])
            self._reached[found[1]] = json.loads(body)["requestedState"]
        elif self.states:
            self._reached[found[1]] = self.states.pop(0)
        return self._describe(found[1])

    def _describe(self, number: str) -> dict[str, Any]:
        state = self._reached.get(number, "JOB_STATE_RUNNING")
        return {"id": number, "projectId": "my-project", "currentState": state}
