"""models/reach.py: how far a server reaches, by its address alone."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.models.configured import Configured, model_from
from stratalog.models.contract import Reach
from stratalog.models.extractive_chat import ExtractiveChat
from stratalog.models.reach import REACHES, farther, proxy_for, reach_of

HOSTS: dict[Reach, list[str]] = {
    "machine": [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1",
        "127.1.2.3",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "user:password@localhost",
    ],
    "premises": [
        "10.0.0.7",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.1.1",
        "[fd00::1]",
        "[fe80::1%25eth0]",
        "[::ffff:10.0.0.1]",
        "gpu-3",
        "llm.internal",
        "LLM.Corp.Internal.",
        "box.local",
        "box.lan",
    ],
    "world": [
        "api.openai.com",
        "8.8.8.8",
        "172.32.0.1",
        "172.15.255.255",
        "100.64.0.1",
        "[2001:4860:4860::8888]",
        "[::ffff:8.8.8.8]",
        "localhost@evil.com",
        "localhost.evil.com",
        "evil.com\\@localhost",
        "internal.evil.com",
        "134744072",  # 8.8.8.8 as one number
        "0x08080808",
        "010.0.0.1",  # 8.0.0.1 where a leading zero means octal
        "10.1",
        "evil\u3002com",  # a full stop that a name loses on its way
        "evil%2ecom",
        "\uff11\uff10.0.0.1",
        "",
    ],
}


@pytest.mark.parametrize(("reach", "host"), [(reach, host) for reach in REACHES for host in HOSTS[reach]])
def test_the_reach_of_an_address(reach: Reach, host: str) -> None:
    """Loopback is the machine, private addresses and inner names the premises, and all else the world."""
    assert reach_of(f"http://{host}:8000/v1") == reach
    assert reach_of(f"https://{host}/v1?a=localhost#127.0.0.1") == reach


@pytest.mark.parametrize("url", ["", "localhost:8000", "http://[::1", "http://", "//", "http://[v1.x]/"])
def test_what_is_no_url_is_the_world(url: str) -> None:
    """What cannot be read counts as reaching anywhere."""
    assert reach_of(url) == "world"


@given(st.ip_addresses())
def test_no_public_address_is_near(address: IPv4Address | IPv6Address) -> None:
    """An address that is routed in the world is never taken for one that is not."""
    host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    if address.is_global:
        assert reach_of(f"http://{host}/") == "world"


@given(st.text())
def test_any_text_has_a_reach(text: str) -> None:
    """No URL makes it fail."""
    assert reach_of(text) in REACHES
    assert reach_of(f"http://{text}/") in REACHES


def test_a_proxy_reaches_as_far_as_it_is() -> None:
    """What goes through a proxy reaches that too; a near proxy brings nothing nearer."""
    assert reach_of("http://localhost/v1", "http://proxy.example.com:3128") == "world"
    assert reach_of("http://10.0.0.1/v1", "http://proxy.lan:3128") == "premises"
    assert reach_of("https://api.openai.com/v1", "http://localhost:3128") == "world"
    assert [farther(one, other) for one in REACHES for other in REACHES] == [
        *REACHES,
        "premises",
        "premises",
        "world",
        *["world"] * 3,
    ]


@pytest.mark.parametrize(
    ("url", "proxies", "proxy"),
    [
        ("http://localhost/", {}, ""),
        ("http://localhost/", {"http": "http://p:1"}, "http://p:1"),
        ("https://localhost/", {"http": "http://p:1"}, ""),
        ("https://localhost/", {"all": "p:1"}, "http://p:1"),
        ("http://localhost/", {"http": "http://p:1", "no": "a.com, LOCALHOST"}, ""),
        ("http://localhost/", {"http": "http://p:1", "no": "*"}, ""),
        ("http://[::1]/", {"http": "http://p:1", "no": "::1"}, ""),
        ("http://llm.corp.internal/", {"http": "http://p:1", "no": ".internal"}, ""),
        ("http://llm.corp.internal/", {"http": "http://p:1", "no": "internal"}, ""),
        ("http://llm.internal/", {"http": "http://p:1", "no": "m.internal"}, "http://p:1"),
        ("http://10.0.0.1/", {"http": "http://p:1", "no": "0.0.1"}, "http://p:1"),
        ("http://10.0.0.1/", {"http": "http://p:1", "no": "10.0.0.0/8"}, "http://p:1"),
    ],
)
def test_which_proxy_is_taken(url: str, proxies: dict[str, str], proxy: str) -> None:
    """That of the scheme or of all, but for hosts and ends of names that go past it."""
    assert proxy_for(url, proxies) == proxy


def test_a_configured_model_has_its_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its address and the proxy before that, unless it is said; a model that is given reaches anywhere."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    none: dict[str, str] = {}
    local = "http://127.0.0.1:11434/v1"
    assert model_from("extractive").reach == "machine"
    assert model_from("openai:m", base_url=local, environ=none).reach == "machine"
    assert model_from("anthropic:m", environ={"ANTHROPIC_BASE_URL": "http://gpu:1"}).reach == "premises"
    assert model_from("openai:m", api_key="k", environ=none).reach == "world"
    assert model_from("openai:m", base_url=local, environ=none, reach="world").reach == "world"
    far = model_from("openai:m", base_url="https://x.com", environ=none, reach="premises")
    assert far.reach == "premises"
    assert Configured(ExtractiveChat(), "m").reach == "world"
    assert Configured(ExtractiveChat(), "m", reach="machine").reach == "machine"
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.com:3128")
    assert model_from("openai:m", base_url=local, environ=none).reach == "world"
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert model_from("openai:m", base_url=local, environ=none).reach == "machine"
