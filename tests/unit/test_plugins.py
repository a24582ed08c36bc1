"""Members of a family are found by file name, others by entry point; an unknown name gets the nearest valid one."""

import sys
from importlib import metadata

import pytest

from stream_occ.errors import ConfigError
from stream_occ.plugins import load_plugin, plugin_names


@pytest.fixture
def family(tmp_path, monkeypatch):
    """A package `family` with members two-words and plain, a private file, and one that needs a missing library."""
    package = tmp_path / "some_family"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "two_words.py").write_text("VALUE = 2\n")
    (package / "plain.py").write_text("VALUE = 1\n")
    (package / "_private.py").write_text("VALUE = 0\n")
    (package / "needy.py").write_text("import no_such_library_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "some_family"
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_family"]:
        del sys.modules[name]


def test_names_are_files_without_underscore(family):
    """A dash in a name stands for an underscore in the file; private files are no members."""
    assert plugin_names(family) == ("needy", "plain", "two-words")


def test_member_is_loaded_by_its_name(family):
    """two-words is two_words.py."""
    assert load_plugin(family, "two-words", kind="thing", error=ConfigError).VALUE == 2


@pytest.mark.parametrize("name", ["plane", "_private", "../plain", "plain.os", "", "os"])
def test_unknown_name_is_refused_with_what_there_is(family, name):
    """The line names the known ones, and for a near miss the nearest."""
    with pytest.raises(ConfigError, match="thing: must be one of needy, plain, two-words") as caught:
        load_plugin(family, name, kind="thing", error=ConfigError)
    assert ("Did you mean plain?" in str(caught.value)) == (name in {"plane", "../plain", "plain.os"})


def test_library_missing_inside_a_member_is_not_taken_for_an_unknown_name(family):
    """The import error of what the member needs comes through."""
    with pytest.raises(ModuleNotFoundError, match="no_such_library_anywhere"):
        load_plugin(family, "needy", kind="thing", error=ConfigError)


def test_entry_point_of_another_package_is_found(family, monkeypatch):
    """What an installed package offers under the family's group is a member too."""
    entry = metadata.EntryPoint("theirs", "math:pi", family)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == family else [])
    assert plugin_names(family) == ("needy", "plain", "theirs", "two-words")
    assert load_plugin(family, "theirs", kind="thing", error=ConfigError) == pytest.approx(3.14159265)
