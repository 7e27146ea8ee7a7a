"""A digest of any object by its values: of a function, by its code and all that the code reads.

Objects have the same digest if they are made of equal values in the same way. In which process they are,
where a function is defined and how often it was called do not count.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

from streamgda.sources.code import UntoldError
from streamgda.sources.parts import parts_of


def value_digest(value: Any, name: str) -> str:
    """A hash of an object by its values, in hexadecimal digits.

    Parameters
    ----------
    value : object
        Such as a fitted transformer, or a function.
    name : str
        What errors call it.

    Raises
    ------
    TypeError
        If it depends on something that has no value to hash, such as an open file. The message names it.

    Examples
    --------
    >>> def scaled_by(factor):
    ...     return lambda rows: factor * rows
    >>> value_digest(scaled_by(2), "a function") == value_digest(scaled_by(2), "a function")
    True
    >>> value_digest(scaled_by(2), "a function") == value_digest(scaled_by(3), "a function")
    False
    """
    graph = _Graph()
    graph.add("", value)
    while graph.waiting:
        node, path, obj = graph.waiting.pop()
        try:
            node.content, node.is_ordered, groups = parts_of(obj)
            node.groups = [
                [graph.add(_joined(path, label), part) for label, part in group] for group in groups
            ]
        except Exception as error:  # the methods by which pickle takes objects apart may raise anything
            reason = str(error) if isinstance(error, UntoldError) else f"{obj!r:.80} ({error})"
            raise TypeError(
                f"{name} depends on {': '.join(filter(None, (path, reason)))}. Its value cannot be hashed, "
                "so states and predictions that were made with it cannot be told from others. Do without it, "
                "or without a checkpoint, a ledger and predict_dataset"
            ) from error
    return graph.digest()


def _joined(path: str, label: str) -> str:
    return f"{path}{label}" if not path or label.startswith((".", "[")) or not label else f"{path} → {label}"


@dataclass(eq=False, slots=True)
class _Node:
    """An object: its content, and groups of objects that it is made of, in an order that counts or not."""

    content: bytes = b""
    is_ordered: bool = True
    groups: list[list[_Node]] = field(default_factory=list)
    label: bytes = b""

    def combined(self) -> bytes:
        """A hash of the content and the labels of the parts."""
        state = hashlib.blake2b(b"%d %d " % (self.is_ordered, len(self.content)), digest_size=16)
        state.update(self.content)
        labels = [b"".join(node.label for node in group) for group in self.groups]
        for group in labels if self.is_ordered else sorted(labels):
            state.update(b"%d " % len(group) + group)
        return state.digest()


class _Graph:
    """What an object is made of. Objects may be made of each other, as functions that call each other."""

    def __init__(self) -> None:
        self.nodes: dict[int, _Node] = {}
        self.objects: list[Any] = []  # so that no new object gets the id of one of them
        self.waiting: list[tuple[_Node, str, Any]] = []  # whose parts are not found yet

    def add(self, path: str, obj: Any) -> _Node:
        """The node of an object, and how it was reached."""
        if id(obj) not in self.nodes:
            self.nodes[id(obj)] = _Node()
            self.objects.append(obj)
            self.waiting.append((self.nodes[id(obj)], path, obj))
        return self.nodes[id(obj)]

    def digest(self) -> str:
        """A hash of the label of the first node, and of those that are made of each other."""
        first, *_ = nodes = list(self.nodes.values())
        self._label_upwards(nodes)
        cyclic = [node for node in nodes if not node.label]
        self._label_in_rounds(cyclic)
        labels = [first.label, *sorted({node.label for node in cyclic})]
        return hashlib.blake2b(b"".join(labels), digest_size=16).hexdigest()

    @staticmethod
    def _label_upwards(nodes: list[_Node]) -> None:
        """Label the nodes whose parts have labels; those that are made of each other get none."""
        sorter = TopologicalSorter({node: chain.from_iterable(node.groups) for node in nodes})
        with suppress(CycleError):  # the others are sorted all the same
            sorter.prepare()
        while ready := sorter.get_ready():
            for node in ready:
                node.label = node.combined()
            sorter.done(*ready)

    @staticmethod
    def _label_in_rounds(nodes: list[_Node]) -> None:
        """Label nodes by the labels of their parts, until a round tells no more of them apart.

        So nodes that are made of equal parts get equal labels, however often they are in the graph.
        """
        n_labels = 0
        while nodes:
            labels = [node.combined() for node in nodes]
            for node, label in zip(nodes, labels, strict=True):
                node.label = label
            if len(set(labels)) == n_labels:
                return
            n_labels = len(set(labels))
