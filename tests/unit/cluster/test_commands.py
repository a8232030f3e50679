"""The command line: ``muster serve`` as a process, and the configuration that it needs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from cluster.fake_apiserver import NODES, FakeApi, node, pod, until
from cluster.serving import PATIENCE_S, Serving, muster
from scheduler import __version__, cli
from scheduler.commands.kube_config import render
from scheduler.errors import SettingsError
from scheduler.settings import ACCELERATORS


def ended(*arguments: str) -> tuple[int, str]:
    """Exit status and standard error of a command that ends by itself."""
    process = muster(*arguments)
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, err


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> str:
    return str(api.kubeconfig(tmp_path))


@pytest.fixture
def serving(kubeconfig: str) -> Iterator[Serving]:
    serving = Serving("--kubeconfig", kubeconfig, "--log-format", "json")
    yield serving
    serving.close()


class TestServe:
    def test_from_start_to_sigterm(self, api: FakeApi, serving: Serving) -> None:
        api.put(NODES, node("n1"))
        with httpx.Client(base_url=serving.url(), timeout=PATIENCE_S) as client:
            asked = {"Pod": pod("p"), "NodeNames": ["n1"]}
            assert client.post("/filter", json=asked).json()["NodeNames"] == ["n1"]
            until(lambda: client.get("/readyz").status_code == 200)
        assert serving.stop() == 0
        last = json.loads(serving.said[-1])
        assert (last["level"], last["message"]) == ("info", "stopped")

    def test_sigint_ends_it_too(self, serving: Serving) -> None:
        serving.url()
        assert serving.stop(signal.SIGINT) == 0

    def test_a_port_in_use(self, kubeconfig: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            status, err = ended("serve", "--kubeconfig", kubeconfig, "--port", port)
        assert status == 2
        assert f"cannot listen on 127.0.0.1:{port}" in err
        assert "Traceback" not in err

    def test_a_kubeconfig_that_is_not_there(self, tmp_path: Path) -> None:
        status, err = ended("serve", "--kubeconfig", str(tmp_path / "none"))
        assert status == 2
        assert "no such file" in err

    def test_a_record_that_cannot_be_written(self, tmp_path: Path, kubeconfig: str) -> None:
        status, err = ended("serve", "--kubeconfig", kubeconfig, "--record", str(tmp_path))
        assert status == 2
        assert f"cannot write {tmp_path}: Is a directory: choose another file with --record" in err
        assert "Traceback" not in err

    def test_half_of_what_tls_needs(self, kubeconfig: str) -> None:
        status, err = ended("serve", "--kubeconfig", kubeconfig, "--tls-cert", "x")
        assert status == 2
        assert "for calls over TLS there has to be --tls-key and --tls-client-ca, too" in err

    def test_settings_that_cannot_be_read(self, tmp_path: Path) -> None:
        status, err = ended("serve", "--config", str(tmp_path / "none.toml"))
        assert (status, "none.toml: No such file or directory" in err) == (2, True)
        assert "Errno" not in err

    def test_settings_that_are_no_toml(self, tmp_path: Path) -> None:
        path = tmp_path / "settings.toml"
        path.write_text("levels: [rack]")
        status, err = ended("serve", "--config", str(path))
        assert (status, f"settings file {path} is no TOML: " in err) == (2, True)
        assert "line 1" in err

    def test_settings_that_are_not_known(self, tmp_path: Path, kubeconfig: str) -> None:
        path = tmp_path / "settings.toml"
        path.write_text("colour = 'red'")
        status, err = ended("serve", "--kubeconfig", kubeconfig, "--config", str(path))
        assert status == 2
        assert f"settings file {path}: setting 'colour' is not known" in err


class TestCommandLine:
    def test_help_lists_all_commands_and_loads_nothing_heavy(self) -> None:
        code = (
            "import sys; from scheduler import cli; cli.build(['--help']); "
            "heavy = {'fastapi', 'kubernetes', 'numpy', 'torch', 'yaml', 'msgspec'}; "
            "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        listed = CliRunner().invoke(cli.build([]), ["--help"]).output
        assert all(name in listed for name in cli.COMMANDS)

    @pytest.mark.parametrize("name", cli.COMMANDS)
    def test_every_command_can_be_loaded(self, name: str) -> None:
        result = CliRunner().invoke(cli.build([name]), [name, "--help"])
        assert (result.exit_code, f"muster {name}" in result.output) == (0, True)

    def test_version(self) -> None:
        result = CliRunner().invoke(cli.build([]), ["--version"])
        assert (result.exit_code, result.output.strip()) == (0, f"muster {__version__}")


def rendered(**options: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(render(**{"url": "http://127.0.0.1:8085", **options}))
    return found


class TestKubeConfig:
    def test_the_extender(self) -> None:
        (extender,) = rendered()["extenders"]
        assert extender == {
            "urlPrefix": "http://127.0.0.1:8085",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "preemptVerb": "preempt",
            "weight": 10,
            "nodeCacheCapable": True,
            "ignorable": False,
            "httpTimeout": "5s",
            "enableHTTPS": False,
        }

    def test_the_profiles(self) -> None:
        found = rendered()
        assert (found["apiVersion"], found["kind"]) == (
            "kubescheduler.config.k8s.io/v1",
            "KubeSchedulerConfiguration",
        )
        plugins = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
        names = [name for name in ACCELERATORS if "*" not in name]
        fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": names}}
        assert found["profiles"] == [
            {
                "schedulerName": "muster",
                "plugins": plugins,
                "percentageOfNodesToScore": 1,
                "pluginConfig": [fit],
            },
            {"schedulerName": "muster-plain", "plugins": plugins},
        ]
        assert found["podMaxBackoffSeconds"] == 60

    def test_the_flag_is_named(self) -> None:
        assert "--feature-gates=SchedulerPopFromBackoffQ=false" in render(url="http://x")

    def test_follow_offers_all_nodes(self) -> None:
        profile = rendered(follow=True)["profiles"][0]
        assert profile["percentageOfNodesToScore"] == 100
        assert "pluginConfig" not in profile, "more nodes would be offered, for nothing"

    def test_leader_election_has_a_lease_of_its_own(self) -> None:
        assert rendered()["leaderElection"] == {
            "leaderElect": True,
            "resourceName": "muster-kube-scheduler",
            "resourceNamespace": "kube-system",
        }
        assert rendered(leader_elect=False)["leaderElection"] == {"leaderElect": False}

    def test_a_kubeconfig_is_named_only_where_there_is_one(self) -> None:
        rates = {"qps": 500, "burst": 1000}
        assert rendered()["clientConnection"] == rates
        odd = '/a b/"c": d'
        assert rendered(kubeconfig=odd)["clientConnection"] == {"kubeconfig": odd, **rates}

    def test_https(self) -> None:
        (extender,) = rendered(url="https://muster.example:443/")["extenders"]
        assert (extender["urlPrefix"], extender["enableHTTPS"]) == (
            "https://muster.example:443",
            True,
        )

    def test_tls_with_a_certificate_of_its_own(self) -> None:
        (extender,) = rendered(url="https://m:8443", tls=("/a b/ca", "/c", "/k"))["extenders"]
        assert extender["tlsConfig"] == {"caFile": "/a b/ca", "certFile": "/c", "keyFile": "/k"}
        assert "tlsConfig" not in rendered(url="https://m:8443")["extenders"][0]

    @pytest.mark.parametrize(
        ("url", "tls", "reason"),
        [
            ("https://m", ("ca", "", ""), "there has to be --tls-cert and --tls-key, too"),
            ("http://m", ("ca", "c", "k"), "an --extender-url that begins with https://, too"),
        ],
    )
    def test_half_of_tls(self, url: str, tls: tuple[str, str, str], reason: str) -> None:
        with pytest.raises(SettingsError, match=reason):
            render(url=url, tls=tls)

    @pytest.mark.parametrize(
        "url",
        [
            *("", "127.0.0.1:8085", "ftp://x", "http://", "http://[::1", "http://m:99999"),
            *("http://m:port", "http://m:0", "http://m/?a=b", "http://m/#a", "http://m x"),
            f"ftp://{'x' * 5_000}",
        ],
    )
    def test_what_is_no_url(self, url: str) -> None:
        with pytest.raises(SettingsError, match="must look like") as refusal:
            render(url=url)
        assert len(str(refusal.value)) < 1_000

    @pytest.mark.parametrize("pause_s", ["0", "3601", "100000000000"])
    def test_a_pause_that_no_scheduler_keeps(self, pause_s: str) -> None:
        words = ["kube-config", "--max-backoff", pause_s]
        ran = CliRunner().invoke(cli.build(words), words)
        assert (ran.exit_code, "--max-backoff" in ran.output) == (2, True)

    def test_two_profiles_need_two_names(self) -> None:
        with pytest.raises(SettingsError, match="both profiles"):
            render(url="http://x", names=("a", "a"))

    @pytest.mark.parametrize("name", ["", "A B", "x/y"])
    def test_a_name_that_no_scheduler_can_have(self, name: str) -> None:
        with pytest.raises(SettingsError, match=f"schedulerName '{name}'"):
            render(url="http://x", names=("a", name))

    def test_the_command_prints_it(self) -> None:
        options = ["kube-config", "--scheduler-name", "gangs", "--no-leader-elect"]
        result = CliRunner().invoke(cli.build(options), options)
        assert yaml.safe_load(result.output)["profiles"][0]["schedulerName"] == "gangs"
