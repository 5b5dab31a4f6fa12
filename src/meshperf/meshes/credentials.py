"""Tokens and certificates of one campaign: made when first needed, kept in the cache, never part of the data.

The keys that sign them are thrown away at once. What is kept is readable by its owner only, is of use for one campaign
only (the tokens' audience is its name), ends after `LIFETIME`, and is removed when the campaign is sealed. It stays the
same meanwhile, so that a deployment is recognised when a measurement goes on.
"""

import base64
import datetime
import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from meshperf.paths import cache_dir

#: A campaign of weeks goes on with the same tokens.
LIFETIME = datetime.timedelta(days=60)
#: What would end sooner than this is made anew.
_RENEW_BEFORE = datetime.timedelta(days=2)
ISSUER = "https://meshperf.dev"
SUBJECT = "load-generator"
#: Names in the certificates are ``<prefix><role>``, in the manner of SPIFFE, as meshes name workloads.
IDENTITY_PREFIX = "spiffe://cluster.local/ns/meshperf/sa/"
#: Three base64url parts, the first of which is a JSON object (RFC 7515, section 3.1).
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
REDACTED = "<token>"


@dataclass(frozen=True)
class Credentials:
    """Secrets of one campaign.

    Attributes
    ----------
    audience : str
        Whom the tokens are for: the campaign.
    jwks : str
        The public key that `token` can be checked with, as a JSON Web Key Set (RFC 7517).
    token : str
        A JSON Web Token that is valid until `expires_unix_s` (RS256).
    foreign_token : str
        The same claims, signed with another key.
    certificates : mapping of str to (str, str)
        Role (client, server) -> certificate chain and private key, PEM.
    authority : str
        The certificate that they can be checked with, PEM.
    expires_unix_s : float
        When all of it ends.
    """

    audience: str
    jwks: str
    token: str
    foreign_token: str
    certificates: Mapping[str, tuple[str, str]]
    authority: str
    expires_unix_s: float


def of_campaign(campaign: str) -> Credentials:
    """Return the credentials of a campaign, made now if there are none or they end soon."""
    path = _path(campaign)
    if path.exists():
        content = json.loads(path.read_text())
        pairs = {role: tuple(pair) for role, pair in content.pop("certificates").items()}
        found = Credentials(certificates=pairs, **content)
        if found.expires_unix_s - time.time() > _RENEW_BEFORE.total_seconds():
            return found
    made = _make(campaign)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_text(json.dumps(asdict(made)))
    temporary.rename(path)
    return made


def forget(campaign: str) -> None:
    """Remove the credentials of a campaign that is finished."""
    _path(campaign).unlink(missing_ok=True)


def redact(text: str) -> str:
    """Return a text with every JSON Web Token in it replaced."""
    return _TOKEN.sub(REDACTED, text)


def holds_token(content: bytes) -> bool:
    """Return whether there is a JSON Web Token in a file's content."""
    return _TOKEN.search(content.decode("utf-8", errors="replace")) is not None


def _path(campaign: str) -> Path:
    return cache_dir() / "credentials" / f"{campaign}.json"


def _make(campaign: str) -> Credentials:
    now = datetime.datetime.now(datetime.UTC)
    expires = now + LIFETIME
    signing, foreign = _key(), _key()
    claims = {
        "iss": ISSUER,
        "sub": SUBJECT,
        "aud": campaign,
        "iat": int(now.timestamp()),
        "exp": int(expires.timestamp()),
    }
    numbers = signing.public_key().public_numbers()
    public = {
        "kty": "RSA",
        "use": "sig",
        "alg": "RS256",
        "kid": "meshperf",
        "n": _base64url(_big_endian(numbers.n)),
        "e": _base64url(_big_endian(numbers.e)),
    }
    authority_key = _key()
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "cluster.local")])
    authority = (
        _certificate(name, name, authority_key, now, expires)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    root = authority.public_bytes(serialization.Encoding.PEM).decode()
    certificates = {}
    for role in ("client", "server"):
        key = _key()
        leaf = (
            _certificate(x509.Name([]), name, key, now, expires)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{IDENTITY_PREFIX}{role}")]),
                critical=True,
            )
            .sign(authority_key, hashes.SHA256())
        )
        chain = leaf.public_bytes(serialization.Encoding.PEM).decode() + root
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificates[role] = (chain, private.decode())
    return Credentials(
        audience=campaign,
        jwks=json.dumps({"keys": [public]}),
        token=_signed(claims, signing),
        foreign_token=_signed(claims, foreign),
        certificates=certificates,
        authority=root,
        expires_unix_s=expires.timestamp(),
    )


def _key() -> rsa.RSAPrivateKey:
    # 2048 bits, as Istio's agents make for their workloads.
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPrivateKey,
    now: datetime.datetime,
    expires: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of nodes differ a little.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(expires)
    )


def _signed(claims: Mapping[str, Any], key: rsa.RSAPrivateKey) -> str:
    """Return a JSON Web Token: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3)."""
    header = {"alg": "RS256", "typ": "JWT", "kid": "meshperf"}
    parts = [_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims)]
    message = ".".join(parts)
    signature = key.sign(message.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{message}.{_base64url(signature)}"


def _big_endian(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
