"""REST APIs of Google Cloud, with the credentials of this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Iterator
from typing import Any

from pipeline import errors
from pipeline.storage import gcs_errors

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT = 60.0  # seconds for one request
QUOTA = "The quota is used up: wait, ask for more, or use other machines or another REGION="

# Who submits a job lets it run as another account: iam.serviceAccounts.actAs.
_MAY_ACT_AS = re.compile(r"\bact\s?as\b", re.IGNORECASE)
_ACT_AS = (
    "Grant the account that submits roles/iam.serviceAccountUser on gcp.service_account, or on the "
    "default account if that is not set"
)


class NotThere(errors.UsageError):
    """The service knows nothing of that name."""


def with_quota(credentials: Any, project: str) -> Any:
    """Returns credentials of a person that are charged to the `project`: without one the service
    refuses them (https://cloud.google.com/docs/authentication/troubleshoot-adc)."""
    from google.oauth2.credentials import Credentials

    if isinstance(credentials, Credentials) and not credentials.quota_project_id:
        return credentials.with_quota_project(project)
    return credentials


@dataclasses.dataclass
class Api:
    """One service, as `root` such as https://…/v1, for one project and region.

    `service` is what it is called, `host` what has to be enabled, and `role` what the caller
    needs.
    """

    root: str
    service: str
    place: str
    host: str
    role: str
    _session: Any = None

    def ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """Returns the answer to a request.

        Raises `UsageError` for what has to be changed first (`NotThere` if that is the name), and
        `RetryableError` for what passes; both say what to do.
        """
        with self._explain_errors():
            response = self._connect().request(
                method, f"{self.root}/{path}", timeout=_TIMEOUT, **content
            )
        if response.ok:
            return dict(response.json())
        refusal = self.refusal(response.status_code, gcs_errors.explanation(response.text))
        raise NotThere(str(refusal)) if response.status_code == 404 else refusal

    def refusal(self, status: int, said: str) -> errors.PipelineError:
        """Returns the error for an HTTP status of the service; `said` is its own explanation."""
        line = f"{self.service}, {self.place}: {said.rstrip('.')} ({status})"
        what = {
            400: "Correct the gcp: section of the config; DRY_RUN=1 shows what is sent",
            401: "Google does not accept the credentials. Log in with gcloud auth "
            "application-default login, or set GOOGLE_APPLICATION_CREDENTIALS",
            403: _ACT_AS
            if _MAY_ACT_AS.search(said)
            else f"Grant the account {self.role}, and enable {self.host}",
            404: "Look at PROJECT= and REGION=",
            429: QUOTA,
        }
        if status in (408, 429) or status >= 500:
            advice = what.get(status, "The service has a problem; run the same command again")
            return errors.RetryableError(f"{line}. {advice}")
        return errors.UsageError(f"{line}. {what.get(status, what[400])}")

    def _connect(self) -> Any:
        if self._session is None:
            import google.auth
            from google.auth.transport.requests import AuthorizedSession

            gcs_errors.check_key_file()
            credentials, _ = google.auth.default(scopes=[_SCOPE])
            self._session = AuthorizedSession(with_quota(credentials, self.place.split("/")[1]))
        return self._session

    @contextlib.contextmanager
    def _explain_errors(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own end of life, years ahead
            import google.auth.exceptions as auth
            import requests
        try:
            yield
        except auth.DefaultCredentialsError as error:
            raise gcs_errors.build_credentials_error(self.place, error) from None
        except auth.RefreshError as error:
            raise self.refusal(401, str(error.args[0] if error.args else error)) from None
        except (auth.TransportError, requests.exceptions.RequestException) as error:
            raise errors.RetryableError(
                f"{self.root}: cannot be reached ({str(error).splitlines()[0]}). Look at the "
                "network and the region, then run the same command again: a job that was submitted "
                "is found"
            ) from None
