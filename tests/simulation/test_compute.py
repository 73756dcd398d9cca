"""Callbacks of an observer, and how options print."""

from fedcell import Compute, Observer


def test_an_added_round_callback_is_called_after_the_first():
    calls: list[str] = []
    observer = Observer(round=lambda _: calls.append("first"))
    both = observer.with_round(lambda _: calls.append("second"))
    assert both.round is not None
    both.round(None)  # type: ignore[arg-type]
    assert calls == ["first", "second"]
    alone = Observer().with_round(lambda _: calls.append("alone"))
    assert alone.round is not None
    alone.round(None)  # type: ignore[arg-type]
    assert calls[2:] == ["alone"]


def test_messages_are_passed_on_where_they_are_wanted():
    said: list[str] = []
    Observer(message=said.append).say("a sentence")
    Observer().say("nothing hears it")
    assert said == ["a sentence"]


def test_options_print_the_fields_that_were_given():
    assert (repr(Compute()), repr(Observer())) == ("Compute()", "Observer()")
    assert repr(Compute(threads=2, data_dir="there")) == "Compute(data_dir='there', threads=2)"
