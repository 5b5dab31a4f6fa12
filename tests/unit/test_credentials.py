"""Tokens and certificates of a campaign, checked with OpenSSL: another implementation than the one that made them."""

import base64
import json
import stat
import subprocess
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from meshperf.meshes import credentials


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path))
    return tmp_path


def _decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _verifies(token, jwks, directory):
    """Return whether OpenSSL finds a token's signature made with the key set's only key."""
    (key,) = json.loads(jwks)["keys"]
    numbers = rsa.RSAPublicNumbers(
        int.from_bytes(_decoded(key["e"]), "big"), int.from_bytes(_decoded(key["n"]), "big")
    )
    pem = numbers.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    message, _, signature = token.rpartition(".")
    for name, content in {"key": pem, "message": message.encode(), "signature": _decoded(signature)}.items():
        (directory / name).write_bytes(content)
    command = ["openssl", "dgst", "-sha256", "-verify", "key", "-signature", "signature", "message"]
    return subprocess.run(command, cwd=directory, capture_output=True).returncode == 0


def test_a_token_is_signed_with_the_published_key_and_the_foreign_one_is_not(cache):
    made = credentials.of_campaign("a-campaign")
    assert _verifies(made.token, made.jwks, cache)
    assert not _verifies(made.foreign_token, made.jwks, cache)
    header, claims, _ = (part for part in made.token.split("."))
    assert json.loads(_decoded(header)) == {"alg": "RS256", "typ": "JWT", "kid": "meshperf"}
    claims = json.loads(_decoded(claims))
    assert (claims["aud"], claims["iss"]) == ("a-campaign", "https://meshperf.dev")
    assert claims["iat"] <= time.time() < claims["exp"] == pytest.approx(time.time() + 60 * 86400, abs=60)


def test_the_certificates_are_of_one_authority_and_name_the_two_roles(cache):
    made = credentials.of_campaign("a-campaign")
    (cache / "ca").write_text(made.authority)
    for role in ("client", "server"):
        chain, key = made.certificates[role]
        (cache / "leaf").write_text(chain)
        (cache / "key").write_text(key)

        def openssl(*arguments):
            return subprocess.run(["openssl", *arguments], cwd=cache, capture_output=True, text=True)

        assert openssl("verify", "-CAfile", "ca", "leaf").returncode == 0
        shown = openssl("x509", "-in", "leaf", "-noout", "-ext", "subjectAltName").stdout
        assert f"URI:spiffe://cluster.local/ns/meshperf/sa/{role}" in shown
        public = openssl("pkey", "-in", "key", "-pubout").stdout
        assert public and public == openssl("x509", "-in", "leaf", "-noout", "-pubkey").stdout


def test_they_stay_the_same_while_the_campaign_lasts_and_only_their_owner_reads_them(cache):
    first = credentials.of_campaign("a-campaign")
    assert credentials.of_campaign("a-campaign") == first
    assert credentials.of_campaign("another").token != first.token
    path = cache / "credentials" / "a-campaign.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    credentials.forget("a-campaign")
    assert not path.exists()
    assert credentials.of_campaign("a-campaign") != first
    credentials.forget("never-made")


def test_what_ends_soon_is_made_anew(cache):
    first = credentials.of_campaign("a-campaign")
    path = cache / "credentials" / "a-campaign.json"
    content = json.loads(path.read_text())
    for remaining_days, same in ((2.1, True), (1.9, False)):
        path.write_text(json.dumps({**content, "expires_unix_s": time.time() + remaining_days * 86400}))
        assert (credentials.of_campaign("a-campaign").token == first.token) is same


def test_a_token_is_found_and_replaced_wherever_it_stands(cache):
    token = credentials.of_campaign("a-campaign").token
    text = f"fortio load -H Authorization: Bearer {token} -c 4 'failed with {token}'"
    assert credentials.holds_token(text.encode())
    redacted = credentials.redact(text)
    assert redacted == "fortio load -H Authorization: Bearer <token> -c 4 'failed with <token>'"
    assert not credentials.holds_token(redacted.encode())
