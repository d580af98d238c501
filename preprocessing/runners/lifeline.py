"""Two named pipes between a process and its workers, which it does not start itself.

By one the workers notice its end, whatever ends it, and end too; by the other they report errors,
whose texts are in files beside it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable

_HELD, _ERRORS, _TEXT = "held", "errors", "error.txt"
_FAILED, _CUT = b"f", b"c"


class Lifeline:
    """The end of the process that has workers. Within the block they live.

    After the first error of a worker `wait` is called with its text, in a thread; when it returns
    all workers are ended. `folder` is what they are to `attach` to.
    """

    def __init__(self, wait: Callable[[str], None]) -> None:
        self.folder = tempfile.mkdtemp(prefix="workers-")
        self._wait = wait
        for name in (_HELD, _ERRORS):
            os.mkfifo(os.path.join(self.folder, name))
        # Each end of a pipe is open here, so that no worker has to wait for the other.
        self._held = os.open(os.path.join(self.folder, _HELD), os.O_RDWR)
        self._errors = os.open(os.path.join(self.folder, _ERRORS), os.O_RDWR)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._lock = threading.Lock()

    def __enter__(self) -> Lifeline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        os.write(self._errors, _CUT)
        self._thread.join()
        os.close(self._errors)
        shutil.rmtree(self.folder, ignore_errors=True)

    def cut(self) -> None:
        """Ends all workers at once."""
        with self._lock:
            if self._held >= 0:
                os.close(self._held)
                self._held = -1

    def _watch(self) -> None:
        if os.read(self._errors, 1) == _FAILED:
            with open(os.path.join(self.folder, _TEXT), encoding="utf-8") as file:
                self._wait(file.read())
            self.cut()


def attach(folder: str) -> Callable[[str], None]:
    """Ends this process when the lifeline in `folder` is cut; returns what reports the text of an
    error."""
    held = os.open(os.path.join(folder, _HELD), os.O_RDONLY)
    errors = os.open(os.path.join(folder, _ERRORS), os.O_WRONLY)

    def end() -> None:
        os.read(held, 1)
        shutil.rmtree(folder, ignore_errors=True)  # as the other may have been killed
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()

    def report(text: str) -> None:
        path = os.path.join(folder, f"{os.getpid()}-{threading.get_ident()}")
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.replace(path, os.path.join(folder, _TEXT))
        os.write(errors, _FAILED)

    return report
