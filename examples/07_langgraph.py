"""LangGraph: a graph that waits for a person, goes on in the next process, and remembers in a store.

Prints:

    waits for: Send 20 euros to Ben?
    in the next process: sent
    the state before the question is still there: True
    found in the log: Send 20 euros to Ben.
    in the store: {'text': 'Ben has been paid 20 euros'}
"""

import sys

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

from stratalog import Stratalog
from stratalog.interop.langgraph import StratalogSaver, StratalogStore

THREAD: RunnableConfig = {"configurable": {"thread_id": "payments/ana"}}


def pay(state: MessagesState, *, store: BaseStore) -> MessagesState:
    """Asks a person first: the graph stops here, and may go on in another process on another day."""
    if interrupt("Send 20 euros to Ben?") == "yes":
        store.put(("users", "ana"), "ben", {"text": "Ben has been paid 20 euros"})
        return {"messages": [AIMessage("sent")]}
    return {"messages": [AIMessage("not sent")]}


def graph(saver: StratalogSaver, store: StratalogStore) -> CompiledStateGraph:
    builder = StateGraph(MessagesState)
    builder.add_node("pay", pay)
    builder.add_edge(START, "pay")
    return builder.compile(checkpointer=saver, store=store)


def first(memory: Stratalog) -> None:
    with StratalogSaver(memory, messages=["messages"]) as saver, StratalogStore(memory) as store:
        asked = graph(saver, store).invoke({"messages": [("user", "Send 20 euros to Ben.")]}, THREAD)
        print("waits for:", asked["__interrupt__"][0].value)


def second(memory: Stratalog) -> None:
    with StratalogSaver(memory, messages=["messages"]) as saver, StratalogStore(memory) as store:
        paying = graph(saver, store)
        done = paying.invoke(Command(resume="yes"), THREAD)
        print("in the next process:", done["messages"][-1].content)
        steps = list(paying.get_state_history(THREAD))
        print("the state before the question is still there:", len(steps[-1].values["messages"]) == 0)
        print("found in the log:", memory.search("euros to Ben")[0].hit.snippet)
        print("in the store:", store.search(("users",))[0].value)


def main(data: str) -> None:
    with Stratalog(data) as memory:
        first(memory)
    with Stratalog(data) as memory:
        second(memory)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
