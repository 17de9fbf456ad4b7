"""How a request is signed for AWS.
https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""

import hashlib
import hmac
import urllib.parse

REGION = "us-west-2"


def signature(method, url, body, access_key, secret, now, service="ec2", token=None,
              region=REGION):
    """The headers of a request signed for EC2, or for another service. `token`: a session's."""
    parts = urllib.parse.urlsplit(url)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8",
               "host": parts.netloc, "x-amz-date": stamp,
               **({"x-amz-security-token": token} if token else {})}
    signed = ";".join(sorted(headers))
    canonical = "\n".join([method, parts.path or "/", parts.query,
                           *(f"{name}:{headers[name]}" for name in sorted(headers)), "", signed,
                           hashlib.sha256(body).hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (*scope.split("/")[:3], "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    proof = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, "
                                f"SignedHeaders={signed}, Signature={proof}")
    return headers
