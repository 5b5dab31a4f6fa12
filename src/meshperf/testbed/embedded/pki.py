"""Certificates of the embedded cluster: a new authority and its keys at every start, kept nowhere else."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)


class Authority:
    """A certificate authority that issues key pairs into one directory.

    Parameters
    ----------
    directory : Path
        Where ``ca.crt``, ``ca.key`` and the issued pairs are written; keys are readable by the owner only.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("meshperf-embedded", "meshperf")
        certificate = (
            certificate_builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(ca_usage(), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        write_private(directory / "ca.key", private_pem(self._key))
        (directory / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, common_name: str, organization: str, hosts: tuple[str, ...] = ()) -> None:
        """Write ``<name>.crt`` and ``<name>.key`` for a client, and for a server if `hosts` are given.

        Parameters
        ----------
        name : str
            Stem of the two files.
        common_name, organization : str
            User and group as Kubernetes reads them.
        hosts : tuple of str
            DNS names and IP addresses of a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = certificate_builder(
            _name(common_name, organization), self._name, key.public_key()
        ).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
            critical=False,
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(h) for h in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        write_private(self.directory / f"{name}.key", private_pem(key))
        (self.directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_signing_key(directory: Path) -> None:
    """Write ``sa.key`` and ``sa.pub``, with which service account tokens are signed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    write_private(directory / "sa.key", private_pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (directory / "sa.pub").write_bytes(public)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)


def certificate_builder(subject: x509.Name, issuer: x509.Name, public_key) -> x509.CertificateBuilder:
    """Return a certificate that is valid from now on, still to be extended and signed."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str, organization: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def ca_usage() -> x509.KeyUsage:
    """Return what the key of an authority is used for."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def private_pem(key) -> bytes:
    """Return a private key as PEM, in PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
