"""The HTML in a real browser: Debian's Chromium, headless, driven by Playwright."""

import shutil

import pytest
from playwright.sync_api import Page, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    executable = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if executable is None:
        pytest.fail("no Chromium on PATH, and this test opens the report in one: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=SWITCHES)
        yield started
        started.close()


@pytest.fixture
def visit(browser, rendered):
    """Open the report at a width; complaints of the page are collected, and requests to anywhere else."""
    pages = []

    def at(width: int) -> tuple[Page, list[str]]:
        page = browser.new_page(viewport={"width": width, "height": 800})
        pages.append(page)
        complaints: list[str] = []
        page.on(
            "console",
            lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else complaints.append(f"asked: {r.url}"),
        )
        page.goto(rendered.built.html.as_uri(), wait_until="load")
        # All figures now: one that arrives later moves what a click aims at.
        page.evaluate("document.querySelectorAll('img').forEach((image) => { image.loading = 'eager'; })")
        page.wait_for_function("Array.from(document.images).every((image) => image.complete)")
        return page, complaints

    yield at
    for page in pages:
        page.close()


@pytest.mark.parametrize("width", [400, 1280])
def test_no_complaints_and_no_sideways_scrolling(visit, width):
    page, complaints = visit(width)
    assert (
        page.evaluate("Array.from(document.images).filter((image) => image.naturalWidth === 0).length") == 0
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def test_text_is_readable_on_a_phone(visit):
    page, _ = visit(400)
    sizes = page.evaluate(
        "Array.from(document.querySelectorAll('main p, figcaption, td'))"
        ".map((part) => parseFloat(getComputedStyle(part).fontSize))"
    )
    assert min(sizes) >= 12
    widths = page.evaluate(
        "Array.from(document.querySelectorAll('figure img')).map((image) => image.clientWidth)"
    )
    assert min(widths) >= 340


def column_of(page: Page, head: str) -> int:
    """Number of a column of the latency table, from 0."""
    heads = page.locator("#tbl-latency th").all_inner_texts()
    return next(i for i, text in enumerate(heads) if text.startswith(head))


def test_tables_sort_by_their_numbers_both_ways(visit):
    page, _ = visit(1280)
    head = page.locator("#tbl-latency th", has_text="90th").locator("button")
    column = column_of(page, "90th")

    def values():
        cells = page.locator(f"#tbl-latency tbody td:nth-child({column + 1})").all_inner_texts()
        return [float(cell.split()[0].rstrip("†abc")) for cell in cells]

    unsorted = values()
    head.click()
    assert values() == sorted(unsorted)
    assert values() != unsorted
    head.click()
    assert values() == sorted(unsorted, reverse=True)


def test_numbers_that_are_not_estimable_sort_last(visit):
    page, _ = visit(1280)
    column = column_of(page, "99.9th")
    page.locator("#tbl-latency th").nth(column).locator("button").click()
    cells = page.locator(f"#tbl-latency tbody td:nth-child({column + 1})").all_inner_texts()
    known = [not cell.startswith("n.e.") for cell in cells]
    assert True in known and False in known
    assert known == sorted(known, reverse=True)


def test_tables_sort_from_the_keyboard(visit):
    page, _ = visit(1280)
    head = page.locator("#tbl-ledger th button").first
    head.focus()
    page.keyboard.press("Enter")
    assert page.locator("#tbl-ledger th").first.get_attribute("aria-sort") == "ascending"
