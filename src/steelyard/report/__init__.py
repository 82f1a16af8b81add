"""One self-contained HTML page about an identification: it opens offline, in any browser, years later."""
