"""Features that go through a transformer or a function before they are learnt.

In come sources and transformers; out come sources of what these make. Open `mapped` first.

- `mapped`: the sources. `maps`: what is made of the features of a block.
- `identity` hashes a transformer by its values, and functions by what their `code` names.
"""
