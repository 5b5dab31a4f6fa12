// On a small screen the contents start closed, so that the abstract is the first thing seen.
"use strict";

if (window.matchMedia("(max-width: 66rem)").matches) {
  document.querySelectorAll("nav.contents details").forEach((details) => details.removeAttribute("open"));
}
