"""Certificates and keys for a federation of an hour, made by the package that Flower brings."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from fedcell.deploy.local.federation import HOST


def authority(path: Path, title: str = "fedcell test"):
    """A certificate authority: its key, and its certificate, which is written to a file."""
    key = ec.generate_private_key(ec.SECP384R1())
    others = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment"]
    others += ["key_agreement", "encipher_only", "decipher_only"]
    usage = dict.fromkeys(others, False)
    certificate = (
        _begun(_named(title), _named(title), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    path.write_bytes(certificate.public_bytes(Encoding.PEM))
    return key, certificate


def server_certificate(folder: Path, ca) -> tuple[Path, Path]:
    """The certificate of a server on this machine, and its key."""
    ca_key, ca_certificate = ca
    key = ec.generate_private_key(ec.SECP384R1())
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address(HOST))]
    certificate = (
        _begun(_named("localhost"), ca_certificate.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA384())
    )
    (folder / "server.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.key").write_bytes(private)
    return folder / "server.pem", folder / "server.key"


def node_key(folder: Path, title: str) -> tuple[Path, Path]:
    """The private and the public key of a node, as ssh-keygen writes them."""
    key = ec.generate_private_key(ec.SECP384R1())
    private, public = folder / title, folder / f"{title}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    private.chmod(0o600)
    return private, public


def _named(title: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])


def _begun(subject: x509.Name, issuer: x509.Name, key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
    )
