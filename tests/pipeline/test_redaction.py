"""What is hidden, and what is not."""

from __future__ import annotations

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import config_file
from pipeline.redaction import redact, redact_all, secrets_in


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
        ("password: correct horse", "password: [hidden] horse"),
        ("spring.datasource.password: hunter", "spring.datasource.password: [hidden]"),
        ("spring.datasource.password: 'is it'", "spring.datasource.password: [hidden]"),
        ("?X-Goog-Signature=12ab34&a=1", "?X-Goog-Signature=[hidden]&a=1"),
        ("http://me:hunter2@host/x", "http://me:[hidden]@host/x"),
        ("token=abcdef", "token=[hidden]"),
        ("?a=1&token=8kd2&b=2", "?a=1&token=[hidden]&b=2"),
        ("session_token: FwoGZXIvYXdzE", "session_token: [hidden]"),
        ('{"aws_session_token": "FwoG/x="}', '{"aws_session_token": [hidden]}'),
        ("sessionToken=FwoG", "sessionToken=[hidden]"),
        ("Authorization: Bearer abc", "Authorization: Bearer [hidden]"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [hidden]"),
        ("curl -H 'bearer 8f3kd92kd'", "curl -H 'bearer [hidden]'"),
        ("Server=db;User=me;Pwd=hunter2;", "Server=db;User=me;Pwd=[hidden];"),
        ("db_pass=hunter2", "db_pass=[hidden]"),
        ("DB_PASS: 'hunter 2'", "DB_PASS: [hidden]"),
        ("pass=hunter2", "pass=[hidden]"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "[hidden]"),
        ("sk-proj-abcdefghij0123456789", "[hidden]"),
        ("sk-ant-api03-abcdefghij", "[hidden]"),
        ("xoxb-1234567890-abcdef", "[hidden]"),
        ("glpat-abcdefghij0123456789", "[hidden]"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnopq", "[hidden]"),
        ("ghr_abcdefghijklmnopqrstuvwxyz", "[hidden]"),
        ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "[hidden]"),
        ("https://x.blob/c?sv=1&sig=a%2Bb3D&se=2", "https://x.blob/c?sv=1&sig=[hidden]&se=2"),
        ("AccountName=me;AccountKey=Zm9vYmFy==;E=1", "AccountName=me;AccountKey=[hidden];E=1"),
        ("redis://:hunter2@cache:6379/0", "redis://:[hidden]@cache:6379/0"),
        ("https://abcdefghij0123456789@github.com", "https://[hidden]@github.com"),
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
        "pad_token: '[PAD]', token: <unk>, num_tokens=512, max_token=8, token: 7, sync_token=0.5",
        "tokenizer: bert-base-uncased, token_embedding: 64, tokens=abc",
        "signature_name: serving_default, signature: examples, sig=2",
        "compass=north, bypass=lru, forward_pass=12, pass: 3 of 5, pass=true",
        "PWD=/home/me/pipeline, primary_key: id, key: [hotel], monkey=grey",
        "the bearer of this message, risk-assessment-of-2024-flights, task-1234567890123456",
        "optimizer={name: adam}, http://localhost:8501/v1/models/mnist, ssh://git@host/x",
        "shard '/data/train-00001': CRC-32C 1234abcd, the manifest says 00000000",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


# What stands behind a name in our messages.
_SAID = sorted(
    {
        said + "7" * said.endswith(" ")
        for part in ("pipeline", "preprocessing", "serving", "trainer")
        for path in (pathlib.Path(__file__).parents[2] / part).rglob("*.py")
        for said in re.findall(r"!r\}: ([a-z][^\"{]*)", path.read_text())
    }
)


@pytest.mark.parametrize("name", ["/etc/passwd", "secret", "api_token", "token"])
def test_our_own_words_stay(name):
    assert len(_SAID) > 50
    for said in (*_SAID, "must be a mapping of sections such as data: and model:, got 7"):
        assert redact(f"config {name!r}: {said}") == f"config {name!r}: {said}"
    for said in ("must be 1 or more, got 0", "unknown key 'x'", "is 7, not int64", "input should"):
        assert redact(f"data.columns.{name}: {said}") == f"data.columns.{name}: {said}"


def test_content_of_any_depth_is_redacted():
    content = {
        "a": ["password=x", 1, None, {"token": "z"}],
        "b": {"secret": "y", "steps": 3, "token": "<pad>", "url": "redis://:p@h"},
        "password": {"type": "string"},
    }
    assert redact_all(content) == {
        "a": ["password=[hidden]", 1, None, {"token": "[hidden]"}],
        "b": {"secret": "[hidden]", "steps": 3, "token": "<pad>", "url": "redis://:[hidden]@h"},
        "password": {"type": "string"},
    }
    assert list(secrets_in(content)) == ["a.0", "a.3.token", "b.secret", "b.url"]


@pytest.mark.parametrize("path", sorted(config_file.SHIPPED.glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_configs_have_no_secret(path):
    tree = config_file.load(path.stem).model_dump(mode="json")
    assert redact_all(tree) == tree
    assert redact(path.read_text()) == path.read_text()


_WORDS = st.sampled_from(
    [
        "token",
        "pass",
        "sig",
        "signature",
        "train",
        "eval",
        "steps",
        "rate",
        "units",
        "batch",
        "name",
        "column",
        "carrier",
        "vocabulary",
        "features",
        "key",
        "label",
        "bucket",
        "region",
        "class",
        "model",
        "type",
        "default",
        "attention",
        "embedding",
    ]
)
_NAMES = st.lists(_WORDS, min_size=1, max_size=3).map("_".join)
_ORDINARY = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()


@given(st.dictionaries(_NAMES, st.none() | _ORDINARY | st.lists(_ORDINARY, max_size=3)))
def test_numbers_and_flags_of_a_config_stay(content):
    assert redact_all(content) == content
    assert not list(secrets_in(content))


_HARMLESS = _NAMES.filter(lambda name: not name.endswith(("token", "pass")))


@given(st.dictionaries(_HARMLESS, _NAMES))
def test_words_of_a_config_stay(content):
    assert redact_all(content) == content


@given(st.text(alphabet="abcdefgh0123456789", min_size=8, max_size=40), _NAMES)
def test_a_password_is_never_shown(value, prefix):
    for text in (
        f"{prefix}_password={value}",
        f'"{prefix}_secret": "{value}"',
        f"session_token: {value}",
        f"redis://:{value}@host/0",
        f"Authorization: Bearer {value}",
        f"{prefix};AccountKey={value};",
    ):
        assert value not in redact(text)
