"""`failuremap site build` as a user meets it."""

from __future__ import annotations

import pytest

from cli.user import User


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


@pytest.mark.slow
def test_a_site_is_written_and_written_again(user):
    first = user.run("site", "build", "public")
    again = user.run("site", "build", "public", "--address", "https://example.org/failures/")

    assert first[0] == again[0] == 0
    assert " files in public, " in first[1] and first[1].count("\n") == 1
    assert "https://example.org/failures/case/FM-001-1/index.html" in (user.folder / "public/sitemap.xml").read_text()
    assert (user.folder / "public/index.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tmp/none/public",), "folder 'tmp/none/public': there is no folder 'tmp/none'; make it first."),
        (("file",), "folder 'file' is no folder; name a new one, or one that this command wrote."),
        ((".",), "folder '.' can't be replaced; name a folder in it."),
        (
            ("public", "--address", "here"),
            "address='here': expected where the site will stand, with a slash at its end",
        ),
        (("public", "--tier", "sealed"), "'sealed' is not one of 'open', 'member'"),
    ],
)
def test_bad_usage_is_one_line_and_leaves_nothing(user, words, message):
    (user.folder / "file").write_text("mine")

    code, out, err = user.run("site", "build", *words)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ") and message in err
    assert sorted(path.name for path in user.folder.iterdir()) == ["file", "tmp"]
