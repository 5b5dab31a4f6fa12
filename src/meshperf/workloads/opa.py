"""Open Policy Agent beside the service: decides on each request that the server's proxy asks it about (ext_authz)."""

from typing import Any

from meshperf.meshes.base import Manifest
from meshperf.meshes.credentials import ISSUER, Credentials
from meshperf.testbed.embedded.builds import Program, Progress, build
from meshperf.testbed.embedded.images import Image

VERSION = "0.60.0-envoy"
PROGRAM = Program(
    "opa-envoy-plugin", "opa", "github.com/open-policy-agent/opa-envoy-plugin/cmd/opa-envoy-plugin"
)
CONTAINER = "opa"
#: Of the gRPC service, on the pod's loopback address only.
PORT = 9191
_HEALTH_PORT = 8282
_IMAGES = {"local": f"localhost/opa:{VERSION}", "registry": f"docker.io/openpolicyagent/opa:{VERSION}"}
_CONFIG_MAP, _DIRECTORY, _FILE = "opa-policy", "/policy", "policy.rego"
_PACKAGE = "meshperf.authz"
_POLICY = """\
package meshperf.authz

import future.keywords.if

default allow := false

allow if {
    startswith(input.attributes.request.http.headers.authorization, "Bearer ")
    token := substring(input.attributes.request.http.headers.authorization, 7, -1)
    [valid, _, _] := io.jwt.decode_verify(token, {
        "cert": `%s`, "alg": "RS256", "iss": "%s", "aud": "%s",
    })
    valid
}
"""


def image(progress: Progress) -> Image:
    """Return OPA's image for the embedded cluster."""
    return Image(_IMAGES["local"], {"opa": build(PROGRAM, progress)}, ("/opa",), "1000")


def policy(namespace: str, issued: Credentials) -> Manifest:
    """Return the policy: it allows a request with a valid token of the campaign and no other."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CONFIG_MAP, "namespace": namespace},
        "data": {_FILE: _POLICY % (issued.jwks, ISSUER, issued.audience)},
    }


def add_to(pod: dict[str, Any], image_source: str) -> None:
    """Add OPA to a pod's specification, in place; its policy must be in the pod's namespace."""
    plugin = "plugins.envoy_ext_authz_grpc"
    settings = {
        f"{plugin}.addr": f"127.0.0.1:{PORT}",
        f"{plugin}.path": f"{_PACKAGE.replace('.', '/')}/allow",
        "decision_logs.console": "false",
    }
    pod["containers"].append(
        {
            "name": CONTAINER,
            "image": _IMAGES[image_source],
            "imagePullPolicy": "IfNotPresent",
            "args": [
                "run",
                "--server",
                "--addr=127.0.0.1:8181",
                f"--diagnostic-addr=0.0.0.0:{_HEALTH_PORT}",
                "--disable-telemetry",
                "--log-level=error",
                "--ignore=.*",
                *(f"--set={name}={value}" for name, value in settings.items()),
                f"{_DIRECTORY}/{_FILE}",
            ],
            "readinessProbe": {
                "httpGet": {"path": "/health?plugins", "port": _HEALTH_PORT},
                "periodSeconds": 1,
            },
            "securityContext": {
                "runAsUser": 1000,
                "runAsNonRoot": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
            "volumeMounts": [{"name": _CONFIG_MAP, "mountPath": _DIRECTORY, "readOnly": True}],
        }
    )
    pod["volumes"].append({"name": _CONFIG_MAP, "configMap": {"name": _CONFIG_MAP}})
