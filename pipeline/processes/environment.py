"""Which environment variables a child process gets: an allow-list, so that no secret leaks in. Only
a script of the user's own gets what its user has.

All but one are functions of a mapping; the caller passes `os.environ`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence

# fmt: off
_ALLOWED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR",
    "COLUMNS", "NO_COLOR", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY",
    "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CONFIG",
    "GOOGLE_AUTH_TOKEN_FOR_TESTING", "NO_GCE_CHECK", "GCE_METADATA_HOST", "STORAGE_EMULATOR_HOST",
})
# fmt: on
# PIPELINE_ is for the user's own: whatever a hook or a model of theirs must be told.
# fmt: off
_ALLOWED_PREFIXES = (
    "LC_", "PYTHON", "TF_", "XLA_", "CUDA", "NVIDIA_", "NCCL_", "OMP_", "KMP_", "MKL_", "GCS_",
    "PIPELINE_",
)
# fmt: on
_REMOVED = frozenset(
    {
        # Each process is told its place in the cluster by us, not by what we were started with.
        "TF_CONFIG",
        "CLUSTER_SPEC",
        # Crashes the process with SIGSEGV unless five other variables are set too
        # (docs/tensorflow-pitfalls.md#modular-file-system).
        "TF_USE_MODULAR_FILESYSTEM",
    }
)
# gRPC obeys some of these, and none in capitals.
_PROXIES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
# What TensorFlow's access to gs:// obeys, in capitals too.
_PROXIES_OF_STORAGE = ("https_proxy", "all_proxy", "no_proxy")
# How many threads one op may use, for TensorFlow.
THREADS = "TF_NUM_INTRAOP_THREADS"
# From which level on TensorFlow logs from C++: information 0, warnings 1, errors 2, fatal errors 3.
NATIVE_LOG = "TF_CPP_MIN_LOG_LEVEL"
# For programs in which even the errors are noise, such as GPU libraries that are not there.
QUIET = {NATIVE_LOG: "3"}
# For training, on any machine: banners of information and warnings would bury our own lines.
DEFAULTS = {NATIVE_LOG: "2", "PYTHONUNBUFFERED": "1"}
_LOCAL_DEFAULTS = {
    **DEFAULTS,
    # Several processes share each GPU of a local cluster; by default the first takes it all.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


def filter_for_children(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that processes of a run are started with."""
    given = dict(environment)
    hide_proxies_from_grpc(given)
    kept = {name: value for name, value in given.items() if _is_allowed(name)}
    return {**_LOCAL_DEFAULTS, **kept}


def filter_for_scripts(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that processes of a script are started with: all but those that say
    which process this is. A script may need any of them."""
    given = dict(environment)
    hide_proxies_from_grpc(given)
    return {**_LOCAL_DEFAULTS, **{name: v for name, v in given.items() if name not in _REMOVED}}


def hide_proxies_from_grpc(environment: MutableMapping[str, str]) -> None:
    """Takes lowercase proxy variables out of `environment`, because gRPC would send a cluster's own
    traffic through the proxy (docs/tensorflow-pitfalls.md#grpc-and-proxies); what gs:// needs of
    them continues in capitals."""
    for name in _PROXIES:
        value = environment.pop(name, None)
        if value is not None and name in _PROXIES_OF_STORAGE:
            environment.setdefault(name.upper(), value)


def build_for_role(
    role: str,
    given: Mapping[str, str],
    *,
    processors: int,
    trainers: int,
    gpus: Sequence[str] | None = None,
) -> dict[str, str]:
    """Returns what one role gets on top of what all were `given`.

    It sees the `gpus` of these names, or all; parameter servers keep their hands off them. Several
    `trainers` on one machine share its processors: with a thread for every processor in each of
    them they would be in each other's way (on two processors, a tenth fewer examples/s).
    """
    seen = [] if role == "ps" else gpus
    extra = {} if seen is None else {"CUDA_VISIBLE_DEVICES": ",".join(seen)}
    if trainers > 1 and role != "evaluator" and THREADS not in given:
        extra[THREADS] = str(max(1, processors // trainers))
    return extra


def processors() -> int:
    """Returns how many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_allowed(name: str) -> bool:
    if name in _REMOVED:
        return False
    return name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
