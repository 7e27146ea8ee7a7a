"""Features that go through a transformer or a function before they are learnt.

In come sources and transformers; out come sources of what these make. Open `mapped` first.

- `mapped`: the sources. `maps`: what is made of the features of a block. `rows`: the same of rows in memory.
- `digests`: a hash of a transformer by its values, and of functions by what their `code` names. By
  `FeatureMap.identity`, it is in the identity of each mapped split, beside that of the split behind the map.
"""
