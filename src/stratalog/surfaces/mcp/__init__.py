"""The MCP server: what is remembered, what was said and what is kept in mind, for any client of the protocol.

`identity` says who asks, `desk` is what one request works with, `values` what tools take and give, `tools`,
`resources` and `prompts` what is offered, `places` the addresses of resources, `server` the protocol's
handlers, `stdio` and `http` the two ways to reach them. Nothing here decides what may be seen or what
remembering does; the engine does.
"""
