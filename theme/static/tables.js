// What is wider than its page scrolls in its box. The keyboard must reach that box, and need not reach one that is still.
// The theme does this for code that is in sight as the page loads, and for no table.

const FOCUSABLE = { tabindex: "0", role: "group", "aria-label": "a table that scrolls sideways" };

const watch = new ResizeObserver((changes) => {
  for (const box of new Set(changes.map(({ target }) => target.closest(".pst-scrollable-table-container")))) {
    const scrolls = box.scrollWidth > box.clientWidth;
    for (const [name, value] of Object.entries(FOCUSABLE))
      if (scrolls) box.setAttribute(name, value);
      else box.removeAttribute(name);
  }
});
for (const box of document.querySelectorAll(".pst-scrollable-table-container")) {
  watch.observe(box);
  for (const table of box.children) watch.observe(table);
}

// Code that was folded then had no width.
const unfolded = new ResizeObserver((changes) => {
  for (const { target } of changes) if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
});
for (const code of document.querySelectorAll(".highlight pre")) unfolded.observe(code);
