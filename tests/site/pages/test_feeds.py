"""What machines read of the whole: all cases in it, well-formed, with the address that the site was given."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
import zipfile

import pytest

from failuremap.catalogue.records.schema import schema
from failuremap.site import addresses
from failuremap.site.build import site_files
from failuremap.site.content import Content
from failuremap.site.frame import Frame
from failuremap.site.pages import feeds

ATOM = {"a": "http://www.w3.org/2005/Atom"}
HOME = "https://example.org/failures/"


@pytest.fixture(scope="module")
def made(content) -> dict[str, str | bytes]:
    moved = Content(content.tier, content.cases, content.contracts, HOME)
    return dict(feeds.pages(Frame(moved)))


def test_the_feed_has_an_entry_for_each_mechanism_newest_first(made, content):
    feed = ET.fromstring(made[addresses.FEED])

    ids = [one.text for one in feed.findall("a:entry/a:id", ATOM)]
    days = [one.text for one in feed.findall("a:entry/a:updated", ATOM)]
    assert len(set(ids)) == len(ids) == len(content.families)
    assert days == sorted(days, reverse=True) and feed.find("a:updated", ATOM).text == days[0]
    assert all(one.get("href").startswith(HOME) for one in feed.iter("{http://www.w3.org/2005/Atom}link"))


def test_the_list_of_changes_has_every_case_newest_first(made, content):
    rows = list(csv.DictReader(io.StringIO(made[addresses.MODIFIED])))

    assert {row["id"]: row["sha256"] for row in rows} == {case.id: case.sha256 for case in content.cases}
    assert [row["modified"] for row in rows] == sorted((row["modified"] for row in rows), reverse=True)


def test_the_sitemap_names_pages_that_are_there(made, content):
    locations = [one.text for one in ET.fromstring(made[addresses.SITEMAP]).iter() if one.tag.endswith("}loc")]

    files = site_files(content)
    assert len(set(locations)) == len(locations) > len(content.cases)
    assert [one for one in locations if one.removeprefix(HOME) not in files] == []


def test_robots_are_told_where_the_sitemap_is(made):
    assert f"\nSitemap: {HOME}sitemap.xml\n" in made[addresses.ROBOTS]


def test_the_zip_has_the_record_of_every_case(made, content):
    with zipfile.ZipFile(io.BytesIO(made[addresses.ALL])) as archive:
        records = {json.loads(archive.read(name))["id"]: name for name in archive.namelist()}

    assert records == {case.id: f"failuremap/{case.id}.json" for case in content.cases}


def test_the_schema_is_that_of_the_records(made):
    assert json.loads(made[addresses.SCHEMA]) == schema()
