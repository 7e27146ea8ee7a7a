"""What the rooms below can do without: they find it by name in their registries and never import it.

In come the same rows, states and models; out come states of another kind (`exact`, `incomplete`,
`private`), features and classes of another kind (`categories`, `subclasses` of mixtures), densities and
estimators (`edda`, `students`, `ridge`, `leaves`), states that databases sum up (`databases`), graphs
(`onnx`), answers on a GPU (`devices`). Open the `__init__` of one first.
"""
