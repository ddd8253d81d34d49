"""A model from its name: which adapter, whose key, what when something is missing; and no SDK before it is
needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from models.asking import KEY, ask, request, words
from stratalog.errors import InvalidConfig
from stratalog.models.anthropic import Anthropic
from stratalog.models.configured import PROVIDERS, model_from
from stratalog.models.extractive_chat import ExtractiveChat
from stratalog.models.openai import OpenAIChat, OpenAIResponses
from stratalog.testing.model_server import ModelServer


def sdk(name: str) -> None:
    pytest.importorskip(name, reason=f"the SDK `{name}` is not installed")


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("openai:gpt-5", OpenAIChat, "gpt-5"),
        ("openai:llama3:8b", OpenAIChat, "llama3:8b"),
        (" openai : org/model ", OpenAIChat, "org/model"),
        ("openai-responses:gpt-5", OpenAIResponses, "gpt-5"),
        ("anthropic:claude-sonnet-4-5", Anthropic, "claude-sonnet-4-5"),
    ],
)
def test_the_adapter_of_a_spec(spec: str, kind: type, name: str) -> None:
    """The word before the colon chooses the adapter; the rest is the model's name."""
    sdk("anthropic" if kind is Anthropic else "openai")
    found = model_from(spec, api_key=KEY, environ={})
    assert (type(found.model), found.name) == (kind, name)


@pytest.mark.parametrize(
    "spec", ["", "gpt-5", "openai:", ":gpt-5", "cohere:command", "OpenAI:gpt-5", "extractive:m"]
)
def test_a_spec_that_names_none(spec: str) -> None:
    """The error lists what there is."""
    with pytest.raises(InvalidConfig) as caught:
        model_from(spec, api_key=KEY, environ={})
    assert all(f"{provider}:MODEL" in str(caught.value) for provider in PROVIDERS)
    assert "extractive needs no provider" in str(caught.value)


@pytest.mark.parametrize("spec", ["extractive", " extractive "])
def test_no_provider(spec: str) -> None:
    """`extractive` needs no key, no SDK and no address."""
    found = model_from(spec, environ={})
    assert (type(found.model), found.name) == (ExtractiveChat, "extractive")


@pytest.mark.parametrize("spec", ["openai:m", "openai-responses:m", "anthropic:m"])
def test_a_missing_key(spec: str) -> None:
    """The error names the variable that would hold it."""
    with pytest.raises(InvalidConfig, match=r"set (OPENAI|ANTHROPIC)_API_KEY"):
        model_from(spec, environ={})


def sent_key(environ: dict[str, str], **how: Any) -> str:
    """The key that a server at `base_url` or at the environment's URL gets to see."""
    sdk("openai")
    with ModelServer(["ok"]) as server:
        environ = {name: value.replace("URL", server.openai_url) for name, value in environ.items()}
        how = {name: value.replace("URL", server.openai_url) for name, value in how.items()}
        found = model_from("openai:m", environ=environ, **how)
        assert words(ask(found.model, request("openai_chat"))) == "ok"
    return server.requests[0].headers["authorization"].removeprefix("Bearer ")


def test_whose_key_goes_where() -> None:
    """What is given is used; the provider's own key goes to the provider or to the URL beside it, nowhere
    else."""
    mine = {"OPENAI_API_KEY": "sk-mine-0123456789"}
    assert sent_key(mine, base_url="URL", api_key=" sk-given-0123456789\n") == "sk-given-0123456789"
    assert (
        sent_key({**mine, "OTHER": "sk-other-0123456789"}, base_url="URL", api_key_env="OTHER")
        == "sk-other-0123456789"
    )
    assert sent_key({**mine, "OPENAI_BASE_URL": "URL"}) == "sk-mine-0123456789"
    assert sent_key(mine, base_url="URL") == "none"
    assert sent_key({"OPENAI_BASE_URL": "URL"}) == "none"
    with pytest.raises(InvalidConfig, match="OTHER"):
        model_from("openai:m", api_key_env="OTHER", environ=mine)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://a/", "http://", "http://a b/", "http://a:99999/", "http://[::1/"]
)
def test_a_base_url_that_cannot_be(url: str) -> None:
    """It is an error before any request."""
    with pytest.raises(InvalidConfig, match="base URL"):
        model_from("openai:m", base_url=url, environ={})


@pytest.mark.parametrize("key", ["sk-a b", "sk-ключ", "sk-a\nb"])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    """It is an error, which does not show it."""
    with pytest.raises(InvalidConfig) as caught:
        model_from("openai:m", api_key=key, environ={})
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "package"),
    [("openai:m", "openai"), ("openai-responses:m", "openai"), ("anthropic:m", "anthropic")],
)
def test_a_missing_sdk(spec: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra that installs it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidConfig) as caught:
        model_from(spec, api_key=KEY, environ={})
    assert f"pip install 'stratalog[{package}]'" in str(caught.value)


@pytest.mark.parametrize(
    "module",
    [
        "stratalog.models.contract",
        "stratalog.models.configured",
        "stratalog.testing.scripted",
        "stratalog.testing.model_server",
    ],
)
def test_no_sdk_is_imported(module: str) -> None:
    """Neither the contract nor the choice of a model costs the import of an SDK."""
    sdks = "('openai', 'anthropic', 'httpx2')"
    code = f"import {module}, sys; print([name for name in {sdks} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_server_that_wants_its_reasoning_back() -> None:
    """What is asked for chat completions is so; other providers have their own way, and take no notice."""
    made = model_from("openai:deepseek-reasoner", base_url="http://localhost:1/v1", sends_reasoning=True)
    assert getattr(made.model, "sends_reasoning", None) is True
    plain = model_from("openai:gpt-4o", base_url="http://localhost:1/v1")
    assert getattr(plain.model, "sends_reasoning", None) is False
    for spec in ("openai-responses:gpt-5", "anthropic:claude-sonnet-4-5", "extractive"):
        model_from(spec, base_url="http://localhost:1/v1", sends_reasoning=True)
