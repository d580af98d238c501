"""Vertex AI's job service on loopback, as far as creating, following and cancelling a job goes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

PLACE = "projects/my-project/locations/europe-west4"

_PAGE = 3  # jobs


class Jobs:
    """The custom jobs of one project in one region.

    A job goes through `states`, one at each look; `on_state` is told, so that a test can do what
    the processes of the job would.
    """

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.states: list[str] = []
        self.on_state: Callable[[str], None] = lambda state: None
        self.error, self.code = "", 3
        self.pages = 0
        self._reached: list[str] = []

    def clear(self) -> None:
        """Forgets all jobs."""
        self.__init__()

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        """Returns the answer to a request of the REST API, or `None` for one that is none."""
        if path == f"/v1/{PLACE}/customJobs" and method == "POST":
            job = json.loads(body)
            self.created.append(job)
            self._reached.append("JOB_STATE_QUEUED")
            return self._describe(len(self.created) - 1)
        if path == f"/v1/{PLACE}/customJobs":
            return self._list(query)
        if match := re.fullmatch(rf"/v1/{PLACE}/customJobs/(\d+):cancel", path):
            self._reached[int(match[1]) - 1] = "JOB_STATE_CANCELLED"
            return {}
        if match := re.fullmatch(rf"/v1/{PLACE}/customJobs/(\d+)", path):
            number = int(match[1]) - 1
            if self.states:
                self._reached[number] = self.states.pop(0)
                self.on_state(self._reached[number])
            return self._describe(number)
        return None

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        """Returns one page of the jobs that a filter lets through."""
        label, *unwanted = query["filter"].split(" AND ")
        states = {re.fullmatch(r'state!="(\w+)"', one)[1] for one in unwanted}
        found = [
            number
            for number, job in enumerate(self.created)
            if job["labels"]["run"] == label.removeprefix("labels.run=")
            and self._reached[number] not in states
        ]
        self.pages += 1
        first = int(query.get("pageToken", 0))
        after = first + _PAGE
        more = {"nextPageToken": str(after)} if after < len(found) else {}
        return {"customJobs": [self._describe(n) for n in found[first:after]], **more}

    def _describe(self, number: int) -> dict[str, Any]:
        failed = self._reached[number] == "JOB_STATE_FAILED" and self.error
        return {
            **self.created[number],
            "name": f"{PLACE}/customJobs/{number + 1}",
            "state": self._reached[number],
            **({"error": {"code": self.code, "message": self.error}} if failed else {}),
        }
