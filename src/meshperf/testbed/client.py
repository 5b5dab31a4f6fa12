"""A thin layer over the Kubernetes Python client: apply, delete, wait, run a command, read what a node counts.

Every call has a deadline, and acts on the one context it was made for.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config
from kubernetes import dynamic
from kubernetes.stream import ws_client
from websocket import WebSocketException

from meshperf.errors import MeshperfError

FIELD_MANAGER = "meshperf"
#: On everything that we make, so that we remove nothing else.
OWNED = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
#: A healthy API server answers in milliseconds; one that does not answer in this time is gone.
REQUEST_TIMEOUT_S = 10.0
#: Between two looks at a condition.
POLL_S = 0.1

Manifest = Mapping[str, Any]

_CONNECTION_ERRORS = (urllib3.exceptions.HTTPError, OSError)


class InfrastructureError(MeshperfError):
    """The cluster did not do its part (it was unreachable, or did not get ready): the attempt can be repeated."""


class Cluster:
    """One Kubernetes cluster.

    Parameters
    ----------
    kubeconfig : Path, optional
        File to read; the client's own default if None.
    context : str, optional
        Context in it; its current one if None.

    Raises
    ------
    MeshperfError
        If the file or the context does not exist.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        try:
            self._api = kubernetes_config.new_client_from_config(
                str(kubeconfig) if kubeconfig else None, context, persist_config=False
            )
        except kubernetes_config.ConfigException as error:
            where = kubeconfig or "the default kubeconfig"
            raise MeshperfError(
                f"context {context!r} cannot be used from {where} ({error}): "
                "`kubectl config get-contexts` lists what exists"
            ) from error
        # A lost connection is a fact to record, not one to hide by trying again.
        self._api.rest_client.pool_manager.connection_pool_kw["retries"] = False
        self._resources: dynamic.DynamicClient | None = None

    def version(self) -> str:
        """Return the version of the API server, e.g. ``v1.34.4``."""
        return json.loads(self.get_raw("/version"))["gitVersion"]

    def is_ready(self) -> bool:
        """Return whether the API server says that it is ready."""
        try:
            return self.get_raw("/readyz") == b"ok"
        except InfrastructureError:
            return False

    def get_raw(self, path: str, timeout_s: float = REQUEST_TIMEOUT_S) -> bytes:
        """Return the body of a GET below the API server.

        Raises
        ------
        InfrastructureError
            If there is no answer, or one that is not a success.
        """
        with _as_infrastructure(f"GET {path}"):
            response = self._api.rest_client.pool_manager.request(
                "GET",
                self._api.configuration.host + path,
                headers=self._headers(),
                timeout=timeout_s,
                retries=False,
            )
            if response.status >= 400:
                raise InfrastructureError(
                    f"GET {path} gave {response.status}: {response.data[:200].decode(errors='replace')}"
                )
            return response.data

    def apply(self, manifests: Iterable[Manifest], timeout_s: float = 60) -> None:
        """Apply manifests on the server side, as the owner of every field they set.

        Custom resources whose definition is not served yet or whose storage is being made, and objects whose webhook is
        not up yet, are tried again until the deadline.
        """
        deadline = time.monotonic() + timeout_s
        for manifest in manifests:
            while True:
                try:
                    self._apply(manifest)
                    break
                except (
                    dynamic.exceptions.ResourceNotFoundError,
                    dynamic.exceptions.NotFoundError,
                    dynamic.exceptions.InternalServerError,
                    dynamic.exceptions.TooManyRequestsError,
                ) as error:
                    if time.monotonic() > deadline:
                        raise InfrastructureError(
                            f"{_describe(manifest)} was not accepted in {timeout_s:.0f} s: {_reason(error)}"
                        ) from error
                    time.sleep(POLL_S)
                except dynamic.exceptions.DynamicApiError as error:
                    raise MeshperfError(f"{_describe(manifest)} was refused: {_reason(error)}") from error

    def delete(self, manifests: Iterable[Manifest], grace_s: int | None = None) -> None:
        """Delete objects; those that do not exist are passed over."""
        for manifest in manifests:
            try:
                resource = self._resource(manifest)
            except dynamic.exceptions.ResourceNotFoundError:
                continue
            metadata = manifest["metadata"]
            body = {"propagationPolicy": "Background"}
            if grace_s is not None:
                body["gracePeriodSeconds"] = grace_s
            with (
                _as_infrastructure(f"deleting {_describe(manifest)}"),
                contextlib.suppress(dynamic.exceptions.NotFoundError),
            ):
                resource.delete(name=metadata["name"], namespace=metadata.get("namespace"), body=body)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict | None:
        """Return an object, or None if it does not exist."""
        try:
            with _as_infrastructure(f"reading {kind} {name}"):
                resource = self.resource(api_version, kind)
                return _patiently(lambda: resource.get(name=name, namespace=namespace)).to_dict()
        except (dynamic.exceptions.NotFoundError, dynamic.exceptions.ResourceNotFoundError):
            return None

    def list_objects(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
    ) -> list[dict]:
        """Return the objects of a kind, in one namespace or in all, that carry all labels of `selector`."""
        labels = ",".join(f"{key}={value}" for key, value in (selector or {}).items())
        try:
            with _as_infrastructure(f"listing {kind}"):
                resource = self.resource(api_version, kind)
                found = _patiently(lambda: resource.get(namespace=namespace, label_selector=labels or None))
        except dynamic.exceptions.ResourceNotFoundError:
            return []
        return [{"apiVersion": api_version, "kind": kind, **item.to_dict()} for item in found.items]

    def resource(self, api_version: str, kind: str) -> dynamic.Resource:
        """Return the client of one kind of object."""
        if self._resources is None:
            with _as_infrastructure("reading what the API server serves"):
                self._resources = dynamic.DynamicClient(self._api)
        return self._resources.resources.get(api_version=api_version, kind=kind)

    def execute(
        self, namespace: str, pod: str, container: str, command: list[str], timeout_s: float
    ) -> tuple[bytes, bytes]:
        """Run a command in a container and return its standard output and error, byte for byte.

        Raises
        ------
        InfrastructureError
            If the connection broke, or the command did not end in time.
        MeshperfError
            If the command failed: the message has the end of what it printed.
        """
        what = f"`{command[0]}` in {namespace}/{pod}"
        wanted = {"container": container, "stdout": "true", "stderr": "true", "command": command}
        with _as_infrastructure(what):
            # What `stream.stream(CoreV1Api().connect_get_namespaced_pod_exec, ...)` does after the better part of a
            # second, which the import of every model of the API takes.
            socket = ws_client.websocket_call(
                self._api.configuration,
                "GET",
                f"{self._api.configuration.host}/api/v1/namespaces/{namespace}/pods/{pod}/exec",
                query_params=list(wanted.items()),
                headers=self._headers(),
                binary=True,
                capture_all=False,
                _preload_content=False,
            )
            output, errors = [], []
            deadline = time.monotonic() + timeout_s
            try:
                while socket.is_open():
                    socket.update(timeout=1)
                    output.append(socket.read_stdout(timeout=0))
                    errors.append(socket.read_stderr(timeout=0))
                    if time.monotonic() > deadline:
                        raise InfrastructureError(f"{what} did not end in {timeout_s:.0f} s")
                output.append(socket.read_stdout(timeout=0))
                errors.append(socket.read_stderr(timeout=0))
                status = socket.read_channel(ws_client.ERROR_CHANNEL)
            finally:
                socket.close()
        if not status:
            raise InfrastructureError(f"the connection to {what} broke before the command ended")
        result = json.loads(status)
        if result.get("status") != "Success":
            tail = b"".join(errors)[-500:].decode(errors="replace").strip()
            raise MeshperfError(f"{what} failed: {result.get('message', '')} {tail}")
        return b"".join(output), b"".join(errors)

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float) -> Any:
        """Return the first true value of `condition`.

        Raises
        ------
        InfrastructureError
            If it has none before the deadline; `what` names it in the message.
        """
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise InfrastructureError(f"{what} did not happen in {timeout_s:.0f} s")
            time.sleep(POLL_S)
        return value

    def wait_for_rollout(self, kind: str, namespace: str, name: str, timeout_s: float) -> None:
        """Wait until all pods of a Deployment, DaemonSet or StatefulSet are ready.

        Raises
        ------
        InfrastructureError
            If they are not in time: it says what the pods wait for.
        """
        try:
            self.wait(
                f"{kind} {namespace}/{name} ready",
                lambda: is_rolled_out(self.get("apps/v1", kind, name, namespace)),
                timeout_s,
            )
        except InfrastructureError as error:
            if not self.is_ready():
                raise
            raise InfrastructureError(f"{error}: {self._pod_troubles(namespace)}") from error

    def _pod_troubles(self, namespace: str) -> str:
        troubles = []
        for pod in self.list_objects("v1", "Pod", namespace):
            status = pod.get("status", {})
            statuses = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
            states = [(entry["name"], entry.get("state", {}).get("waiting")) for entry in statuses]
            waiting = [f"{name} {why.get('reason')}: {why.get('message', '')}" for name, why in states if why]
            if waiting or status.get("phase") != "Running":
                troubles.append(f"{pod['metadata']['name']} is {status.get('phase')} ({'; '.join(waiting)})")
        return "; ".join(troubles) or "no pod was made"

    def _apply(self, manifest: Manifest) -> None:
        resource = self._resource(manifest)
        metadata = manifest["metadata"]
        with _as_infrastructure(f"applying {_describe(manifest)}"):
            resource.server_side_apply(
                body=dict(manifest),
                name=metadata["name"],
                namespace=metadata.get("namespace"),
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
            )

    def _resource(self, manifest: Manifest) -> dynamic.Resource:
        return self.resource(manifest["apiVersion"], manifest["kind"])

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        self._api.update_params_for_auth(headers, [], ["BearerToken"], "", "GET", None)
        return headers


def _patiently(ask: Callable[[], Any]) -> Any:
    """Return an answer of the API server, which puts off who asks for a kind that it has only just begun to serve."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            return ask()
        except dynamic.exceptions.TooManyRequestsError as error:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"the API server put off a question for {REQUEST_TIMEOUT_S:.0f} s: {_reason(error)}"
                ) from error
            time.sleep(POLL_S)


def is_rolled_out(found: Manifest | None) -> bool:
    """Return whether a Deployment, DaemonSet or StatefulSet, as the API server describes it, has all pods ready."""
    status = (found or {}).get("status") or {}
    if not found or status.get("observedGeneration", 0) < found["metadata"]["generation"]:
        return False
    if found["kind"] == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        return 0 < wanted <= ready
    return status.get("readyReplicas", 0) >= found["spec"].get("replicas", 1)


def _describe(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest['kind']} {where}{metadata['name']}"


def _reason(error: Exception) -> str:
    summary = getattr(error, "summary", None)
    return (summary() if callable(summary) else str(error)).strip().replace("\n", " ")[:400]


@contextlib.contextmanager
def _as_infrastructure(what: str):
    """Turn a lost connection into an `InfrastructureError`; answers of the API server pass through."""
    try:
        yield
    except _CONNECTION_ERRORS as error:
        raise InfrastructureError(
            f"{what}: the API server did not answer ({type(error).__name__})"
        ) from error
    except kubernetes_client.ApiException as error:
        if isinstance(error, dynamic.exceptions.DynamicApiError):
            raise
        if error.status in (0, None) or error.status >= 500:
            raise InfrastructureError(f"{what}: {_reason(error)}") from error
        raise
    except WebSocketException as error:
        raise InfrastructureError(f"{what}: the connection broke ({type(error).__name__})") from error
