"""What is hidden, and what is not."""

from __future__ import annotations

import pytest

from pipeline.redaction import redact, redact_all


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key AKIAIOSFODNN7EXAMPLE is", "key [hidden] is"),
        ("Bearer ya29.a0AfH6SMBx-y_z.1 end", "Bearer [hidden] end"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[hidden]"),
        ("password=hunter2 and more", "password=[hidden] and more"),
        ("{'db_password': 'hunter 2', 'x': 1}", "{'db_password': [hidden], 'x': 1}"),
        ('"api_key": "abc", "b": 1', '"api_key": [hidden], "b": 1'),
        ("PASSWORD: hunter2", "PASSWORD: [hidden]"),
        ("?X-Goog-Signature=12ab34&a=1", "?X-Goog-Signature=[hidden]&a=1"),
        ("http://me:hunter2@host/x", "http://me:[hidden]@host/x"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----!", "[hidden]!"),
    ],
)
def test_secrets_are_hidden(text, shown):
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "step 100: loss = 0.25, accuracy = 0.99",
        "the token queue of synchronous servers: 3 tokens",
        "gs://bucket/runs/mnist-1a2b3c4d/model.ckpt-100",
        "shard '/data/train-00001': CRC-32C 1234abcd, the manifest says 00000000",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_content_of_any_depth_is_redacted():
    content = {"a": ["password=x", 1, None], "b": {"secret": "y", "steps": 3}}
    assert redact_all(content) == {
        "a": ["password=[hidden]", 1, None],
        "b": {"secret": "[hidden]", "steps": 3},
    }
