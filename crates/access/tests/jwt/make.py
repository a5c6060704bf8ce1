"""Makes keys and JWTs with PyJWT, another implementation than the one that Docket uses.

    make.py NOW    NOW: seconds since the epoch; answers with one JSON object on standard output
"""

import base64
import hashlib
import hmac
import json
import sys

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

NOW = int(sys.argv[1])
SECRET = "5f2c0e9ab41d7788c3aa01b9e6f0d2445f2c0e9ab41d7788c3aa01b9e6f0d244"
GOOD = {"sub": "ben", "role": "producer", "tenant": "acme", "exp": NOW + 600, "iss": "https://id.example", "aud": "docket"}


def public_pem(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def without(*claims):
    return {name: value for name, value in GOOD.items() if name not in claims}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def by_hand(header, claims, secret):
    """What PyJWT refuses to make: an HMAC whose secret is a public key, or no signature."""
    text = b64(json.dumps(header).encode()) + "." + b64(json.dumps(claims).encode())
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest() if secret else b""
    return text + "." + b64(signature)


rsa_key, rsa_other, rsa_next = (rsa.generate_private_key(65537, 2048) for _ in range(3))
ec_key = ec.generate_private_key(ec.SECP256R1())
ec_large = ec.generate_private_key(ec.SECP384R1())


def hs(claims, headers=None, secret=SECRET, algorithm="HS256"):
    return jwt.encode(claims, secret, algorithm=algorithm, headers=headers)


def rs(claims, key=rsa_key, kid=None, algorithm="RS256"):
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid} if kid else None)


def jwk(algorithm, key, kid):
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


head, body, signature = hs(GOOD).split(".")
tampered = ".".join([head, b64(json.dumps({**GOOD, "role": "admin"}).encode()), signature])

print(json.dumps({
    "secret": SECRET,
    "rsaPem": public_pem(rsa_key),
    "ecPem": public_pem(ec_key),
    "ecLargePem": public_pem(ec_large),
    "jwks": {"keys": [jwk(RSAAlgorithm, rsa_key, "one"), jwk(ECAlgorithm, ec_key, "two")]},
    "jwksRotated": {"keys": [jwk(RSAAlgorithm, rsa_next, "three")]},
    "jwksOne": {"keys": [jwk(RSAAlgorithm, rsa_key, "one")]},
    "hs": {
        "good": hs(GOOD),
        "audiences": hs({**GOOD, "aud": ["other", "docket"]}),
        "admin": hs({**without("tenant"), "role": "admin", "sub": "ann"}),
        "fraction": hs({**GOOD, "exp": NOW + 600.5}),
        "nbfPassed": hs({**GOOD, "nbf": NOW - 5}),
        "nbfWithinLeeway": hs({**GOOD, "nbf": NOW + 5}),
        "justExpired": hs({**GOOD, "exp": NOW - 5}),
        "short": hs({**GOOD, "exp": NOW + 1}),
    },
    "refused": {
        "expired": [hs({**GOOD, "exp": NOW - 60}), "expired"],
        "no exp": [hs(without("exp")), "no 'exp'"],
        "exp as text": [by_hand({"alg": "HS256", "typ": "JWT"}, {**GOOD, "exp": "2099-01-01"}, SECRET), "no number"],
        "not yet": [hs({**GOOD, "nbf": NOW + 60}), "not valid yet"],
        "wrong secret": [hs(GOOD, secret="x" * 40), "signature"],
        "tampered": [tampered, "signature"],
        "no signature": [head + "." + body + ".", "signature"],
        "alg none": [by_hand({"alg": "none", "typ": "JWT"}, GOOD, None), "algorithm"],
        "alg None": [by_hand({"alg": "None", "typ": "JWT"}, GOOD, None), "algorithm"],
        "alg none, signed": [by_hand({"alg": "none", "typ": "JWT"}, GOOD, SECRET), "algorithm"],
        "no alg": [by_hand({"typ": "JWT"}, GOOD, SECRET), "algorithm"],
        "HS512": [hs(GOOD, algorithm="HS512"), "HS256"],
        "RS256": [rs(GOOD), "HS256"],
        "crit": [hs(GOOD, headers={"crit": ["b64"], "b64": True}), "crit"],
        "wrong issuer": [hs({**GOOD, "iss": "https://evil.example"}), "iss"],
        "no issuer": [hs(without("iss")), "iss"],
        "many issuers": [by_hand({"alg": "HS256"}, {**GOOD, "iss": ["https://id.example"]}, SECRET), "iss"],
        "wrong audience": [hs({**GOOD, "aud": "other"}), "aud"],
        "no audience": [hs(without("aud")), "aud"],
        "no role": [hs(without("role")), "role"],
        "unknown role": [hs({**GOOD, "role": "root"}), "role"],
        "no sub": [hs(without("sub")), "sub"],
        "empty sub": [hs({**GOOD, "sub": ""}), "subject"],
        "producer without tenant": [hs(without("tenant")), "tenant"],
        "worker with tenant": [hs({**GOOD, "role": "worker"}), "leave the tenant out"],
        "two parts": [head + "." + body, "no JWT"],
        "nonsense": ["a.b.c", "no JWT"],
        "huge": [hs({**GOOD, "pad": "x" * 9000}), "longer"],
    },
    "rs": {
        "good": rs(GOOD),
        "one": rs(GOOD, kid="one"),
        "three": rs(GOOD, key=rsa_next, kid="three"),
        "other": rs(GOOD, key=rsa_other),
        "otherAsOne": rs(GOOD, key=rsa_other, kid="one"),
        "unknownKid": rs(GOOD, key=rsa_other, kid="nowhere"),
        "rs512": rs(GOOD, algorithm="RS512"),
        "confused": by_hand({"alg": "HS256", "typ": "JWT"}, GOOD, public_pem(rsa_key)),
        "confusedKid": by_hand({"alg": "HS256", "typ": "JWT", "kid": "one"}, GOOD, public_pem(rsa_key)),
    },
    "es": {"good": rs(GOOD, key=ec_key, algorithm="ES256"), "two": rs(GOOD, key=ec_key, kid="two", algorithm="ES256")},
}))
