"""Keys, tokens and kubeconfig files of a test cluster."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# The order of the curve P-256: a private key is a number from 1 to one below it.
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_P256_IDENTIFIER = bytes.fromhex("06082a8648ce3d030107")


@dataclass(frozen=True)
class User:
    """Someone the API server knows by a bearer token.

    A service account's identity is a user as well: `system:serviceaccount:NAMESPACE:NAME` in the
    groups `system:serviceaccounts` and `system:serviceaccounts:NAMESPACE`.
    """

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def token_file_text(users: Iterable[User]) -> str:
    """The lines for `--token-auth-file`: token, name, uid and quoted groups."""
    lines = (f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"' for user in users)
    return "\n".join(lines) + "\n"


def kubeconfig_text(server: str, authority: Path, user: User) -> str:
    """A kubeconfig for one user, as JSON (which is YAML too)."""
    cluster = {"server": server, "certificate-authority": str(authority)}
    context = {"cluster": "muster-e2e", "user": user.name}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "muster-e2e", "cluster": cluster}],
            "users": [{"name": user.name, "user": {"token": user.token}}],
            "contexts": [{"name": "muster-e2e", "context": context}],
            "current-context": "muster-e2e",
        },
        indent=2,
    )


def service_account_key() -> str:
    """A fresh P-256 private key in PEM (RFC 5915), to sign service account tokens with.

    Written here so that the tests need neither the openssl command nor another package; the
    public half may be left out, readers compute it.
    """
    number = secrets.randbelow(_P256_ORDER - 1) + 1
    version = _der(0x02, b"\x01")
    key = _der(0x04, number.to_bytes(32, "big"))
    curve = _der(0xA0, _P256_IDENTIFIER)
    text = base64.encodebytes(_der(0x30, version + key + curve)).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"


def _der(tag: int, content: bytes) -> bytes:
    """One DER value; the contents here are shorter than 128 bytes."""
    return bytes((tag, len(content))) + content
