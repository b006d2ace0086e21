// Name the column of each cell but the first of a row, for narrow pages: live.css shows the names there.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-article table.table")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, place) => {
        if (place && heads[place]) cell.dataset.column = heads[place];
      });
  }
});
