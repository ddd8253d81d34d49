"""Two tenants in one data directory: neither finds anything of the other's, whatever it asks for.

Prints:

    acme finds: The launch is on Friday.
    globex finds: nothing
    globex remembers: nothing
    acme, within itself, ana: Ana drinks tea
    acme, within itself, ben: nothing
"""

import sys

from stratalog import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope


def found(memory: Stratalog, query: str) -> str:
    return next((each.hit.snippet for each in memory.search(query)), "nothing")


def recalled(records: Records, user: str) -> str:
    known = records.service.recall(records.caller(user=user), "tea").found
    return next((each.record.text for each in known), "nothing")


def main(data: str) -> None:
    with Stratalog(data, tenant="acme") as acme:
        globex = acme.as_tenant("globex")
        with acme.session("assistant:example:plans").turn("The launch is on Friday.") as turn:
            turn.reply("Noted.")
        with globex.session("assistant:example:plans").turn("Hello.") as turn:  # the same key
            turn.reply("Hello.")
        print("acme finds:", found(acme, "launch"))
        print("globex finds:", found(globex, "launch"))

        with Records(acme) as ours, Records(globex) as theirs:
            ana = Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="drink", text="Ana drinks tea")
            ours.service.remember(ours.caller(user="ana"), ana)
            print("globex remembers:", recalled(theirs, "ana"))
            print("acme, within itself, ana:", recalled(ours, "ana"))
            print("acme, within itself, ben:", recalled(ours, "ben"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
