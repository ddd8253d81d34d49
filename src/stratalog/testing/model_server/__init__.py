"""A server of language models for tests: real HTTP, no model, and as strict as the providers say they are.

    with ModelServer(["Hello.", Refuse(429, retry_after=1), Reply(calls=(Call("add", {"a": 1}),))]) as server:
        model = OpenAIChat(api_key="test", base_url=server.openai_url)

It speaks OpenAI's chat completions and responses and Anthropic's messages, streamed or whole, and says what
its script says (see `steps`). Each request is checked first, by the rules of its API (`chat`, `responses`,
`messages`, each with its `_rules`); one that breaks them, or is over the window, is refused with the
provider's own error, and takes no step of the script. What came is kept in `requests`, byte for byte, or in
a long run only the latest, and in `facts` what all of it comes to.
"""

from stratalog.testing.model_server.dialect import Refused, Strictness
from stratalog.testing.model_server.dialects import DIALECTS, refusal_of
from stratalog.testing.model_server.server import ModelServer
from stratalog.testing.model_server.steps import Break, Drop, Facts, Hang, Raw, Received, Refuse, ServerStep

__all__ = [
    "DIALECTS",
    "Break",
    "Drop",
    "Facts",
    "Hang",
    "ModelServer",
    "Raw",
    "Received",
    "Refuse",
    "Refused",
    "ServerStep",
    "Strictness",
    "refusal_of",
]
