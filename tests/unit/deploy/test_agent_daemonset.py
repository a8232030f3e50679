"""The agent's DaemonSet: it starts the command that there is, with what that reads, and no more."""

from __future__ import annotations

import re

import pytest
import typer
from deploy_objects import DEPLOY, Object, kustomized, option

from scheduler import __version__, cli
from scheduler.agent import Source
from scheduler.agent.checkpoint import FILE
from scheduler.agent.pod_resources import SOCKET
from scheduler.core.devices_annotation import IN_USE_KEY, TOPOLOGY_KEY


def _one(kind: str) -> Object:
    (found,) = [
        item for item in kustomized(DEPLOY / "components" / "agent") if item["kind"] == kind
    ]
    return found


def _pod() -> Object:
    spec: Object = _one("DaemonSet")["spec"]["template"]["spec"]
    return spec


def _container() -> Object:
    (found,) = _pod()["containers"]
    container: Object = found
    return container


def test_the_command_knows_every_argument() -> None:
    command, *arguments = _container()["args"]
    known = typer.main.get_command(cli.build([command])).commands[command].params  # type: ignore[attr-defined]
    names = {name for parameter in known for name in parameter.opts}

    assert {argument.partition("=")[0] for argument in arguments} <= names
    assert _container()["image"] == f"muster-agent:{__version__}"


def test_it_is_told_the_name_of_its_node() -> None:
    named = re.fullmatch(r"\$\((\w+)\)", option(_container(), "node"))
    variables = {item["name"]: item for item in _container()["env"]}

    assert named is not None
    assert variables[named[1]]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_it_sees_the_files_that_it_reads_and_can_write_none() -> None:
    root = option(_container(), "root")
    volumes = {item["name"]: item["hostPath"]["path"] for item in _pod()["volumes"]}
    mounts = {item["mountPath"]: item for item in _container()["volumeMounts"]}

    assert {f"{root}{path}": path for path in volumes.values()} == {
        path: volumes[mount["name"]] for path, mount in mounts.items()
    }
    assert all(mount["readOnly"] for mount in mounts.values())
    assert option(_container(), "in-use-from") == Source.AUTO
    for read in (FILE, SOCKET):
        assert f"/{read}".rpartition("/")[0] in volumes.values()
    assert "/sys" in volumes.values()


def test_it_has_no_privilege_but_to_be_root() -> None:
    spec = _pod()

    assert _container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert "nvidia.com/gpu" not in str(_container()["resources"])


def test_nobody_reaches_an_agent() -> None:
    policy = _one("NetworkPolicy")

    assert policy["metadata"]["namespace"] == _one("DaemonSet")["metadata"]["namespace"]
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []}
    assert "ports" not in _container()


def test_its_role_is_what_its_requests_need() -> None:
    account = {"kind": "ServiceAccount", "name": "muster-agent", "namespace": "muster-agent"}

    # ApiNode reads and annotates one node; tests of the command see these two requests alone.
    (rule,) = _one("ClusterRole")["rules"]
    assert rule == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
    assert _one("ClusterRoleBinding")["subjects"] == [account]
    assert _pod()["serviceAccountName"] == _one("ServiceAccount")["metadata"]["name"]


def test_the_policy_is_about_this_account_and_enforced() -> None:
    policy, binding = (
        _one("ValidatingAdmissionPolicy"),
        _one("ValidatingAdmissionPolicyBinding"),
    )
    account = _one("ServiceAccount")["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"

    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f'request.userInfo.username == "{user}"'
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]


@pytest.mark.parametrize("key", [TOPOLOGY_KEY, IN_USE_KEY])
def test_the_policy_lets_its_annotations_through(key: str) -> None:
    (prefix,) = {
        *re.findall(r'key\.startsWith\("([^"]+)"\)', str(_one("ValidatingAdmissionPolicy")["spec"]))
    }

    assert key.startswith(prefix)
