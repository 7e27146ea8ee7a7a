"""Messages that know their parts."""

import pickle

import pytest

from streamgda.blocks.block import MissingValueError
from streamgda.blocks.wording import Message, Setting
from streamgda.incomplete.patterns import TooManyPatternsError


def as_option(setting):
    return f"--{setting.name}" if setting.value is ... else f"--{setting.name} {setting.value}"


@pytest.mark.parametrize(
    ("text", "in_python", "elsewhere"),
    [
        ("set ⟨missing='drop'⟩", "set missing='drop'", "set --missing drop"),
        ("raise ⟨tol⟩", "raise tol", "raise --tol"),
        ("⟨keep=['a', 'b|=']⟩", "keep=['a', 'b|=']", "--keep ['a', 'b|=']"),
        ("⟨accumulate|learn⟩ again", "accumulate again", "learn again"),
        ("so⟨; x.drop_class('a|b') forgets it|⟩", "so; x.drop_class('a|b') forgets it", "so"),
        ("⟨keep=<a source>⟩", "keep='<a source>'", "--keep <a source>"),
        ("a label ⟩⟨ of marks", "a label ⟩⟨ of marks", "a label ⟩⟨ of marks"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_a_message_is_a_text_that_can_be_put_in_other_words(text, in_python, elsewhere):
    message = Message(text)
    assert message == str(message) == in_python
    assert message.put(as_option) == elsewhere


def test_messages_are_joined_with_their_parts():
    inner = Message.of(ValueError(Message("set ⟨tol=0.5⟩")))
    assert Message("fold 0: ", inner, "; or not").put(as_option) == "fold 0: set --tol 0.5; or not"
    assert Message.of(KeyError()) == ""


def test_errors_that_differ_in_amounts_are_alike():
    one, other = (Message(f"rank ⟨#{n}⟩ of 4, from ⟨#{n + 1} rows⟩") for n in (1, 2))
    assert one == "rank 1 of 4, from 2 rows"
    assert one != other
    assert one.without_amounts() == other.without_amounts()
    assert one.without_amounts() != Message("rank ⟨#1⟩ of 5, from ⟨#2 rows⟩").without_amounts()


@pytest.mark.parametrize(
    "error",
    [
        MissingValueError("row 3: feature 'a' is NaN"),
        TooManyPatternsError.of(300, 256, 3, 4),
        ValueError(Message("⟨tol⟩")),
    ],
)
def test_an_error_of_another_process_knows_its_parts(error):
    there = pickle.loads(pickle.dumps(error))
    assert str(there) == str(error)
    assert Message.of(there).parts == Message.of(error).parts
    assert any(isinstance(part, Setting) for part in Message.of(there).parts)
