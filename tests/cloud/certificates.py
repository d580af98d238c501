"""A throw-away certificate authority, by which clients trust the Cloud Storage of the tests."""

from __future__ import annotations

import datetime
import ipaddress
import pathlib
import ssl
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def make(folder: pathlib.Path, hosts: Sequence[str]) -> tuple[pathlib.Path, ssl.SSLContext]:
    """Returns the authority's certificate as a file, and the TLS side of a server for `hosts`."""
    authority_key, server_key = private_key(), private_key()
    authority = _certificate("authority of the tests", authority_key.public_key())
    authority = authority.add_extension(x509.BasicConstraints(True, None), critical=True)
    authority = authority.sign(authority_key, hashes.SHA256())
    names = [x509.DNSName(host) for host in hosts]
    server = (
        _certificate(hosts[0], server_key.public_key(), issuer=authority.subject)
        .add_extension(
            x509.SubjectAlternativeName(
                [*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    authority_path, server_path = folder / "authority.pem", folder / "server.pem"
    authority_path.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    server_path.write_bytes(
        key_as_pem(server_key) + server.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_path)
    return authority_path, context


def private_key() -> rsa.RSAPrivateKey:
    """Returns a new key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def key_as_pem(key: rsa.RSAPrivateKey) -> bytes:
    """Returns a key as files hold it, and service accounts too."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate(
    name: str, key: rsa.RSAPublicKey, issuer: x509.Name | None = None
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
