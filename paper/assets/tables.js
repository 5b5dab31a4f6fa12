// Sorts the numbered tables by a click (or Enter) on a column's head. A cell sorts by the first number in it,
// so "2.31 [2.10, 2.54]" sorts by its estimate; cells without a number sort as text, after the numbers.
"use strict";

(function () {
  function key(row, column) {
    const cell = row.cells[column];
    const text = cell ? cell.textContent.trim() : "";
    const number = /^[+\u2212-]?\d[\d\u202f]*(\.\d+)?/.exec(text);
    if (!number) return { number: Infinity, text: text };
    return { number: Number(number[0].replace(/\u202f/g, "").replace("\u2212", "-")), text: text };
  }

  function sortBy(table, column, ascending) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).map((row, index) => ({ row: row, index: index, key: key(row, column) }));
    rows.sort(function (a, b) {
      const order = a.key.number === b.key.number ? a.key.text.localeCompare(b.key.text) : a.key.number - b.key.number;
      return (ascending ? order : -order) || a.index - b.index;
    });
    rows.forEach((entry) => body.appendChild(entry.row));
  }

  function prepare(table) {
    const head = table.tHead;
    if (!head || !table.tBodies.length || table.tBodies[0].rows.length < 2) return;
    const cells = Array.from(head.rows[head.rows.length - 1].cells);
    cells.forEach(function (cell, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      while (cell.firstChild) button.appendChild(cell.firstChild);
      cell.appendChild(button);
      button.addEventListener("click", function () {
        const ascending = cell.getAttribute("aria-sort") !== "ascending";
        cells.forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sortBy(table, column, ascending);
      });
    });
  }

  document.querySelectorAll('[id^="tbl-"] table').forEach(prepare);
})();
