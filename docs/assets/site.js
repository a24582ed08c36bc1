// Tables wider than the page can be scrolled by keyboard.
document$.subscribe(() => requestAnimationFrame(() => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) each.tabIndex = 0;
}));
