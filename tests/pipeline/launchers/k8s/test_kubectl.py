"""What kubectl puts out, and what it means. The texts are those of kubectl 1.31 and of the errors
that API servers answer with."""

import pytest

from pipeline import errors
from pipeline.launchers.k8s import kubectl


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (
            "The connection to the server localhost:8080 was refused - did you specify the right "
            "host or port?",
            errors.RetryableError,
            "Run the same command again",
        ),
        (
            'Post "http://127.0.0.1:1/api/v1/namespaces/team/configmaps?timeout=30s": EOF',
            errors.RetryableError,
            "EOF. Run the same command again",
        ),
        (
            "Unable to connect to the server: dial tcp: lookup x: no such host",
            errors.RetryableError,
            "no such host",
        ),
        (
            'Error from server (InternalError): error when creating "STDIN": Internal error '
            'occurred: failed calling webhook "mjobset.kb.io"',
            errors.RetryableError,
            "^kubectl: Internal error occurred: failed calling",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            errors.UsageError,
            "Log in to the cluster again",
        ),
        (
            'Error from server (Forbidden): error when creating "STDIN": jobs.batch is forbidden: '
            'User "ann" cannot create resource "jobs"',
            kubectl.ForbiddenError,
            '^kubectl: jobs.batch is forbidden: User "ann" .* for a role that may',
        ),
        (
            'Error from server (Forbidden): pods "x" is forbidden: exceeded quota: small',
            errors.UsageError,
            "Ask for less in k8s.resources, or for quota",
        ),
        (
            'Error from server (NotFound): error when creating "STDIN": namespaces "x" not found',
            kubectl.NotThereError,
            'namespaces "x" not found. Create it, or choose another k8s.namespace',
        ),
        (
            'Error from server (NotFound): persistentvolumeclaims "x" not found',
            kubectl.NotThereError,
            "^kubectl: persistentvolumeclaims",
        ),
        (
            'I1122 a plugin says hello\nError from server (BadRequest): error when creating "-": '
            "strict decoding error: unknown field",
            errors.UsageError,
            "^kubectl: strict decoding error: unknown field$",
        ),
        ("", errors.UsageError, "it gives no reason"),
    ],
)
def test_what_kubectl_says_becomes_one_line(said, kind, words):
    found = kubectl.refusal(said)
    assert type(found) is kind
    with pytest.raises(kind, match=words):
        raise found
    assert "\n" not in str(found)
