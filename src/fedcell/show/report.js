document.querySelectorAll("table.sortable").forEach(table => {
  table.querySelectorAll("th").forEach((head, place) => {
    head.firstElementChild.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const value = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
      const rows = Array.from(body.rows).sort((a, b) => {
        const number = text => parseFloat(text.replace(/^[^0-9.+-]+/, ""));  // "> 100" too
        const x = value(a), y = value(b), m = number(x), n = number(y);
        const order = isNaN(m) || isNaN(n) ? x.localeCompare(y) : m - n;
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
});
