"""What can go wrong between a client and Cloud Storage, to be injected by tests."""

from __future__ import annotations

import dataclasses
import re
import threading
from typing import Literal

# `status` answers with an error; `cut_upload` stores half of what is sent and then hangs up,
# `lose_answer` does what is asked and hangs up, `cut_download` hangs up half way through;
# `slow_download` sends a little at a time.
Kind = Literal["status", "cut_upload", "lose_answer", "cut_download", "slow_download"]


@dataclasses.dataclass
class Fault:
    """Happens to the next `times` requests that fit `pattern`, as `METHOD host/path?query`.

    `client` is part of their User-Agent: see `TENSORFLOW` and `PYTHON`.
    """

    pattern: str
    kind: Kind = "status"
    status: int = 503
    times: int = 1
    client: str = ""

    def fits(self, request: str, client: str) -> bool:
        """True if it is to happen to this request."""
        return bool(re.search(self.pattern, request)) and self.client in client


# How the two clients call themselves.
TENSORFLOW = "TSL"
PYTHON = "gcloud-python"


class Faults:
    """The faults that are still to come."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._lock = threading.Lock()
        self.happened: list[str] = []

    def add(self, fault: Fault) -> Fault:
        """Lets a fault happen, after those that were added before."""
        with self._lock:
            self._waiting.append(fault)
        return fault

    def clear(self) -> None:
        """Lets nothing more happen."""
        with self._lock:
            self._waiting.clear()

    def take(self, request: str, client: str) -> Fault | None:
        """Returns what is to happen to a request, which uses it up."""
        with self._lock:
            for fault in self._waiting:
                if fault.times > 0 and fault.fits(request, client):
                    fault.times -= 1
                    self.happened.append(request)
                    return fault
        return None
