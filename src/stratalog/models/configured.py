"""A model from how it is written in a configuration or on a command line: `provider:model`.

    openai:gpt-5                OpenAI's chat completions, or any compatible server at `base_url`
    openai-responses:gpt-5      OpenAI's responses API
    anthropic:claude-sonnet-4-5 Anthropic's messages
    extractive                  none: answers with what was said, see `extractive_chat`

Keys come from what is given or from the environment, never from a file: `api_key`, or the variable that
`api_key_env` names, or the provider's own (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`). The provider's own key
goes only to the provider's own address, or to the one that the environment names with it
(`OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL`): a key is not sent to a `base_url` that somebody wrote elsewhere.
A server that asks for no key is given the word `none`.

Besides these the SDKs read settings of their own (an organisation, extra headers, proxies); their manuals
list them. How far a model reaches is told by its address, and by that of the proxy that it is asked through.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple
from urllib.request import getproxies

from stratalog.errors import InvalidConfig
from stratalog.models import anthropic, extractive, extractive_chat, openai
from stratalog.models.contract import Model, Reach
from stratalog.models.reach import proxy_for, reach_of
from stratalog.models.retry import Retry

NO_KEY = "none"


class Configured(NamedTuple):
    """A model, the name that its requests carry, and how far what it is sent goes: anywhere, unless said."""

    model: Model
    name: str
    reach: Reach = "world"

    async def close(self) -> None:
        """Ends the model's connections in the running event loop, if it has any; asked again, it opens new
        ones."""
        close = getattr(self.model, "close", None)
        if close is not None:
            await close()


class Where(NamedTuple):
    """Where a model is, and the key that it is asked with."""

    base_url: str
    api_key: str


class _Provider(NamedTuple):
    make: Callable[..., Model]
    base_url: str
    key_variable: str
    url_variable: str


PROVIDERS: dict[str, _Provider] = {
    "openai": _Provider(openai.OpenAIChat, openai.BASE_URL, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": _Provider(
        openai.OpenAIResponses, openai.BASE_URL, "OPENAI_API_KEY", "OPENAI_BASE_URL"
    ),
    "anthropic": _Provider(
        anthropic.Anthropic, anthropic.BASE_URL, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"
    ),
}


def model_from(
    spec: str,
    *,
    base_url: str = "",
    api_key: str = "",
    api_key_env: str = "",
    headers: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    environ: Mapping[str, str] | None = None,
    sends_reasoning: bool = False,
    reach: Reach | Literal[""] = "",
) -> Configured:
    """The model that `spec` names. `sends_reasoning` is for chat completions of a server that wants what its
    model thought back, and is not looked at for others. `reach` says how far what it is sent goes, where
    that is not as its address looks.

    Raises `InvalidConfig` for a spec that names none, a key that is missing, and a provider whose SDK is not
    installed; each says what to do. What else is given is not looked at for `extractive`, which needs none
    of it."""
    if spec.strip() == extractive.NAME:
        return Configured(extractive_chat.ExtractiveChat(), extractive.NAME, "machine")
    where = where_is(spec, base_url=base_url, api_key=api_key, api_key_env=api_key_env, environ=environ)
    provider, name = _named(spec)
    options = {"sends_reasoning": True} if sends_reasoning and provider.make is openai.OpenAIChat else {}
    model = provider.make(
        api_key=where.api_key, base_url=where.base_url, headers=headers, retry=retry, **options
    )
    return Configured(model, name, reach or reach_of(where.base_url, proxy_for(where.base_url, getproxies())))


def where_is(
    spec: str,
    *,
    base_url: str = "",
    api_key: str = "",
    api_key_env: str = "",
    environ: Mapping[str, str] | None = None,
) -> Where:
    """Where the model that `spec` names is, and the key that it is asked with; raises as `model_from`."""
    provider, _ = _named(spec)
    variables = os.environ if environ is None else environ
    url = base_url.strip() or variables.get(provider.url_variable, "").strip() or provider.base_url
    return Where(url, _key(provider, spec, base_url.strip(), api_key, api_key_env, variables))


def _named(spec: str) -> tuple[_Provider, str]:
    """The provider and the model's name. Raises `InvalidConfig`."""
    prefix, colon, name = (part.strip() for part in spec.partition(":"))
    provider = PROVIDERS.get(prefix)
    if provider is None or not name:
        known = ", ".join(f"{known}:MODEL" for known in PROVIDERS)
        what = "no provider of models is called so" if colon and name else "a model is written PROVIDER:MODEL"
        hint = (
            f"one of {known}; a compatible server is openai:MODEL with a base URL; "
            f"{extractive.NAME} needs no provider"
        )
        raise InvalidConfig(what, given=spec, hint=hint)
    return provider, name


def _key(
    provider: _Provider,
    spec: str,
    base_url: str,
    api_key: str,
    api_key_env: str,
    variables: Mapping[str, str],
) -> str:
    if api_key.strip():
        return api_key.strip()
    if api_key_env:
        found = variables.get(api_key_env, "").strip()
        if not found:
            raise InvalidConfig("the variable that should hold the API key is not set", variable=api_key_env)
        return found
    if base_url and base_url.rstrip("/") != provider.base_url:
        return NO_KEY
    found = variables.get(provider.key_variable, "").strip()
    if found:
        return found
    if variables.get(provider.url_variable, "").strip():
        return NO_KEY
    hint = f"set {provider.key_variable}, or give a base URL of a server that needs no key"
    raise InvalidConfig("no API key for this model", model=spec, hint=hint)
