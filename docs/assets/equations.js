// Typesets the equations of a page; the theme swaps pages without a reload.
const typeset = () =>
  document.querySelectorAll(".arithmatex").forEach((span) =>
    renderMathInElement(span, {
      delimiters: [
        { left: "\\(", right: "\\)", display: false },
        { left: "\\[", right: "\\]", display: true },
      ],
    }),
  );
typeof document$ === "undefined" ? document.addEventListener("DOMContentLoaded", typeset) : document$.subscribe(typeset);
