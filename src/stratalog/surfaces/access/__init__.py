"""Who asks, for every surface that is asked over a wire: tokens, what they prove, and what that may see.

`tokens` keeps them and recognises one; `principals` says what one that was recognised may do. A surface makes
an `Asker` once for each request and passes that on; nothing else of a request says whose it is.
"""
