"""What the pages' scripts do for a visitor, in a real browser, and that all is there without them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browsing import kinds_of
from failuremap.catalogue import Sign, mechanisms
from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.mechanism import Mechanism
from failuremap.rules import KNOWN, Layout

NOTHING_WRONG = "Nothing wrong here that this can see: the weights are those of the promised rule."


def found(page: Page) -> list[str]:
    """The addresses of the results, from the site's root."""
    links = page.locator(".found a")
    return [
        re.sub(r".*/((?:mechanism|case)/.*)", r"\1", href) for href in links.evaluate_all("all => all.map(a => a.href)")
    ]


def test_search_is_one_key_away_and_goes_by_the_keyboard_alone(page: Page, disk):
    page.goto(f"{disk}about/index.html")
    page.keyboard.press("/")
    page.keyboard.type("grad norm 8x at 8 GPUs")
    expect(page.locator(".found a").first).to_have_text(mechanisms()["replicas-summed"].title)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{disk}mechanism/replicas-summed/index.html")


def test_results_are_told_to_those_who_do_not_see_them(page: Page, disk):
    page.goto(f"{disk}index.html")
    status = page.locator('form[role="search"] [role="status"]')
    page.fill("#search", "flurbigold xyzzy")
    expect(status).to_contain_text("Nothing found.")
    page.fill("#search", "FA-99241")

    expect(status).to_contain_text("1 result")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{disk}case/FM-001-1/index.html")


def test_a_slash_that_is_typed_into_a_field_stays_there(page: Page, disk):
    page.goto(f"{disk}index.html")
    page.fill("#search", "a")
    page.keyboard.type("/b")

    assert page.input_value("#search") == "a/b"


def test_a_line_of_an_audit_finds_its_record(page: Page, address):
    page.goto(f"{address}index.html")
    page.fill("#search", "✗ wrong  A token on rank 1 weighs 3.10 times a token on rank 0.")
    expect(page.locator(".found a").first).to_be_visible()

    assert found(page)[0] == "mechanism/replica-means-ignore-counts/index.html"


def test_the_digest_of_a_case_is_recomputed_in_the_page(page: Page, address):
    page.goto(f"{address}case/FM-001-3/index.html")
    button = page.get_by_role("button", name="Recompute it here")
    digest = button.get_attribute("data-digest")
    button.click()

    expect(page.locator("button[data-digest] + output")).to_have_text(f"✓ The same: {digest}")


def test_negative_control_another_record_has_another_digest(page: Page, address):
    page.goto(f"{address}case/FM-001-3/index.html")
    button = page.get_by_role("button", name="Recompute it here")
    button.evaluate("(button) => { button.dataset.record = button.dataset.record.replace('1-3', '1-2'); }")
    button.click()

    expect(page.locator("button[data-digest] + output")).to_contain_text("✗ Another: ")


def test_from_a_disk_the_reader_chooses_the_record(page: Page, disk, site: Path):
    page.goto(f"{disk}case/FM-001-3/index.html")
    assert page.evaluate("isSecureContext && Boolean(crypto.subtle)")
    button = page.get_by_role("button", name="Recompute it here")
    button.click()
    page.set_input_files("input[type=file]", site / "case/FM-001-3.json")

    result = page.locator("button[data-digest] ~ output")
    expect(result).to_have_text(f"✓ The same: {button.get_attribute('data-digest')}")


def evidence(entry: Mechanism) -> dict[str, Any]:
    """The answers that a job with the mechanism would give."""
    signs = set(entry.signs[0])
    given = {"promise": "sum" if entry.promised == "sum" else "mean", "signs": sorted(signs), "counts": [[3]]}
    if entry.by_signs_alone or not entry.followed:
        return {**given, "weights": [""], "full": ""}
    full = 4 if Sign.SHORT_WINDOW in signs else 2 if Sign.LONG_WINDOW in signs else None
    over_ranks = Sign.SINGLE_RANK in entry.never and Sign.SINGLE_MICRO_BATCH not in entry.never
    counts = [[3], [5]] if over_ranks and full is None else [[1, 2, 3], [5, 6, 7]]
    cells = {(rank, batch): count for rank, row in enumerate(counts) for batch, count in enumerate(row)}
    weights = KNOWN[entry.followed[0]].coefficients(Layout.grid(cells, full_window=full))
    return {**given, "counts": counts, "weights": [float(weight) for weight in weights], "full": str(full or "")}


ANSWER = """([all, kind]) => all.map(({ promise, signs, counts, weights, full }) => {
  const form = document.getElementById("match");
  form.reset();
  const told = (input) => input.dispatchEvent(new Event("input", { bubbles: true }));
  const set = (name, value) => { form.elements[name].value = value; told(form.elements[name]); };
  const fill = (name, values) => form.querySelectorAll(`[data-${name}]`)
    .forEach((input, place) => { input.value = values[place]; });
  Object.entries({ promise, kind, full, ranks: counts.length, window: counts[0].length }).forEach((one) => set(...one));
  fill("count", counts.flat());
  fill("weight", weights);
  signs.forEach((sign) => { form.querySelector(`[value="${sign}"]`).checked = true; });
  told(form);
  return [...document.querySelectorAll("#answer a")].map((link) => link.href.split("/").at(-2));
})"""


def answered(page: Page, given: list[dict[str, Any]], kind: str = "coefficient") -> list[list[str]]:
    """The slugs that the page answers with, for one set of answers after the other."""
    found: list[list[str]] = page.evaluate(ANSWER, [given, kind])
    return found


def test_answers_lead_to_every_mechanism_that_leaves_signs(page: Page, disk):
    page.goto(f"{disk}symptom/index.html")
    shown = [one for one in mechanisms().values() if one.stages and split_of(one.group) == "open-access"]
    asked = [entry for entry in shown if entry.followed or entry.by_signs_alone]
    found = answered(page, [evidence(entry) for entry in asked])

    missed = {entry.slug: slugs for entry, slugs in zip(asked, found, strict=True) if entry.slug not in slugs}
    assert missed == {}
    assert len(asked) > 30


def test_the_answers_of_a_right_job_lead_to_nothing(page: Page, disk):
    page.goto(f"{disk}symptom/index.html")
    right = {"promise": "mean", "signs": ["ddp-present"], "counts": [[3], [5]], "weights": [1, 1], "full": ""}

    assert answered(page, [right], "share") == [[]]
    expect(page.locator("#answer")).to_have_text(NOTHING_WRONG)


def test_a_ratio_alone_names_what_may_be_and_says_with_which_total(page: Page, disk):
    page.goto(f"{disk}symptom/index.html")
    seen = {"promise": "mean", "signs": [], "counts": [[2], [5]], "weights": [2.5, 1], "full": ""}

    assert "replica-means-ignore-counts" in answered(page, [seen], "ratio")[0]
    expect(page.locator("#answer")).to_contain_text("if all weights together are 1;")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"counts": [[-3], [5]]}, "The count of rank 0, micro-batch 0 is -3: expected 0 or more."),
        ({"weights": [1, ""]}, "The weight of rank 1, micro-batch 0 is missing."),
        ({"full": "1", "counts": [[1, 2]]}, "A full window has no fewer micro-batches than this one."),
    ],
    ids=["negative", "missing", "window"],
)
def test_numbers_that_are_not_used_are_told_with_the_reason(page: Page, disk, given, said):
    page.goto(f"{disk}symptom/index.html")
    right = {"promise": "mean", "signs": [], "counts": [[3], [5]], "weights": [1, 1], "full": ""}

    assert answered(page, [right | given]) == [[]]
    expect(page.locator("#answer")).to_have_text(f"{said} The numbers are not used.")


def test_every_page_is_all_there_without_scripts(chromium: Browser, disk, site):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    for kind in kinds_of(site):
        page.goto(f"{disk}{kind}")
        assert page.locator("main").inner_text().strip(), kind
        assert page.locator("button:visible").count() == 0, kind
    page.fill("#search", "anything")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{disk}mechanism/index.html?q=anything")
    assert page.locator("main a").count() >= 49
    page.goto(f"{disk}symptom/index.html")
    page.locator("summary", has_text="the update holds nan or inf").click()
    assert page.get_by_role("link", name=mechanisms()["zero-total"].title).first.is_visible()
    context.close()


def test_the_index_and_the_tables_are_what_the_site_says_they_are(site: Path):
    index = json.loads((site / "assets/search-index.js").read_text().removeprefix("failuremapIndex = ").rstrip(";\n"))

    assert all((site / path).is_file() for _, path, *_ in index["pages"])
    assert all((site / path).is_file() for path in index["ids"].values())
