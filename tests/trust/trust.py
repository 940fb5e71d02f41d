"""Signatures against third-party tools: their signatures are trusted here, signatures made here are accepted by them, and
every change in between is rejected on both sides.

The test shares no code with the crate: it hashes, encodes and signs by itself, by OpenSSL's command, by Python's
`cryptography`, and by the program of `model_signing`, which signs folders of files.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from model_signing import signing, verifying
from sigstore_models.bundle import v1 as bundles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import Folder  # noqa: E402

CLI = str(Path(os.environ["TRUST_CLI"]).resolve())
MODEL_SIGNING = [sys.executable, "-m", "model_signing"]
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
IN_TOTO = "application/vnd.in-toto+json"
SIGN = "https://sigstore.dev/cosign/sign/v1"
SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"
MANIFEST = b'{"schemaVersion":2}'
DIGEST = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()
OTHER = "sha256:" + hashlib.sha256(b"another").hexdigest()


def run(*words, stdin=None):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, input=stdin, timeout=30)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(Folder("muster-trust"))
        self.key, self.pub = self.folder / "key.pem", self.folder / "pub.pem"
        self.ours("generate", self.key, self.pub)

    def ours(self, *words, stdin=None):
        """Our program, which must succeed."""
        ran = run(CLI, *words, stdin=stdin)
        self.assertEqual(ran.returncode, 0, ran.stderr + ran.stdout)
        return ran.stdout

    def verdict(self, *words, stdin=None):
        """Returns the verdict's word and the complete verdict; the exit code must agree with it."""
        ran = run(CLI, *words, stdin=stdin)
        self.assertIn(ran.returncode, (0, 1), ran.stderr)
        found = json.loads(ran.stdout.splitlines()[0])
        self.assertEqual(ran.returncode == 0, found["verdict"] == "trusted")
        return found.get("reason", {}).get("word", found["verdict"]), found

    def another_pair(self):
        key, pub = self.folder / "other-key.pem", self.folder / "other-pub.pem"
        self.ours("generate", key, pub)
        return key, pub

    def private(self):
        return serialization.load_pem_private_key(self.key.read_bytes(), None)

    def written(self, key):
        """A key of `cryptography` instead of the generated one."""
        self.key.write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        self.pub.write_bytes(key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))


class Simple(Case):
    def cosign(self, signatures, payload):
        """A manifest as cosign leaves it under `sha256-….sig`."""
        layers = [{"mediaType": SIMPLE, "digest": "sha256:" + hashlib.sha256(payload).hexdigest(), "size": len(payload),
                   "annotations": {"dev.cosignproject.cosign/signature": base64.b64encode(signature).decode()}}
                  for signature in signatures]
        (self.folder / "payload").write_bytes(payload)
        (self.folder / "manifest.json").write_text(json.dumps({"schemaVersion": 2, "layers": layers}))

    @staticmethod
    def payload(digest=DIGEST, kind="cosign container image signature"):
        return json.dumps({"critical": {"identity": {"docker-reference": "site/app"},
                                        "image": {"docker-manifest-digest": digest}, "type": kind},
                           "optional": {"creator": "a stranger", "timestamp": 1}}).encode()

    def test_what_others_sign_is_trusted_whatever_their_key(self):
        payload = self.payload()
        sha256, sha384 = ec.ECDSA(hashes.SHA256()), ec.ECDSA(hashes.SHA384())
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
        rsa_key = rsa.generate_private_key(65537, 2048)
        for name, key, options in [
            ("ecdsa-p256", ec.generate_private_key(ec.SECP256R1()), (sha256,)),
            ("ecdsa-p384", ec.generate_private_key(ec.SECP384R1()), (sha384,)),
            ("ecdsa-p384", ec.generate_private_key(ec.SECP384R1()), (sha256,)),
            ("ed25519", ed25519.Ed25519PrivateKey.generate(), ()),
            ("rsa", rsa_key, (padding.PKCS1v15(), hashes.SHA256())),
            ("rsa", rsa_key, (pss, hashes.SHA256())),
        ]:
            with self.subTest(name):
                self.written(key)
                self.assertTrue(self.ours("fingerprint", self.pub).startswith(name + " SHA256:"))
                self.cosign([b"junk", key.sign(payload, *options)], payload)
                self.assertEqual(self.verdict("verify-simple", DIGEST, self.folder, self.pub)[0], "trusted")
                self.assertEqual(self.verdict("verify-simple", OTHER, self.folder, self.pub)[0], "wrong_digest")
                self.assertEqual(self.verdict("verify-simple", DIGEST, self.folder, f"-{self.pub}")[0], "revoked_key")
                _, stranger = self.another_pair()
                self.assertEqual(self.verdict("verify-simple", DIGEST, self.folder, stranger)[0], "other_key")

    def test_what_is_signed_here_others_accept(self):
        self.ours("sign-simple", self.key, DIGEST, "site/app", self.folder)
        payload, signature = (self.folder / "payload").read_bytes(), (self.folder / "signature").read_bytes()
        self.private().public_key().verify(signature, payload, ec.ECDSA(hashes.SHA256()))
        openssl = ["openssl", "dgst", "-sha256", "-verify", self.pub, "-signature", self.folder / "signature"]
        self.assertEqual(run(*openssl, self.folder / "payload").returncode, 0)
        manifest = json.loads((self.folder / "manifest.json").read_bytes())
        [layer] = manifest["layers"]
        self.assertEqual(layer["digest"], "sha256:" + hashlib.sha256(payload).hexdigest())
        self.assertEqual(base64.b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"]), signature)
        config = (self.folder / "config.json").read_bytes()
        self.assertEqual(manifest["config"]["digest"], "sha256:" + hashlib.sha256(config).hexdigest())
        self.assertEqual(json.loads(payload)["critical"]["image"]["docker-manifest-digest"], DIGEST)
        self.assertEqual(self.verdict("verify-simple", DIGEST, self.folder, self.pub)[0], "trusted")
        (self.folder / "payload").write_bytes(payload.replace(b"site", b"SITE"))
        self.assertNotEqual(run(*openssl, self.folder / "payload").returncode, 0)
        self.assertEqual(self.verdict("verify-simple", DIGEST, self.folder, self.pub)[0], "malformed")

    def test_a_signed_document_of_another_kind_is_refused(self):
        payload = self.payload(kind="something else")
        self.cosign([self.private().sign(payload, ec.ECDSA(hashes.SHA256()))], payload)
        self.assertEqual(self.verdict("verify-simple", DIGEST, self.folder, self.pub)[0], "malformed")


def envelope(key, statement):
    """A bundle by the specifications of DSSE and Sigstore, written down a second time."""
    payload = json.dumps(statement, indent=1).encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(IN_TOTO), IN_TOTO.encode(), len(payload), payload)
    signature = key.sign(signed, ec.ECDSA(hashes.SHA256()))
    der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    hint = base64.b64encode(hashlib.sha256(der).digest()).decode()
    return {"mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": [{"logIndex": "17"}],
                                     "timestampVerificationData": {"rfc3161Timestamps": []}},
            "dsseEnvelope": {"payload": base64.b64encode(payload).decode(), "payloadType": IN_TOTO,
                             "signatures": [{"sig": base64.b64encode(signature).decode()}]}}


def statement(digest=DIGEST, kind=SIGN):
    return {"_type": "https://in-toto.io/Statement/v1", "predicateType": kind, "predicate": {},
            "subject": [{"name": "app", "annotations": {}, "digest": {"sha256": digest.removeprefix("sha256:")}}]}


class Bundles(Case):
    def decided(self, bundle, *keys):
        path = self.folder / "bundle.json"
        path.write_text(json.dumps(bundle))
        return self.verdict("verify-bundle", DIGEST, path, *(keys or [self.pub]))[0]

    def test_what_others_sign_is_trusted(self):
        key = self.private()
        self.assertEqual(self.decided(envelope(key, statement())), "trusted")
        self.assertEqual(self.decided(envelope(key, statement(digest=OTHER))), "wrong_digest")
        self.assertEqual(self.decided(envelope(key, statement(kind="https://slsa.dev/provenance/v1"))), "unsigned")
        self.assertEqual(self.decided(envelope(ec.generate_private_key(ec.SECP256R1()), statement())), "other_key")
        changed = envelope(key, statement(digest=OTHER))
        changed["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement()).encode()).decode()
        self.assertEqual(self.decided(changed), "bad_signature")
        changed["dsseEnvelope"] = None
        self.assertEqual(self.decided(changed), "malformed")

    def test_a_signature_over_the_manifest_itself_is_trusted(self):
        signed = {"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": "x"}}, "messageSignature": {
            "messageDigest": {"algorithm": "SHA2_256",
                              "digest": base64.b64encode(hashlib.sha256(MANIFEST).digest()).decode()},
            "signature": base64.b64encode(self.private().sign(MANIFEST, ec.ECDSA(hashes.SHA256()))).decode()}}
        self.assertEqual(self.decided(signed), "trusted")
        other = hashlib.sha256(b"another").digest()
        signed["messageSignature"]["messageDigest"]["digest"] = base64.b64encode(other).decode()
        self.assertEqual(self.decided(signed), "other_key")

    def test_what_is_signed_here_others_accept(self):
        self.ours("sign-bundle", self.key, DIGEST, len(MANIFEST), self.folder)
        text = (self.folder / "bundle.json").read_text()
        bundle = json.loads(text)
        # By Sigstore's own model of a bundle, as strict as it is.
        model = bundles.Bundle.from_dict(bundle | {"verificationMaterial": bundle["verificationMaterial"] | {"tlogEntries": []}})
        payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
        signed = b"DSSEv1 %d %s %d %s" % (len(IN_TOTO), IN_TOTO.encode(), len(payload), payload)
        [signature] = model.dsse_envelope.signatures
        self.private().public_key().verify(signature.sig, signed, ec.ECDSA(hashes.SHA256()))
        self.assertEqual(json.loads(payload)["subject"], [{"digest": {"sha256": DIGEST.removeprefix("sha256:")}}])
        self.assertEqual(json.loads(payload)["predicateType"], SIGN)
        manifest = json.loads((self.folder / "manifest.json").read_bytes())
        self.assertEqual(manifest["subject"]["digest"], DIGEST)
        self.assertEqual(manifest["layers"][0]["digest"], "sha256:" + hashlib.sha256(text.encode()).hexdigest())
        self.assertEqual(self.decided(bundle), "trusted")


class Files(Case):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        # Names with a different order as paths and as texts, one beyond ASCII, an empty file and two equal ones.
        for name in ["config.json", "a/b", "a.txt", "a-b/c", "weights/ü 1.bin", "weights/2.bin"]:
            path = self.model / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"" if name == "a.txt" else b"same" if "weights" in name else name.encode())
        self.bundle = self.folder / "model.sig"

    def listed(self):
        """The folder as `sha256sum` lists it, which is the layers of an artifact."""
        files = sorted(path for path in self.model.rglob("*") if path.is_file())
        return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(self.model)}\n" for path in files)

    def decided(self, *keys):
        return self.verdict("verify-files", self.bundle, *(keys or [self.pub]), stdin=self.listed())

    def theirs_accepts(self, pub=None):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                config = verifying.Config().use_elliptic_key_verifier(public_key=pub or self.pub)
                config.verify(self.model, self.bundle)
        except Exception:  # it raises whatever its libraries do
            return False
        return True

    def theirs_signs(self):
        signing.Config().use_elliptic_key_signer(private_key=self.key).sign(self.model, self.bundle)

    def sabotage(self):
        """Each change that must be detected, and its undo."""
        weights, moved = self.model / "weights/2.bin", self.model / "weights/3.bin"
        before = weights.read_bytes()
        yield "file_changed", lambda: weights.write_bytes(before + b"!"), lambda: weights.write_bytes(before)
        yield "file_renamed", lambda: weights.rename(moved), lambda: moved.rename(weights)
        yield "file_missing", weights.unlink, lambda: weights.write_bytes(before)
        yield "file_extra", lambda: moved.write_bytes(b"extra"), moved.unlink

    def refuse_every_sabotage(self):
        for what, spoil, mend in self.sabotage():
            with self.subTest(what):
                spoil()
                word, found = self.decided()
                self.assertEqual((word, found["reason"]["difference"]["what"]), ("wrong_digest", what))
                self.assertFalse(self.theirs_accepts())
                mend()
                self.assertEqual(self.decided()[0], "trusted")
                self.assertTrue(self.theirs_accepts())

    def test_what_model_signing_signs_is_trusted(self):
        self.theirs_signs()
        self.assertEqual(self.decided()[0], "trusted")
        self.assertEqual(self.decided(f"-{self.pub}")[0], "revoked_key")
        _, stranger = self.another_pair()
        self.assertEqual(self.decided(stranger)[0], "other_key")
        self.refuse_every_sabotage()

    def test_what_is_signed_here_model_signing_accepts(self):
        self.ours("sign-files", self.key, "model", self.bundle, stdin=self.listed())
        self.assertTrue(self.theirs_accepts())
        self.refuse_every_sabotage()
        _, stranger = self.another_pair()
        self.assertFalse(self.theirs_accepts(stranger))

    def test_both_sides_sign_the_same_statement(self):
        def payload():
            return json.loads(base64.b64decode(json.loads(self.bundle.read_text())["dsseEnvelope"]["payload"]))
        self.theirs_signs()
        theirs = payload()
        self.ours("sign-files", self.key, "model", self.bundle, stdin=self.listed())
        ours = payload()
        theirs["predicate"]["serialization"].pop("ignore_paths", None)
        self.assertEqual(ours, theirs)

    def test_its_program_agrees_with_its_library(self):
        signed = run(*MODEL_SIGNING, "sign", "key", "--private_key", self.key, "--signature", self.bundle, self.model)
        self.assertEqual(signed.returncode, 0, signed.stderr)
        self.assertEqual(self.decided()[0], "trusted")
        self.ours("sign-files", self.key, "model", self.bundle, stdin=self.listed())
        verify = [*MODEL_SIGNING, "verify", "key", "--public_key", self.pub, "--signature", self.bundle, self.model]
        self.assertEqual(run(*verify).returncode, 0)
        (self.model / "config.json").write_text("changed")
        self.assertNotEqual(run(*verify).returncode, 0)

    def test_a_key_on_p384_serves_both(self):
        self.written(ec.generate_private_key(ec.SECP384R1()))
        self.theirs_signs()
        self.assertEqual(self.decided()[0], "trusted")
        self.ours("sign-files", self.key, "model", self.bundle, stdin=self.listed())
        self.assertTrue(self.theirs_accepts())

    def test_shards_and_other_hashes_are_refused_with_a_sentence(self):
        from model_signing import hashing
        for config, says in [
            (hashing.Config().use_shard_serialization(), "without shards"),
            (hashing.Config().use_file_serialization(hashing_algorithm="blake2"), "sign with sha256"),
        ]:
            signer = signing.Config().use_elliptic_key_signer(private_key=self.key).set_hashing_config(config)
            signer.sign(self.model, self.bundle)
            word, found = self.decided()
            self.assertEqual(word, "malformed")
            self.assertIn(says, found["reason"]["why"])


if __name__ == "__main__":
    if not shutil.which("openssl"):
        sys.exit("openssl is missing: `make setup` installs it.")
    unittest.main()
